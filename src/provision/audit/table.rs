//! Everything about one table that would stop a transaction, not only the first. What is a lock table is judged in
//! `lock_table`, what is a latch table in `latch_table`.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::{finding::Finding, latch_table, lock_table};
use crate::{
    client::{Connection, EndpointCall, Table, TableRegion},
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Durability, PartitionRule, TableDescriptor, TableName, TableState},
};

/// How many regions are asked at a time.
const PROBES: usize = 16;
/// How many regions a sentence names; JSON has them all.
const NAMED: usize = 5;

/// Finds everything that would stop a transaction, a lock or a latch on a table. Changes nothing.
///
/// A table without the endpoint and with no rule but one of a single byte is a lock table with the family `D` alone, and a
/// latch table with `C` alone or `C` and `S`: it is checked for what would stop its locks or latches, or let them down.
///
/// Each region is asked for the endpoint. Not seen from here is `hbase.hregion.keyvalue.timestamp.slop.millisecs`: a server
/// that sets it may refuse transactions with an id, because their records are stamped ahead by the table's replay window.
///
/// # Errors
///
/// [`TableNotFound`](ErrorKind::TableNotFound), and what stops the master and `hbase:meta` from answering. That a region does not
/// answer is a finding.
pub async fn audit_table(connection: &Connection, name: &TableName) -> Result<Vec<Finding>> {
    let deadline = Instant::now() + connection.config().operation_timeout();
    let admin = connection.admin();
    let descriptor = admin.descriptor(name).await?;
    let state = admin.state(name).await?;
    let regions = admin.regions(name).await?;
    let mut findings = Vec::new();
    let disabled = matches!(state, TableState::Disabled | TableState::Disabling);
    if disabled {
        findings.push(table_disabled(name, state));
    }
    let mut without_endpoint = Vec::new();
    if !disabled {
        let table = connection.table(name.clone());
        let answers = ask(&table, &regions, deadline).await;
        findings.extend(answers.unavailable);
        without_endpoint = answers.without_endpoint;
    }
    if lock_table::is_one(&descriptor) {
        findings.extend(lock_table::findings(&descriptor, &regions));
        return Ok(findings);
    }
    if latch_table::is_one(&descriptor) {
        findings.extend(latch_table::findings(&descriptor));
        return Ok(findings);
    }
    match PartitionRule::from_descriptor(&descriptor) {
        Ok(rule) => findings.extend(boundaries(name, &rule, &regions)),
        Err(error) => findings.push(no_rule(&descriptor, &error)),
    }
    // Of a table that is disabled no region answers; whether the endpoint is asked for is all that can be seen.
    if !without_endpoint.is_empty() || disabled && !descriptor.names_multi_row_mutation_endpoint() {
        findings.push(endpoint_missing(&descriptor, &regions, without_endpoint));
    }
    findings.extend(weak_durability(&descriptor));
    findings.extend(record_family_missing(&descriptor));
    findings.extend(records_unusable(&descriptor));
    findings.extend(version_family_missing(&descriptor));
    Ok(findings)
}

fn table_disabled(name: &TableName, state: TableState) -> Finding {
    Finding::broken(
        name,
        "table-disabled",
        format!("the table is {state}"),
        "nothing can be read or written",
        format!("in HBase's shell: enable '{name}'"),
    )
}

