//! The reasons why a plan can't be applied.

use hbase_client::{BytesBinary, TableDescriptor, TableName, TableRegion};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, PartitionRule};

use super::{
    change::{Change, Refusal},
    merge::LeftAlone,
};
use crate::{audit::cut_text, command};

/// Returns a refusal for each region boundary that splits a partition of the rule.
pub(super) fn boundaries(
    table: &TableDescriptor,
    rule: Option<&PartitionRule>,
    regions: &[TableRegion],
) -> Vec<Refusal> {
    let Some(rule) = rule else {
        return Vec::new();
    };
    regions
        .iter()
        .filter_map(|region| {
            let boundary = &region.region.start_key;
            let partition = rule.partition_cut_by(boundary)?;
            Some(Refusal {
                table: table.name.to_string(),
                file: None,
                refused: "boundary-inside-partition",
                what: format!("{} if a partition is {rule}", cut_text(boundary, &partition)),
                boundary: Some(BytesBinary(boundary).to_string()),
                partition: Some(BytesBinary(partition.prefix()).to_string()),
                fix: format!(
                    "choose another rule, or see which regions {} --plan would merge",
                    command::repair_by(&table.name, rule)
                ),
            })
        })
        .collect()
}

pub(super) fn namespace_missing(table: &TableName) -> Refusal {
    let namespace = table.namespace();
    Refusal {
        table: table.to_string(),
        file: None,
        refused: "namespace-missing",
        boundary: None,
        partition: None,
        what: format!("namespace {namespace} does not exist"),
        fix: format!(
            "set create_namespace = true in the file, or run {}",
            command::create_namespace(namespace)
        ),
    }
}

/// The refusal of a change that loses data, by the name of the loss.
pub(super) fn data_loss(change: &Change, loss: &str) -> Refusal {
    Refusal {
        table: change.table.clone(),
        file: None,
        refused: "data-loss",
        boundary: None,
        partition: None,
        what: format!("{} {change}", change.sign()),
        fix: format!("pass {}", command::allow_data_loss(loss)),
    }
}

/// The refusal of a strict plan for a setting that the file does not state.
pub(super) fn not_in_file(table: &TableName, setting: &LeftAlone) -> Refusal {
    Refusal {
        table: table.to_string(),
        file: None,
        refused: "not-in-file",
        boundary: None,
        partition: None,
        what: format!("not in the file: {}", setting.what),
        fix: match &setting.removal {
            Some(removal) => format!("add it there, or remove it: {removal}"),
            None => "add it there".to_owned(),
        },
    }
}

/// The error of applying a plan with refusals.
pub(crate) fn error(table: &TableName, refusals: &[Refusal]) -> Option<Error> {
    let first = refusals.first()?;
    let (kind, hint) = match first.refused {
        "boundary-inside-partition" => (
            ErrorKind::PartitionCut,
            "choose a rule that fits, or first merge the regions of each partition",
        ),
        "namespace-missing" => (
            ErrorKind::Client(ClientErrorKind::NamespaceNotFound),
            "create the namespace, or have the file create it: create_namespace = true",
        ),
        "not-in-file" => (
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            "add the settings to the file, or plan without Plan::strict",
        ),
        _ => (
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            "allow each loss by its name, with Plan::allow_data_loss",
        ),
    };
    let whats: Vec<_> = refusals.iter().map(|refusal| refusal.what.as_str()).collect();
    let error = Error::new(kind, whats.join("; "))
        .at_operation("applying a plan")
        .at_table(table)
        .with_hint(hint);
    Some(match &first.file {
        Some(place) => error.within(place),
        None => error,
    })
}
