//! A table's partition rule, and boundaries that violate it.

use bytes::Bytes;
use hbase_client::{BytesBinary, TableDescriptor, TableName, TableRegion};
use hbase_txn::{Error, Partition, PartitionRule};

use super::{finding::Finding, name::Name};
use crate::command;

/// The finding for a missing rule, or for one that HBase silently accepts and does not follow.
pub(super) fn missing(descriptor: &TableDescriptor, error: &Error) -> Finding {
    let name = if is_attempted(descriptor) {
        Name::RuleInvalid
    } else {
        Name::RuleMissing
    };
    let finding = Finding::broken(
        name,
        error.what(),
        "nothing keeps the rows of a prefix in one region, so transactions are not possible",
    );
    let finding = finding.of_table(&descriptor.name);
    match meant(descriptor) {
        Some(setting) => finding.fixed_by(
            command::alter(&descriptor.name, &[setting.0, &setting.1]),
            "if that is what its attributes mean",
        ),
        None => finding.fixed_by(
            command::alter(&descriptor.name, &["--prefix-length", "N"]),
            "N: the length in bytes of the prefix of rows that change together; or --delimiter D: the byte string after that prefix",
        ),
    }
}

/// Whether any attribute belongs to a partition rule.
pub(super) fn is_attempted(descriptor: &TableDescriptor) -> bool {
    let rules = [PartitionRule::prefix_length(1), PartitionRule::delimiter("/")];
    let mut attributes = rules.iter().flatten().flat_map(PartitionRule::attributes);
    attributes.any(|(key, value)| {
        let set = descriptor
            .attribute(key)
            .or_else(|| descriptor.configuration.get(key).map(String::as_str));
        match key {
            // Other split policies do not belong to a partition rule.
            "SPLIT_POLICY" => set.is_some_and(|set| value.ends_with(set)),
            _ => set.is_some_and(|set| set != "None"),
        }
    })
}

/// Guesses the intended rule from the attributes: a prefix length or a delimiter.
fn meant(descriptor: &TableDescriptor) -> Option<(&'static str, String)> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let attributes = descriptor.attributes.iter();
    let settings = attributes.filter_map(|(key, value)| Some((text(key)?.to_lowercase(), text(value)?)));
    let mut meant = settings.filter_map(|(key, value)| {
        let length = value.trim().parse().ok();
        if key.contains("prefix") && key.contains("length") {
            let length = length.filter(|length| PartitionRule::prefix_length(*length).is_ok())?;
            Some(("--prefix-length", length.to_string()))
        } else if key.contains("delimiter") && !value.is_empty() {
            let shown = BytesBinary(value.as_bytes()).to_string();
            Some(("--delimiter", shown))
        } else {
            None
        }
    });
    let first = meant.next()?;
    meant.all(|other| other == first).then_some(first)
}

/// Describes a boundary that cuts a partition.
pub(crate) fn cut_text(boundary: &Bytes, partition: &Partition) -> String {
    format!(
        "the region boundary {} cuts partition {partition} in two",
        BytesBinary(boundary)
    )
}

/// Returns findings for region boundaries that cut a partition in two.
pub(super) fn boundaries(name: &TableName, rule: &PartitionRule, regions: &[TableRegion]) -> Vec<Finding> {
    let names = |region: &TableRegion| region.region.encoded_text();
    let neighbours = regions.iter().zip(regions.iter().skip(1));
    neighbours
        .filter_map(|(before, after)| {
            let boundary = &after.region.start_key;
            let partition = rule.partition_cut_by(boundary)?;
            let finding = Finding::broken(
                Name::BoundaryInsidePartition,
                cut_text(boundary, &partition),
                "its rows are in two regions and can't change together, so transactions on it are refused",
            );
            Some(
                finding
                    .of_table(name)
                    .in_partition(&partition)
                    .in_regions(vec![names(before), names(after)])
                    .fixed_by(command::of_table("repair", name), ""),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "hbase.regionserver.region.split_restriction.type";

    fn commands(attributes: &[(&'static str, &'static str)]) -> (&'static str, String) {
        let table = TableDescriptor::new("t").unwrap();
        let table = attributes
            .iter()
            .fold(table, |table, (key, value)| table.with_attribute(*key, *value));
        let error = PartitionRule::from_descriptor(&table).unwrap_err();
        let finding = missing(&table, &error);
        (finding.finding, finding.command.unwrap())
    }

    #[test]
    fn rule_is_read_from_the_attributes_present() {
        let length = "hbase.regionserver.region.split_restriction.prefix_length";
        let delimiter = "hbase.regionserver.region.split_restriction.delimiter";
        let alter = |setting: &str| format!("hbase-txn table alter t {setting}");
        assert_eq!(
            commands(&[(TYPE, "Keyprefix"), (length, "3")]),
            ("rule-invalid", alter("--prefix-length 3"))
        );
        assert_eq!(
            commands(&[(TYPE, "KeyPrefix"), ("split_restriction.prefixLength", "4")]),
            ("rule-invalid", alter("--prefix-length 4"))
        );
        assert_eq!(
            commands(&[(TYPE, "delimited"), (delimiter, "|")]),
            ("rule-invalid", alter("--delimiter '|'"))
        );
        for unclear in [
            &[(TYPE, "KeyPrefix"), (length, "0")][..],
            &[(TYPE, "DelimitedKeyPrefix")],
            &[(TYPE, "Prefix"), (length, "3"), (delimiter, "/")],
        ] {
            assert_eq!(commands(unclear), ("rule-invalid", alter("--prefix-length N")));
        }
        assert_eq!(commands(&[]), ("rule-missing", alter("--prefix-length N")));
    }
}
