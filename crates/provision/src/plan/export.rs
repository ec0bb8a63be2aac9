//! Writes a file that describes an existing table.

use bytes::Bytes;
use hbase_client::{Connection, IntoTableName, TableDescriptor};
use hbase_txn::{ClientErrorKind, Error, Result, lock::LockTableOptions};

use super::{Found, difference, look, merge};
use crate::{
    attribute::RULE_ATTRIBUTES,
    audit::is_for_locks_or_latches,
    file::{TableFile, TableKind, contents},
};

/// An existing table as a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedTable {
    /// The contents of the file.
    pub contents: String,
    /// What a table that is created from the file has in another form.
    pub notes: Vec<String>,
}

/// Writes a table file that describes an existing table: its families, attributes, partition rule,
/// endpoint and split keys. Values that equal HBase's defaults are left out.
///
/// Applying the file where the table does not exist creates the table with the same settings, and
/// exporting that one returns the same contents.
///
/// # Errors
///
/// Returns [`TableNotFound`](ClientErrorKind::TableNotFound), or
/// [`InvalidInput`](ClientErrorKind::InvalidInput) if the table has a setting that no table file
/// states: no partition rule, region boundaries inside partitions, a weak durability, other settings
/// of a reserved family.
///
/// # Examples
///
/// ```
/// use hbase_provision::{Plan, TableFile, export_table};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// # let text = "table = 'orders'\npartition = {prefix_length = 3}\nfamily = [{name = 'f'}]";
/// # Plan::read(&connection, &TableFile::parse("t", text)?).await?.apply(&connection, &()).await?;
/// let exported = export_table(&connection, "orders").await?;
/// let file = TableFile::parse("orders.toml", &exported.contents)?;
/// assert!(Plan::read(&connection, &file).await?.changes().is_empty());
/// # Ok(()) });
/// ```
pub async fn export_table(connection: &Connection, table: impl IntoTableName) -> Result<ExportedTable> {
    let table = &table.into_table_name()?;
    let in_context = |error: Error| error.at_operation("exporting the table").at_table(table);
    let exported = match look(connection, table).await {
        Ok(Some(found)) => export(&found),
        Ok(None) => Err(Error::new(ClientErrorKind::TableNotFound, "no such table")),
        Err(error) => Err(error),
    };
    exported.map_err(in_context)
}

fn export(found: &Found) -> Result<ExportedTable> {
    let table = &found.descriptor;
    let starts = found.regions.iter().map(|region| &region.region.start_key);
    let mut split_keys: Vec<Bytes> = starts.filter(|start| !start.is_empty()).cloned().collect();
    split_keys.sort();
    split_keys.dedup();
    let bucketed = match table.family(LockTableOptions::FAMILY) {
        Some(_) => TableKind::Locks,
        None => TableKind::Latches,
    };
    // A table for transactions may look like one for locks.
    let kinds = if is_for_locks_or_latches(table, &found.regions) {
        vec![bucketed, TableKind::Transactions]
    } else {
        vec![TableKind::Transactions]
    };
    let mut first_error = None;
    for kind in kinds {
        match described(table, kind, &split_keys) {
            Ok(exported) => return Ok(exported),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| Error::invalid("no table file can describe it")))
}

/// Returns the file for a table of this kind, if its file states all settings.
fn described(table: &TableDescriptor, kind: TableKind, split_keys: &[Bytes]) -> Result<ExportedTable> {
    let contents = contents(table, kind, split_keys)?;
    let file = TableFile::parse("its file", &contents)?;
    let wanted = merge::merged(table, &file);
    let is_of_rule = |name: &str| name == "SPLIT_POLICY" || RULE_ATTRIBUTES.contains(&name);
    let (of_rule, changed): (Vec<_>, Vec<_>) = difference::difference(table, &wanted)
        .into_iter()
        .partition(|change| change.name.as_deref().is_some_and(is_of_rule));
    let left = merge::left_alone(table, &file).into_iter();
    let mut unstated: Vec<_> = left.map(|setting| setting.what).collect();
    unstated.extend(changed.iter().map(|change| format!("{} {change}", change.sign())));
    unstated.extend(table.configuration.keys().cloned());
    if !unstated.is_empty() {
        return Err(Error::invalid(format!(
            "a table file can't state these settings: {}",
            unstated.join(", ")
        )));
    }
    let mut notes = Vec::new();
    if !of_rule.is_empty() {
        notes.push("the partition rule will have the attributes that this release sets".to_owned());
    }
    if file.split_keys != split_keys {
        notes.push(format!(
            "the {} regions begin at other rows than those of the file",
            split_keys.len() + 1
        ));
    }
    Ok(ExportedTable { contents, notes })
}
