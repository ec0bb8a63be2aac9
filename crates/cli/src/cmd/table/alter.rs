//! `hbase-txn table alter`.

use bytes::Bytes;
use clap::Args;
use hbase_provision::{Plan, TableAlteration};
use hbase_txn::client::TableName;

use super::rule::Rule;
use crate::{
    cmd::{provision, switch::OnOff},
    exit::{Failure, Outcome},
    global::Global,
    values,
};

/// Change single settings of a table, and verify them
///
/// HBase reopens all regions of the table at once, unless its master has
/// `hbase.reopen.table.regions.progressive.batch.size.max` (2.6 and later): calls to a region wait until
/// it is open again. A rule that contradicts region boundaries is refused; a change that loses data is
/// refused unless --allow-data-loss names it; the exit status is 3 then. Other processes of hbase-txn that
/// change the table wait; their changes are kept. In JSON each change is an object, as printed by
/// `provision apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table alter orders --prefix-length 3 --endpoint --record-family")]
pub(crate) struct Alter {
    /// Table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    rule: Rule,
    /// Attach MultiRowMutationEndpoint
    #[arg(long)]
    endpoint: bool,
    /// Add the family _txn for the records of transactions, or fix its settings
    #[arg(long)]
    record_family: bool,
    /// Add the family _version: each transaction then changes a version of its partition
    #[arg(long)]
    partition_version: bool,
    /// Allow transactions across partitions; adds the families _txn and _version
    #[arg(long)]
    cross_partition: bool,
    /// Add the family _lock for locks and latches in the partitions of the data
    #[arg(long)]
    lock_family: bool,
    /// Add a column family; may be repeated
    #[arg(long, value_name = "F", value_parser = values::bytes)]
    family: Vec<Bytes>,
    /// Whether HBase splits the table's regions
    #[arg(long, value_enum)]
    splits: Option<OnOff>,
    /// Whether HBase merges the table's regions
    #[arg(long, value_enum)]
    merges: Option<OnOff>,
    /// Set an attribute of the table, or, without a value, remove it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    attribute: Vec<(Bytes, Bytes)>,
    /// Set an attribute of a family; may be repeated
    #[arg(long, value_name = "F:KEY=VALUE", value_parser = values::cell)]
    family_attribute: Vec<values::CellValue>,
    /// Add a setting to a family's CONFIGURATION, or, without a value, remove it; may be repeated
    #[arg(long, value_name = "F:KEY=VALUE", value_parser = family_setting)]
    family_configuration: Vec<(Bytes, String, String)>,
    /// Also make this change, which loses data, as its refusal names it: TABLE:FAMILY:ATTRIBUTE for a
    /// lowered setting; may be repeated
    #[arg(long, value_name = "LOSS")]
    allow_data_loss: Vec<String>,
    /// Also set the attribute hbase-txn.last-change of the table: time, user and host
    #[arg(long)]
    sign: bool,
}

impl Alter {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let alteration = self.alteration()?;
        if alteration.is_empty() {
            return Err(Failure::Unparsable(
                "nothing to change: specify an option".to_owned(),
            ));
        }
        let connection = global.connect().await?;
        let plan = Plan::read_alteration(&connection, &self.name, &alteration).await?;
        let plan = self.allow_data_loss.iter().fold(plan, Plan::allow_data_loss);
        let plans = provision::signed(vec![plan], self.sign, &connection).await?;
        provision::apply(global, &connection, plans).await
    }

    fn alteration(&self) -> Result<TableAlteration, Failure> {
        let mut alteration = TableAlteration::new();
        if let Some(rule) = self.rule.stated()? {
            alteration = alteration.rule(rule);
        }
        for (asked, add) in [
            (self.endpoint, TableAlteration::endpoint as fn(_) -> _),
            (self.record_family, TableAlteration::record_family),
            (self.partition_version, TableAlteration::partition_version),
            (self.cross_partition, TableAlteration::cross_partition),
            (self.lock_family, TableAlteration::lock_family),
        ] {
            if asked {
                alteration = add(alteration);
            }
        }
        for family in &self.family {
            alteration = alteration.family(family.clone());
        }
        if let Some(splits) = self.splits {
            alteration = alteration.splits(splits.is_on());
        }
        if let Some(merges) = self.merges {
            alteration = alteration.merges(merges.is_on());
        }
        for (key, value) in &self.attribute {
            alteration = if value.is_empty() {
                alteration.without_attribute(key.clone())
            } else {
                alteration.attribute(key.clone(), value.clone())
            };
        }
        for setting in &self.family_attribute {
            let column = setting.column.clone();
            alteration = alteration.family_attribute(column.family, column.qualifier, setting.value.clone());
        }
        for (family, key, value) in &self.family_configuration {
            alteration = if value.is_empty() {
                alteration.without_family_configuration(family.clone(), key)
            } else {
                alteration.family_configuration(family.clone(), key, value)
            };
        }
        Ok(alteration)
    }
}

/// Parses `KEY=VALUE`.
fn setting(text: &str) -> Result<(Bytes, Bytes), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or("an attribute is written KEY=VALUE")?;
    let read = |text: &str| values::bytes(text).map_err(|error| error.to_string());
    Ok((read(key)?, read(value)?))
}

/// Parses `F:KEY=VALUE`.
fn family_setting(text: &str) -> Result<(Bytes, String, String), String> {
    let refusal = || "a setting of a family is written F:KEY=VALUE".to_owned();
    let (family, setting) = text.split_once(':').ok_or_else(refusal)?;
    let (key, value) = values::setting(setting).map_err(|_| refusal())?;
    let family = values::bytes(family).map_err(|error| error.to_string())?;
    Ok((family, key, value))
}
