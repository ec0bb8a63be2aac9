//! The answers of a table's regions to queries for the endpoint.

use std::{collections::HashSet, time::Duration};

use hbase_client::{Table, TableDescriptor, TableRegion};
use hbase_txn::{ClientErrorKind, Error};
use tokio::time::Instant;

use super::{finding::Finding, name::Name};
use crate::{command, probe};

/// The maximum number of regions named in a text; the finding lists all.
const NAMED: usize = 5;

/// The maximum time for the regions of a table to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answers of a table's regions.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Regions without the endpoint.
    without: Vec<String>,
    /// Regions that accept a condition that can't hold.
    deaf: Vec<String>,
    /// Regions that refused the user, and one of the refusals.
    refused: Vec<String>,
    refusal: Option<Error>,
    /// Regions that did not answer, and the reasons.
    silent: Vec<(String, String, Error)>,
}

impl Answers {
    /// Queries each region for the endpoint, with conditions but no mutations.
    pub(super) async fn ask(
        table: &Table,
        descriptor: &TableDescriptor,
        regions: &[TableRegion],
        deadline: Instant,
    ) -> Self {
        let mut answers = Self::default();
        let deadline = patience(deadline);
        for (region, answer) in probe::ask(table, descriptor, regions, deadline).await {
            let name = region.region.encoded_text();
            match answer {
                Ok(true) => {}
                Ok(false) => answers.deaf.push(name),
                Err(error) if error.kind() == ClientErrorKind::EndpointMissing => answers.without.push(name),
                Err(error) if error.kind() == ClientErrorKind::AccessDenied => {
                    answers.refused.push(name);
                    answers.refusal.get_or_insert(error);
                }
                Err(error) => answers.silent.push((name, region.region.range_text(), error)),
            }
        }
        answers
    }

    /// Whether any region did not answer.
    pub(super) fn any_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Returns findings for regions whose rows are unreachable.
    pub(super) fn unavailable(&self, descriptor: &TableDescriptor) -> Vec<Finding> {
        let silent = self.silent.iter();
        silent
            .map(|(name, range, error)| {
                Finding::broken(
                    Name::RegionUnavailable,
                    format!("region {name}, {range}, does not answer: {error}"),
                    "its rows can't be read or written",
                )
                .of_table(&descriptor.name)
                .in_regions(vec![name.clone()])
                .looked_into_by(
                    &command::hbck(&descriptor.name),
                    "read the log of its server, and the regions in transition on the master's page",
                )
            })
            .collect()
    }

    /// Returns the problems that keep the endpoint from serving transactions.
    pub(super) fn findings(
        &self,
        descriptor: &TableDescriptor,
        regions: &[TableRegion],
        user: &str,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.without.is_empty() {
            findings.push(missing(descriptor, regions.len(), &self.without));
        }
        if !self.deaf.is_empty() {
            let finding = Finding::broken(
                Name::ConditionsIgnored,
                format!("conditions are ignored on {}", place(regions.len(), &self.deaf)),
                "mutations would be applied even if their condition does not hold, so none are sent there",
            );
            findings.push(
                finding
                    .of_table(&descriptor.name)
                    .in_regions(self.deaf.clone())
                    .looked_into_by(
                        "hbase version",
                        "upgrade the servers of these regions to HBase 2.4.5 or later; each reports its own version",
                    ),
            );
        }
        if let Some(refusal) = &self.refusal {
            let finding = Finding::broken(
                Name::EndpointRefused,
                format!(
                    "user {user} may not call the endpoint on {}: {}",
                    place(regions.len(), &self.refused),
                    refusal.what()
                ),
                "transactions of this user are refused",
            );
            findings.push(
                finding
                    .of_table(&descriptor.name)
                    .in_regions(self.refused.clone())
                    .fixed_by(command::grant(user, &descriptor.name), command::GRANT_REMARK),
            );
        }
        findings
    }
}

/// Returns the deadline for answers of regions; leaves time for the rest if a server hangs.
pub(super) fn patience(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    Instant::now() + PATIENCE.min(left / 2)
}

/// The regions of a disabled table do not answer, so only its descriptor can be checked for the
/// endpoint.
pub(super) fn unnamed(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Option<Finding> {
    let missed = !descriptor.names_multi_row_mutation_endpoint();
    missed.then(|| missing(descriptor, regions.len(), &[]))
}

fn missing(descriptor: &TableDescriptor, regions: usize, without: &[String]) -> Finding {
    let name = &descriptor.name;
    let finding = Finding::broken(
        Name::EndpointMissing,
        format!(
            "MultiRowMutationEndpoint does not answer on {}",
            place(regions, without)
        ),
        "the endpoint applies the mutations of a transaction together",
    );
    let finding = finding.of_table(name).in_regions(without.to_vec());
    if descriptor.names_multi_row_mutation_endpoint() {
        finding.fixed_by(
            command::of_table("reopen", name),
            "the table names the endpoint, so its regions were opened before that, or its servers don't load it; in that case set \
             CoprocessorWhitelistMasterObserver on the masters (coprocessor/security.md), then hbase.coprocessor.enabled \
             and hbase.coprocessor.user.enabled to true on the region servers, and restart them",
        )
    } else {
        finding.fixed_by(command::alter(name, &["--endpoint"]), "")
    }
}

/// Names these regions, or the table if they are all of its regions.
fn place(regions: usize, concerned: &[String]) -> String {
    match concerned.iter().collect::<HashSet<_>>().len() {
        count if count == regions || count == 0 => "the table".to_owned(),
        count => {
            let named = concerned[..count.min(NAMED)].join(", ");
            let more = if count > NAMED { ", …" } else { "" };
            format!("{count} of {regions} regions: {named}{more}")
        }
    }
}
