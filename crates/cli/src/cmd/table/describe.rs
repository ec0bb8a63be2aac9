//! `hbase-txn table describe`.

use std::collections::BTreeMap;

use bytes::Bytes;
use clap::Args;
use hbase_txn::{
    PartitionRule,
    admin::Admin,
    client::{BytesBinary, FamilyDescriptor, TableDescriptor, TableName, TableRegion, TableState},
};
use serde::Serialize;

use super::rule::RuleObject;
use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output::{self, Shown},
};

/// Show a table's families, attributes, partition rule and regions
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table describe orders")]
pub(crate) struct Describe {
    /// Table, with its namespace if it has one
    name: TableName,
}

#[derive(Serialize)]
struct TableObject<'a> {
    table: String,
    state: String,
    rule: Option<RuleObject>,
    families: Vec<FamilyObject<'a>>,
    attributes: BTreeMap<String, String>,
    regions: Vec<RegionObject<'a>>,
}

#[derive(Serialize)]
struct FamilyObject<'a> {
    family: Shown<'a>,
    attributes: BTreeMap<String, String>,
    configuration: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct RegionObject<'a> {
    start: Shown<'a>,
    end: Shown<'a>,
    region: Shown<'a>,
    server: Option<String>,
}

impl Describe {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let descriptor = admin.descriptor(&self.name).await?;
        let state = admin.state(&self.name).await?;
        let regions = admin.regions(&self.name).await?;
        match global.output {
            Format::Json => output::json(&object(&descriptor, state, &regions))?,
            Format::Table => output::page(&page(&descriptor, state, &regions))?,
        }
        Ok(Exit::Done)
    }
}

fn object<'a>(
    descriptor: &'a TableDescriptor,
    state: TableState,
    regions: &'a [TableRegion],
) -> TableObject<'a> {
    TableObject {
        table: descriptor.name.to_string(),
        state: state.to_string(),
        rule: PartitionRule::from_descriptor(descriptor)
            .ok()
            .map(|rule| (&rule).into()),
        families: descriptor
            .families
            .iter()
            .map(|family| FamilyObject {
                family: Shown(&family.name),
                attributes: attributes(&family.attributes),
                configuration: configuration(family),
            })
            .collect(),
        attributes: attributes(&descriptor.attributes),
        regions: regions
            .iter()
            .map(|TableRegion { region, server, .. }| RegionObject {
                start: Shown(&region.start_key),
                end: Shown(&region.end_key),
                region: Shown(region.encoded_name()),
                server: server.as_ref().map(ToString::to_string),
            })
            .collect(),
    }
}

fn page(descriptor: &TableDescriptor, state: TableState, regions: &[TableRegion]) -> String {
    let rule = match PartitionRule::from_descriptor(descriptor) {
        Ok(rule) => format!("a partition is {rule}"),
        Err(_) => format!(
            "no usable partition rule; see: hbase-txn table check {}",
            descriptor.name
        ),
    };
    let families = output::table(
        ["family", "attributes"],
        descriptor.families.iter().map(|family: &FamilyDescriptor| {
            let listed = |settings: &BTreeMap<String, String>, separator| {
                let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
                settings.collect::<Vec<_>>().join(separator)
            };
            let mut settings = listed(&attributes(&family.attributes), " ");
            if !family.configuration.is_empty() {
                settings += &format!(" CONFIGURATION={{{}}}", listed(&configuration(family), ", "));
            }
            [family.to_string(), settings]
        }),
    );
    let attributes = output::table(
        ["attribute", "value"],
        attributes(&descriptor.attributes)
            .into_iter()
            .map(|(key, value)| [key, value]),
    );
    let regions = output::table(
        ["region", "range", "server"],
        regions.iter().map(|TableRegion { region, server, .. }| {
            [
                region.encoded_text(),
                region.range_text(),
                server
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string),
            ]
        }),
    );
    format!(
        "{} is {state}; {rule}\n\n{families}\n\n{attributes}\n\n{regions}",
        descriptor.name
    )
}

fn attributes(attributes: &BTreeMap<Bytes, Bytes>) -> BTreeMap<String, String> {
    let text = |bytes: &Bytes| BytesBinary(bytes).to_string();
    attributes
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

fn configuration(family: &FamilyDescriptor) -> BTreeMap<String, String> {
    let text = |text: &String| BytesBinary(text.as_bytes()).to_string();
    let settings = family.configuration.iter();
    settings.map(|(key, value)| (text(key), text(value))).collect()
}
