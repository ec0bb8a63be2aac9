//! Restricts calls of a transaction to the region that contains the whole partition.

use std::sync::{Mutex, PoisonError};

use hbase_client::{
    Error as ClientError, Partition, ServerName,
    low_level::{RegionGuard, ServingRegion, Verdict},
};

use crate::error::{ClientErrorKind, Error, Result};

/// Returns the error of a partition whose rows lie in two regions.
pub(super) fn cut(partition: &Partition, range: &str) -> ClientError {
    ClientError::new(
        ClientErrorKind::PartitionCut,
        format!("partition {partition} is cut in two: the region of its first row, {range}, does not have all of it"),
    )
    .with_hint("merge its regions")
}

/// Lets a call pass only to a region that contains the whole partition.
pub(super) struct WholePartition<'a>(pub(super) &'a Partition);

impl RegionGuard for WholePartition<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        match self.0.is_whole_in(serving.region) {
            true => Verdict::Pass,
            false => Verdict::LookAgain(cut(self.0, &serving.region.range_text())),
        }
    }
}

/// Lets a call pass if two guards do, and asks the second only then.
pub(super) struct Both<'a>(pub(super) &'a dyn RegionGuard, pub(super) &'a dyn RegionGuard);

impl RegionGuard for Both<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        match self.0.check(serving) {
            Verdict::Pass => self.1.check(serving),
            refused => refused,
        }
    }

    fn is_for_one_opening(&self) -> bool {
        self.0.is_for_one_opening() || self.1.is_for_one_opening()
    }
}

/// Lets a call pass only to a region that contains the whole partition, and records the servers.
pub(super) struct VisitedServers<'a> {
    partition: &'a Partition,
    servers: Mutex<Vec<ServerName>>,
}

impl<'a> VisitedServers<'a> {
    pub(super) fn of(partition: &'a Partition) -> Self {
        Self {
            partition,
            servers: Mutex::default(),
        }
    }

    fn into_servers(self) -> Vec<ServerName> {
        self.servers.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server that the last attempt went to, or `None` if there was no attempt.
    pub(super) fn into_last(self) -> Option<ServerName> {
        self.into_servers().pop()
    }

    /// Returns the server that the last attempt went to, and so the one that answered.
    pub(super) fn into_answering(self) -> Result<ServerName> {
        self.into_last().ok_or_else(|| {
            Error::new(
                ClientErrorKind::Server,
                "a call was answered without having been made",
            )
        })
    }

    /// Returns the server that all attempts of all calls went to, or `None` if there were several.
    pub(super) fn into_only(self) -> Option<ServerName> {
        let mut servers = self.into_servers();
        servers.dedup();
        match servers.as_slice() {
            [_] => servers.pop(),
            _ => None,
        }
    }
}

impl RegionGuard for VisitedServers<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        let server = serving.server.clone();
        let verdict = WholePartition(self.partition).check(serving);
        if matches!(verdict, Verdict::Pass) {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            servers.push(server);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hbase_client::{PartitionRule, RegionInfo};

    #[test]
    fn server_that_saw_part_of_a_trial_is_not_the_only_one() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        let partition = rule.partition("xxx").unwrap();
        // The meta region contains all rows.
        let region = RegionInfo::meta();
        let server = |start_code| ServerName {
            host: "rs1".into(),
            port: 16_020,
            start_code,
        };
        for (start_codes, only) in [
            (&[1, 1][..], Some(1)),
            (&[1, 2], None),
            (&[1, 2, 1], None),
            (&[], None),
        ] {
            let visited = VisitedServers::of(&partition);
            for start_code in start_codes {
                let _ = visited.check(ServingRegion {
                    region: &region,
                    server: &server(*start_code),
                    opening: 1,
                    opened_at: None,
                });
            }
            assert_eq!(visited.into_only(), only.map(server), "{start_codes:?}");
        }
    }
}
