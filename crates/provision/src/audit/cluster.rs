//! Problems of a cluster that affect transactions on all of its tables.

use std::{
    mem,
    time::{Duration, SystemTime},
};

use hbase_admin::{Admin, ClusterInfo, ServerLoad, low_level::AdminCalls};
use hbase_client::{Environment as _, TableName};
use hbase_txn::Result;
use tokio::{time::Instant, try_join};

use super::{finding::Finding, name::Name};
use crate::{
    command,
    giant::{RegionLoads, by_region},
};

/// The tolerated lead of a server's clock over this machine's.
const AHEAD: Duration = Duration::from_secs(2);
/// The tolerated lag: a server reports every 3 s, and the master returns the time of the last
/// report.
const BEHIND: Duration = Duration::from_secs(15);
/// Servers before this version silently ignore conditions and apply the conditional mutations.
const CONDITIONS: [u32; 3] = [2, 4, 5];

/// The state of the cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) info: ClusterInfo,
    /// The servers, without their regions.
    servers: Vec<ServerLoad>,
    pub(super) loads: RegionLoads,
    splits: bool,
    merges: bool,
    /// The loads were reported between these two times of this machine's clock.
    asked: SystemTime,
    answered: SystemTime,
}

impl Cluster {
    pub(super) async fn observe(admin: &Admin, deadline: Instant) -> Result<Self> {
        let admin = admin.until(deadline);
        let (info, splits, merges) = try_join!(
            admin.cluster_info(),
            admin.is_split_enabled(),
            admin.is_merge_enabled(),
        )?;
        let environment = admin.connection().environment();
        let asked = environment.wall_clock();
        let mut servers = admin.server_loads().await?;
        let answered = environment.wall_clock();
        let regions = servers.iter_mut().map(|server| mem::take(&mut server.regions));
        let loads = by_region(regions.flatten());
        Ok(Self {
            info,
            servers,
            loads,
            splits,
            merges,
            asked,
            answered,
        })
    }