/// No rule at all, or one that HBase takes without a word and does not follow.
fn no_rule(descriptor: &TableDescriptor, error: &Error) -> Finding {
    let rules = [PartitionRule::prefix_length(1), PartitionRule::delimiter("/")];
    let stated = rules
        .iter()
        .flatten()
        .flat_map(PartitionRule::attributes)
        .any(|(key, value)| {
            let set = descriptor
                .attribute(key)
                .or_else(|| descriptor.configuration.get(key).map(String::as_str));
            match key {
                // Other split policies are no attempt at a rule.
                "SPLIT_POLICY" => set.is_some_and(|set| value.ends_with(set)),
                _ => set.is_some_and(|set| set != "None"),
            }
        });
    let mend = error
        .hint()
        .unwrap_or("make a table with a rule: hbase-txn table create")
        .to_owned();
    let text = error.to_string();
    let what = text
        .strip_suffix(&mend)
        .map_or(text.as_str(), |what| what.trim_end_matches("; "));
    Finding::broken(
        &descriptor.name,
        if stated { "rule-invalid" } else { "rule-missing" },
        what.to_owned(),
        "nothing keeps the rows of a prefix in one region, so nothing can be a transaction",
        mend,
    )
}

fn boundaries(name: &TableName, rule: &PartitionRule, regions: &[TableRegion]) -> Vec<Finding> {
    let names = |region: &TableRegion| BytesBinary(region.region.encoded_name()).to_string();
    let neighbours = regions.iter().zip(regions.iter().skip(1));
    neighbours
        .filter_map(|(before, after)| {
            let boundary = &after.region.start_key;
            let partition = rule.partition_cut_by(boundary)?;
            let (before, after) = (names(before), names(after));
            let finding = Finding::broken(
                name,
                "boundary-inside-partition",
                format!("the region boundary {} cuts partition {partition} in two", BytesBinary(boundary)),
                "its rows lie in two regions and can't change together; transactions on it are refused",
                format!(
                    "in HBase's shell: merge_region '{before}', '{after}'; then, to have a boundary there: split '{name}', \
                     \"{}\"",
                    BytesBinary(partition.first_key())
                ),
            );
            Some(Finding {
                partition: Some(BytesBinary(partition.prefix()).to_string()),
                regions: vec![before, after],
                ..finding
            })
        })
        .collect()
}

/// What regions answer. One that says that it has no endpoint answers.
struct Answers {
    unavailable: Vec<Finding>,
    without_endpoint: Vec<String>,
}

/// Asks each region for the endpoint, by a transaction with nothing in it.
async fn ask(table: &Table, regions: &[TableRegion], deadline: Instant) -> Answers {
    let answers: Vec<_> = stream::iter(regions)
        .map(|region| async move {
            let left = deadline.saturating_duration_since(Instant::now());
            (region, probe(table, region.region.start_key.clone(), left).await)
        })
        .buffered(PROBES)
        .collect()
        .await;
    let mut unavailable = Vec::new();
    let mut without_endpoint = Vec::new();
    for (region, answer) in answers {
        let encoded = BytesBinary(region.region.encoded_name()).to_string();
        match answer {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::EndpointMissing => without_endpoint.push(encoded),
            Err(error) => unavailable.push(Finding {
                regions: vec![encoded.clone()],
                ..Finding::broken(
                    table.name(),
                    "region-unavailable",
                    format!(
                        "region {encoded}, {}, does not answer: {error}",
                        region.region.range_text()
                    ),
                    "its rows can be neither read nor written",
                    "look at the log of its server, and for regions in transition on the master's page"
                        .to_owned(),
                )
            }),
        }
    }
    Answers {
        unavailable,
        without_endpoint,
    }
}

async fn probe(table: &Table, row: Bytes, timeout: Duration) -> Result<()> {
    let call = EndpointCall::new(row, "MultiRowMutationService", "MutateRows", Bytes::new()).idempotent();
    let table = table.clone().with_operation_timeout(timeout);
    table.call_endpoint(&call).await.map(drop)
}

