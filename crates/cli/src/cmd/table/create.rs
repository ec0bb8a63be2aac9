//! `hbase-txn table create`.

use std::path::PathBuf;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{BytesBinary, FamilyDescriptor, TableDescriptor, TableName},
};
use serde::Serialize;

use super::{
    rule::{Rule, RuleObject},
    split_keys,
};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Create a table with a partition rule, and verify it
///
/// The table has MultiRowMutationEndpoint attached, a rule that keeps the rows of a partition in
/// one region, and the family _txn for records of transactions.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("rule").required(true).args(["prefix_length", "delimiter"]),
    after_help = "Example: hbase-txn table create orders --family f --prefix-length 3 --split ggg --split ppp"
)]
pub(crate) struct Create {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Column family; may be repeated
    #[arg(long, value_name = "F", required = true, value_parser = values::bytes)]
    family: Vec<Bytes>,
    #[command(flatten)]
    rule: Rule,
    /// First row of a region; may be repeated
    #[arg(long, value_name = "KEY", value_parser = values::bytes)]
    split: Vec<Bytes>,
    /// File with the first rows of regions, one a line, in the notation of HBase's shell
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    splits_file: Option<PathBuf>,
    /// Omit the family _txn; transactions with an id are then not possible
    #[arg(long)]
    no_record_family: bool,
    /// Lifetime of records of transactions with an id, in whole seconds; at least 5m, and 3 minutes
    /// longer than a commit may take [default: 24h]
    #[arg(long, value_name = "DURATION", conflicts_with = "no_record_family", allow_hyphen_values = true, value_parser = durations::seconds)]
    replay_window: Option<Ranged<u32>>,
    /// Add the family _version: each transaction then changes a version of its partition, so
    /// updates notice every change
    #[arg(long)]
    partition_version: bool,
    /// Allow transactions across partitions; adds the families _txn and _version
    #[arg(long, conflicts_with = "no_record_family")]
    cross_partition: bool,
    /// Add the family _lock for locks and latches in the partitions of the data
    #[arg(long)]
    lock_family: bool,
}

#[derive(Serialize)]
struct Created {
    table: String,
    rule: RuleObject,
    families: Vec<String>,
    regions: usize,
}