    /// Returns the problems that affect transactions on any table.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = self.switched_off();
        findings.extend(self.version());
        findings.extend(self.dead_servers());
        findings.extend(self.clocks());
        findings
    }

    pub(super) fn switched_off(&self) -> Vec<Finding> {
        let off = |switch: &str, name, why| {
            Finding::broken(
                name,
                format!("{switch}s are switched off for the whole cluster"),
                why,
            )
            .fixed_by(command::switch_on(switch), "")
        };
        let mut findings = Vec::new();
        if !self.splits {
            findings.push(off(
                "split",
                Name::SplitsSwitchedOff,
                "regions grow without limit, and none can be split to fix a table",
            ));
        }
        if !self.merges {
            findings.push(off(
                "merge",
                Name::MergesSwitchedOff,
                "a boundary inside a partition can't be removed",
            ));
        }
        findings
    }

    fn version(&self) -> Option<Finding> {
        let version = &self.info.version;
        let numbers: Vec<u32> = version
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|number| number.parse().ok())
            .take(CONDITIONS.len())
            .collect();
        let old = numbers.len() == CONDITIONS.len() && numbers[..] < CONDITIONS[..];
        old.then(|| {
            Finding::broken(
                Name::VersionTooOld,
                format!("the master is HBase {version}"),
                "servers before 2.4.5 ignore conditions and apply the mutations under them, so none are sent there",
            )
            .looked_into_by("hbase version", "upgrade HBase to 2.4.5 or later; each server reports its own version")
        })
    }

    pub(super) fn dead_servers(&self) -> Option<Finding> {
        let dead: Vec<_> = self.info.dead_servers.iter().map(ToString::to_string).collect();
        if dead.is_empty() {
            return None;
        }
        Some(
            Finding::note(
                Name::ServersDead,
                format!("region servers are down: {}", dead.join(", ")),
                "until their regions are served elsewhere, transactions on them wait",
            )
            .fixed_by(
                "hbase-daemon.sh start regionserver".to_owned(),
                "on their hosts, or remove the servers; a server that is up again on its port is no longer listed",
            ),
        )
    }

    /// Returns notes on clocks that differ too much from this machine's.
    pub(super) fn clocks(&self) -> Vec<Finding> {
        let distant = self.servers.iter().filter_map(|load| {
            let distance = self.distance(load.reported?)?;
            Some((load, distance))
        });
        distant
            .map(|(load, distance)| {
                Finding::note(
                    Name::ClockDistant,
                    format!("the clock of region server {} is {distance} of this machine's", load.server),
                    "records of transactions are stamped ahead by a clock, and are refused where two are 60 s apart",
                )
                .fixed_by(
                    "timedatectl set-ntp true".to_owned(),
                    "on its host, or by the time service that it uses",
                )
            })
            .collect()
    }

    /// Describes how far a clock with this time is ahead or behind; `None` if that is tolerated.
    fn distance(&self, shown: SystemTime) -> Option<String> {
        match (
            shown.duration_since(self.answered),
            self.asked.duration_since(shown),
        ) {
            (Ok(ahead), _) if ahead > AHEAD => Some(format!("{} s ahead", ahead.as_secs())),
            (_, Ok(behind)) if behind > BEHIND => Some(format!("{} s behind", behind.as_secs())),
            _ => None,
        }
    }

    /// Returns a finding for the table's regions in transition.
    pub(super) fn in_transition(&self, table: &TableName) -> Option<Finding> {
        let regions = self.info.regions_in_transition.iter();
        let ours: Vec<_> = regions
            .filter(|transition| transition.region.table == *table)
            .collect();
        let name = |index: usize| ours[index].region.encoded_text();
        let first = ours.first()?;
        Some(
            Finding::note(
                Name::RegionsInTransition,
                format!(
                    "{} of its regions are in transition: {} is {}",
                    ours.len(),
                    name(0),
                    first.state
                ),
                "until they are open, transactions on them wait",
            )
            .of_table(table)
            .in_regions((0..ours.len()).map(name).collect())
            .looked_into_by(
                &command::hbck(table),
                "none, if it passes; else read the master's page and log; hbase hbck -h lists the commands that reassign a region",
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(version: &str) -> Cluster {
        let now = SystemTime::now();
        Cluster {
            info: ClusterInfo {
                cluster_id: String::new(),
                version: version.to_owned(),
                master: None,
                backup_masters: Vec::new(),
                live_servers: Vec::new(),
                dead_servers: Vec::new(),
                regions_in_transition: Vec::new(),
            },
            servers: Vec::new(),
            loads: RegionLoads::new(),
            splits: true,
            merges: true,
            asked: now,
            answered: now + Duration::from_secs(1),
        }
    }

    #[test]
    fn a_version_without_conditions_is_found() {
        for old in ["2.4.4", "2.3.7-hadoop3", "1.7.2", "2.0.0"] {
            assert_eq!(cluster(old).findings()[0].finding, "version-too-old", "{old}");
        }
        for new in ["2.4.5", "2.4.18", "2.6.4-hadoop3", "3.0.0-alpha-4", "", "unknown"] {
            assert!(cluster(new).findings().is_empty(), "{new}");
        }
    }

    #[test]
    fn clock_is_reported_if_the_call_time_does_not_explain_it() {
        let cluster = cluster("2.6.4");
        let seconds = Duration::from_secs;
        for near in [
            cluster.asked,
            cluster.asked - seconds(10),
            cluster.answered,
            cluster.answered + seconds(2),
        ] {
            assert_eq!(cluster.distance(near), None);
        }
        assert_eq!(
            cluster.distance(cluster.answered + seconds(30)).unwrap(),
            "30 s ahead"
        );
        assert_eq!(
            cluster.distance(cluster.asked - seconds(40)).unwrap(),
            "40 s behind"
        );
    }

    #[test]
    fn both_switches_are_looked_at() {
        let cluster = Cluster {
            splits: false,
            merges: false,
            ..cluster("2.6.4")
        };
        let found = cluster.findings();
        let commands: Vec<_> = found.iter().flat_map(|finding| &finding.command).collect();
        assert_eq!(
            commands,
            ["hbase-txn split-switch on", "hbase-txn merge-switch on"]
        );
    }
}