fn endpoint_missing(descriptor: &TableDescriptor, regions: &[TableRegion], missing: Vec<String>) -> Finding {
    let name = &descriptor.name;
    let place = match missing.len() {
        count if count == regions.len() || count == 0 => "the table".to_owned(),
        count => {
            let named = missing
                .iter()
                .take(NAMED)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let more = if count > NAMED { ", …" } else { "" };
            format!("{count} of {} regions: {named}{more}", regions.len())
        }
    };
    let mend = if descriptor.names_multi_row_mutation_endpoint() {
        format!(
            "the table names it, so its servers don't load it: set hbase.coprocessor.user.enabled and \
             hbase.coprocessor.enabled to true there; or the regions are older than the setting: disable and enable \
             '{name}'"
        )
    } else {
        let attached = TableDescriptor::new(name.clone()).with_multi_row_mutation_endpoint();
        let setting = attached.attribute("coprocessor$1").unwrap_or_default();
        format!("in HBase's shell: alter '{name}', 'coprocessor' => '{setting}'")
    };
    Finding {
        regions: missing,
        ..Finding::broken(
            name,
            "endpoint-missing",
            format!("MultiRowMutationEndpoint does not answer on {place}"),
            "it is what applies the mutations of a transaction together",
            mend,
        )
    }
}

fn weak_durability(descriptor: &TableDescriptor) -> Option<Finding> {
    let set = match descriptor.durability() {
        Durability::SkipWal => "SKIP_WAL",
        Durability::AsyncWal => "ASYNC_WAL",
        _ => return None,
    };
    Some(Finding::broken(
        &descriptor.name,
        "weak-durability",
        format!("the table's durability is {set}"),
        "a crash would lose transactions that were called committed, so the table is not opened for them",
        format!(
            "in HBase's shell: alter '{}', DURABILITY => 'SYNC_WAL'",
            descriptor.name
        ),
    ))
}

fn record_family_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    let family = TableDescriptor::RECORD_FAMILY;
    if descriptor.family(family).is_some() {
        return None;
    }
    let wanted = TableDescriptor::new(descriptor.name.clone()).with_record_family();
    let settings: Vec<String> = wanted
        .families
        .iter()
        .flat_map(|family| &family.attributes)
        .map(|(key, value)| format!("{} => '{}'", BytesBinary(key), BytesBinary(value)))
        .collect();
    Some(Finding::note(
        &descriptor.name,
        "record-family-missing",
        format!("the table has no family {family}"),
        "transactions with an id have nowhere to keep their record; those without one need none",
        format!(
            "in HBase's shell: alter '{}', {{NAME => '{family}', {}}}",
            descriptor.name,
            settings.join(", ")
        ),
    ))
}

/// Settings by which records would be lost: the table is not opened with them.
fn records_unusable(descriptor: &TableDescriptor) -> Option<Finding> {
    let error = descriptor.replay_window().err()?;
    let (family, attribute) = (TableDescriptor::RECORD_FAMILY, TableDescriptor::REPLAY_WINDOW);
    let mut without = descriptor.clone();
    without.attributes.remove(attribute.as_bytes());
    let alter = if without.replay_window().is_ok() {
        format!("METADATA => {{'{attribute}' => '86400'}}")
    } else {
        let wanted = without.with_record_family();
        let ttl = wanted.family(family).and_then(|family| family.attribute("TTL"));
        format!("{{NAME => '{family}', TTL => '{}'}}", ttl.unwrap_or_default())
    };
    Some(Finding::broken(
        &descriptor.name,
        "records-unusable",
        error.to_string(),
        "a transaction with an id could be applied again when its record is lost, so the table is not opened for any",
        format!("in HBase's shell: alter '{}', {alter}", descriptor.name),
    ))
}

fn version_family_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    let family = TableDescriptor::VERSION_FAMILY;
    if !descriptor.has_partition_version() || descriptor.family(family).is_some() {
        return None;
    }
    Some(Finding::broken(
        &descriptor.name,
        "version-family-missing",
        format!(
            "the table's attribute {} promises versions of partitions, and it has no family {family} for them",
            TableDescriptor::PARTITION_VERSION
        ),
        "what every transaction changes has no place, so the table is not opened for any",
        format!(
            "in HBase's shell: alter '{}', {{NAME => '{family}', VERSIONS => '1'}}",
            descriptor.name
        ),
    ))
}