impl Create {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let rule = self.rule()?;
        let splits = match &self.splits_file {
            Some(file) => split_keys::read(file, &rule)?,
            None => self.splits(&rule)?,
        };
        let descriptor = self.descriptor(&rule)?;
        let connection = global.connect().await?;
        let regions = splits.len() + 1;
        let admin = Admin::new(&connection).with_time_for_regions(regions);
        admin.create_table(&descriptor, &splits).await?;
        let table = PartitionedTable::open(&connection, self.name)
            .await
            .map_err(|error| {
                Failure::Refused(format!(
                    "the table is created, but transactions are not possible on it: {}",
                    Failure::from(error)
                ))
            })?;
        let families: Vec<String> = descriptor.families.iter().map(ToString::to_string).collect();
        match global.output {
            Format::Table => output::line(&format!(
                "{}: created; a partition is {}; families {}; {}",
                table.name(),
                table.rule(),
                families.join(", "),
                output::counted(regions, "region"),
            ))?,
            Format::Json => output::json(&Created {
                table: table.name().to_string(),
                rule: table.rule().into(),
                families,
                regions,
            })?,
        }
        Ok(Exit::Done)
    }

    fn rule(&self) -> Result<PartitionRule, Failure> {
        let stated = self.rule.stated()?;
        stated.ok_or_else(|| {
            let what = "specify a partition rule: --prefix-length N or --delimiter D";
            Failure::Unparsable(what.to_owned())
        })
    }

    /// Returns the split keys of the command line. Refuses those that split a partition.
    fn splits(&self, rule: &PartitionRule) -> Result<Vec<Bytes>, Failure> {
        for key in &self.split {
            rule.check_boundary(key)
                .map_err(|error| Failure::Refused(error.to_string()))?;
        }
        Ok(self.split.clone())
    }

    fn descriptor(&self, rule: &PartitionRule) -> Result<TableDescriptor, Failure> {
        let mut descriptor = TableDescriptor::from(self.name.clone())
            .with_partition_rule(rule)
            .with_multi_row_mutation_endpoint();
        for family in &self.family {
            let reserved = TableDescriptor::RESERVED_FAMILIES;
            if let Some((name, what)) = reserved.iter().find(|(name, _)| family == *name) {
                let added = match *name {
                    TableDescriptor::RECORD_FAMILY => "it is added unless --no-record-family is given",
                    TableDescriptor::VERSION_FAMILY => "--partition-version adds it",
                    _ => "--lock-family adds it",
                };
                return Err(Failure::Refused(format!(
                    "family {name} is reserved for {what}; {added}"
                )));
            }
            if descriptor.family(family).is_some() {
                return Err(Failure::Refused(format!(
                    "family {} is given twice; remove one of the two",
                    BytesBinary(family)
                )));
            }
            descriptor = descriptor.with_family(FamilyDescriptor::new(family.clone()));
        }
        if !self.no_record_family {
            descriptor = descriptor.with_record_family();
        }
        if let Some(window) = &self.replay_window {
            let seconds = window.get("--replay-window")?;
            descriptor = descriptor.with_attribute(TableDescriptor::REPLAY_WINDOW, seconds.to_string());
            descriptor.replay_window()?;
        }
        if self.partition_version {
            descriptor = descriptor.with_partition_version();
        }
        if self.cross_partition {
            descriptor = descriptor.with_cross_partition();
        }
        if self.lock_family {
            descriptor = descriptor.with_lock_family();
        }
        Ok(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        create: Create,
    }

    fn create(options: &[&str]) -> Create {
        let line = [&["create", "orders", "--family", "f"], options].concat();
        Line::try_parse_from(line).unwrap().create
    }

    #[rstest]
    #[case(&["--prefix-length", "3", "--split", "xxxm"], "partition xxx in two", "split at xxx")]
    #[case(&["--prefix-length", "2", "--split", "a", "--split", r"b\x00\xff"], r"partition b\x00 in two", "the first 2 bytes")]
    #[case(&["--delimiter", "/", "--split", "c42/7"], "partition c42 in two", "split at c42/")]
    fn a_split_key_inside_a_partition_is_refused(
        #[case] options: &[&str],
        #[case] what: &str,
        #[case] fix: &str,
    ) {
        let create = create(options);
        let rule = create.rule().unwrap();
        let refusal = create.splits(&rule).unwrap_err().to_string();
        assert!(refusal.contains(what) && refusal.contains(fix), "{refusal}");
    }

    #[rstest]
    #[case(&["--prefix-length", "3", "--split", "xxx", "--split", "a"])]
    #[case(&["--delimiter", "/", "--split", "c42/", "--split", "c5"])]
    fn a_split_key_between_partitions_is_taken(#[case] options: &[&str]) {
        let create = create(options);
        assert_eq!(create.splits(&create.rule().unwrap()).unwrap(), create.split);
    }

    #[test]
    fn the_descriptor_states_what_transactions_need() {
        let create = create(&["--prefix-length", "3"]);
        let rule = create.rule().unwrap();
        let descriptor = create.descriptor(&rule).unwrap();
        assert!(descriptor.names_multi_row_mutation_endpoint());
        assert_eq!(PartitionRule::from_descriptor(&descriptor).unwrap(), rule);
        assert!(descriptor.family("_txn").is_some() && descriptor.family("f").is_some());
    }

    #[test]
    fn the_record_family_can_be_left_out() {
        let without = create(&["--prefix-length", "3", "--no-record-family"]);
        let descriptor = without.descriptor(&without.rule().unwrap()).unwrap();
        assert!(descriptor.family("_txn").is_none());
    }

    #[test]
    fn the_family_of_locks_is_there_where_it_is_asked_for() {
        for (options, expected) in [(&["--lock-family"][..], true), (&[], false)] {
            let create = create(&[&["--prefix-length", "3"], options].concat());
            let descriptor = create.descriptor(&create.rule().unwrap()).unwrap();
            assert_eq!(descriptor.family("_lock").is_some(), expected);
        }
    }

    #[test]
    fn transactions_across_partitions_bring_what_they_need() {
        let create = create(&["--prefix-length", "3", "--cross-partition"]);
        let descriptor = create.descriptor(&create.rule().unwrap()).unwrap();
        assert!(descriptor.has_cross_partition() && descriptor.has_partition_version());
        assert!(descriptor.family("_txn").is_some() && descriptor.family("_version").is_some());
    }

    #[test]
    fn the_replay_window_and_the_version_of_partitions_are_stated() {
        let create = create(&[
            "--prefix-length",
            "3",
            "--replay-window",
            "2h",
            "--partition-version",
        ]);
        let descriptor = create.descriptor(&create.rule().unwrap()).unwrap();
        assert_eq!(
            descriptor.replay_window().unwrap(),
            Some(std::time::Duration::from_secs(7_200))
        );
        assert!(descriptor.has_partition_version() && descriptor.family("_version").is_some());
    }

    #[rstest]
    #[case(&["--replay-window", "1500ms"], "--replay-window 1500ms is out of range")]
    #[case(&["--replay-window", "0s"], "--replay-window 0s is out of range")]
    #[case(&["--replay-window", "-1h"], "--replay-window -1h is out of range")]
    #[case(&["--replay-window", "2000000h"], "out of range")]
    #[case(&["--family", "_txn"], "family _txn is reserved for the records")]
    #[case(&["--family", "_version"], "--partition-version adds it")]
    #[case(&["--family", "_lock"], "--lock-family adds it")]
    fn invalid_table_settings_are_refused(#[case] options: &[&str], #[case] why: &str) {
        let create = create(&[&["--prefix-length", "3"], options].concat());
        let refusal = create
            .descriptor(&create.rule().unwrap())
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[test]
    fn a_family_given_twice_is_refused() {
        let twice = create(&["--prefix-length", "3", "--family", "f"]);
        let refusal = twice.descriptor(&twice.rule().unwrap()).unwrap_err().to_string();
        assert!(refusal.contains("family f is given twice"), "{refusal}");
    }

    #[rstest]
    #[case("0")]
    #[case("-1")]
    #[case("32768")]
    #[case("99999999999999999999999999")]
    fn a_length_out_of_range_is_readable_and_refused(#[case] length: &str) {
        create(&["--prefix-length", length]).rule().unwrap_err();
    }

    #[rstest]
    #[case(&["create", "orders", "--family", "f"])]
    #[case(&["create", "orders", "--prefix-length", "3"])]
    #[case(&["create", "orders", "--family", "f", "--prefix-length", "3", "--delimiter", "/"])]
    #[case(&["create", "orders", "--family", "f", "--prefix-length", "3", "--no-record-family", "--replay-window", "1h"])]
    #[case(&["create", "a:b:c", "--family", "f", "--prefix-length", "3"])]
    fn one_rule_and_a_family_are_needed(#[case] line: &[&str]) {
        assert!(Line::try_parse_from(line).is_err());
    }
}
