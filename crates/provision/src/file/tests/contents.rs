//! Contents that are written for a table describe that table.

use hbase_client::FamilyDescriptor;

use super::*;

#[track_caller]
fn written(file: &TableFile) -> String {
    contents(&file.descriptor(), file.kind(), file.split_keys()).unwrap()
}

#[test]
fn written_examples_describe_the_same_tables() {
    for (path, file) in examples::all() {
        let text = written(&file);
        let again = parse(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", path.display()));
        assert_eq!(again.descriptor(), file.descriptor(), "{text}");
        assert_eq!(
            (again.kind(), again.split_keys(), again.partition_rule()),
            (file.kind(), file.split_keys(), file.partition_rule())
        );
        assert_eq!(again.create_namespace, file.name().namespace() != "default");
        assert_eq!(written(&again), text);
    }
}

#[rstest]
#[case::defaults(&[("VERSIONS", "1"), ("TTL", "FOREVER"), ("BLOCKCACHE", "TRUE")], "")]
#[case::times(&[("TTL", "86400")], "ttl = \"1d\"\n")]
#[case::hours(&[("TTL", "90000")], "ttl = \"25h\"\n")]
#[case::seconds(&[("TTL", "61")], "ttl = \"61s\"\n")]
#[case::words(&[("KEEP_DELETED_CELLS", "ttl"), ("COMPRESSION", "zstd")], "compression = \"ZSTD\"\nkeep_deleted_cells = \"TTL\"\n")]
#[case::flags(&[("IN_MEMORY", "TRUE")], "in_memory = true\n")]
#[case::free(&[("a.b", "1\n\"\\")], "\n[family.attributes]\n\"a.b\" = \"1\\u000A\\\"\\\\\"\n")]
fn family_attributes_are_written_as_keys(#[case] attributes: &[(&str, &str)], #[case] lines: &str) {
    let family = attributes
        .iter()
        .fold(FamilyDescriptor::new("o'f"), |family, (name, value)| {
            family.with_attribute((*name).to_owned(), (*value).to_owned())
        });
    let table = TableDescriptor::new("orders").unwrap().with_family(family);
    let table = table.with_partition_rule(&PartitionRule::delimiter("'").unwrap());
    let text = contents(&table, TableKind::Transactions, &[]).unwrap();
    let expected = r"table = 'orders'
endpoint = false
record_family = false

[partition]
delimiter = '\x27'

[[family]]
name = 'o\x27f'
"
    .replace("'orders'", "\"orders\"");
    assert_eq!(text, format!("{expected}{lines}"));
    parse(&text).unwrap();
}

#[test]
fn configuration_of_a_family_is_written_and_read_back() {
    let family = FamilyDescriptor::new("f")
        .with_attribute("BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH")
        .with_configuration("RowPrefixBloomFilter.prefix_length", "8")
        .with_configuration("hbase.x", "a \"b\"");
    let table = TableDescriptor::new("orders")
        .unwrap()
        .with_family(family.clone());
    let table = table.with_partition_rule(&PartitionRule::prefix_length(3).unwrap());
    let text = contents(&table, TableKind::Transactions, &[]).unwrap();
    assert!(
        text.ends_with(
            "\n[family.configuration]\n\"RowPrefixBloomFilter.prefix_length\" = \"8\"\n\"hbase.x\" = \"a \\\"b\\\"\"\n"
        ),
        "{text}"
    );
    assert_eq!(parse(&text).unwrap().descriptor().family("f"), Some(&family));
}

#[test]
fn values_of_another_form_are_refused() {
    for (name, value, why) in [
        ("VERSIONS", "many", "versions is text"),
        ("TTL", "soon", "ttl is \"soon\""),
        ("COMPRESSION", "LZMA", "compression is \"LZMA\""),
        ("IN_MEMORY", "yes", "in_memory is text"),
    ] {
        let family = FamilyDescriptor::new("f").with_attribute(name, value);
        let table = TableDescriptor::new("orders").unwrap().with_family(family);
        let table = table.with_partition_rule(&PartitionRule::prefix_length(3).unwrap());
        let text = contents(&table, TableKind::Transactions, &[]).unwrap();
        assert!(faults(&text).contains(why), "{text}");
    }
    let table = TableDescriptor::new("orders").unwrap();
    let error = contents(
        &table.with_attribute("a", &b"\xff"[..]),
        TableKind::Transactions,
        &[],
    );
    assert!(error.unwrap_err().to_string().contains(r"attribute a is \xFF"));
}
