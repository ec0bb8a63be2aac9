use rstest::rstest;

use hbase_txn::TableDescriptorExt;

use super::*;

mod contents;
mod examples;
mod schema;

/// A complete table; a test case adds its own lines before or after it.
const SOUND: &str = "table = 'orders'\npartition = {prefix_length = 3}\nfamily = [{name = 'f'}]\n";

fn parse(text: &str) -> Result<TableFile> {
    TableFile::parse("t.toml", text)
}

#[track_caller]
fn faults(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[rstest]
#[case::unknown(
    "colour = 'red'",
    "t.toml:4:1: unknown key \"colour\" in the file; known are table, kind"
)]
#[case::unknown_in_attributes_case(
    "attributes.durability = 'SYNC_WAL'",
    "no attribute durability; it is DURABILITY"
)]
#[case::flag("endpoint = 'yes'", "t.toml:4:12: endpoint is text; it is true or false")]
#[case::text("kind = 1", "t.toml:4:8: kind is a whole number; it is text in quotes")]
#[case::kind(
    "kind = 'table'",
    "kind is \"table\"; it is one of transactions, locks, latches"
)]
#[case::window(
    "replay_window = '1mo'",
    "t.toml:4:17: replay_window is \"1mo\"; write a time as"
)]
#[case::short_window("replay_window = '10s'", "replay_window is shorter than 5m")]
#[case::window_without_records(
    "record_family = false\nreplay_window = '1h'",
    "t.toml:5:17: replay_window needs the records of transactions"
)]
#[case::of_locks(
    "without_java_clients = true",
    "t.toml:4:1: without_java_clients is for tables of kind locks only"
)]
#[case::regions("regions = 3", "regions is for tables of kind locks and latches only")]
#[case::empty_key("split.keys = ['a', '']", "t.toml:4:20: an empty split key")]
#[case::unsorted(
    "split.keys = ['b', 'a']",
    "t.toml:4:20: split keys are out of order: a sorts before b"
)]
#[case::doubled("split.keys = ['a', 'a']", "split key a is given twice")]
#[case::doubled_otherwise(r"split.keys = ['a', '\x61']", "split key a is given twice")]
#[case::inside(
    "split.keys = ['abcd']",
    "split key abcd cuts partition abc in two: a partition is the first 3 bytes; split at abc instead"
)]
#[case::generated_inside("split.hex = 65536", "cuts partition")]
#[case::two_ways(
    "split = {hex = 2, keys = ['a']}",
    "[split] has keys and hex; only one of them is allowed"
)]
#[case::too_few("split.hex = 1", "hex is 1; it is from 2 to 65536")]
#[case::too_many("split.bytes = 65537", "bytes is 65537")]
#[case::escape(r#"split.keys = ["\\xff"]"#, "in double quotes a backslash is TOML's own")]
#[case::stray_backslash(r"split.keys = ['a\n']", "a stray backslash at column 2")]
#[case::no_list("split.keys = 'a'", "keys is text; it is a list of texts")]
#[case::lossy(
    "attributes.DURABILITY = 'ASYNC_WAL'",
    "with DURABILITY ASYNC_WAL a crash would lose"
)]
#[case::lossy_in_lower_case(
    "attributes.DURABILITY = 'skip_wal'",
    "with DURABILITY skip_wal a crash would lose"
)]
#[case::rule_by_attribute(
    "attributes.'KeyPrefixRegionSplitPolicy.prefix_length' = 3",
    "is set by [partition]"
)]
#[case::by_key(
    "attributes.SPLIT_ENABLED = false",
    "attribute SPLIT_ENABLED is set by the key split_enabled"
)]
#[case::window_by_attribute(
    "attributes.'hbase-txn.replay-window.seconds' = 3",
    "is set by the key replay_window"
)]
#[case::endpoint_by_attribute(
    "attributes.'coprocessor$1' = '|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|1|'",
    "attached by the key endpoint"
)]
#[case::size(
    "attributes.MAX_FILESIZE = '10 GB'",
    "t.toml:4:12: MAX_FILESIZE is \"10 GB\"; it is a number of bytes"
)]
#[case::flag_of_attribute("attributes.READONLY = 'yes'", "READONLY is \"yes\"; it is true or false")]
#[case::number_of_attribute("attributes.PRIORITY = 'high'", "PRIORITY is \"high\"; it is a whole number")]
#[case::attribute_of_no_text(
    "attributes.X = 1.5",
    "X is a number with a fraction; it is text, a decimal number, or true or false"
)]
fn invalid_table_settings_have_a_position(#[case] line: &str, #[case] why: &str) {
    let found = faults(&format!("{SOUND}{line}\n"));
    assert!(found.contains(why), "{found}");
}

#[rstest]
#[case::no_name("", "t.toml:4:11: a family without a name")]
#[case::name("name = 'a:b'", "can't be a column family")]
#[case::records(
    "name = '_txn'",
    "family _txn is reserved for the records of transactions; record_family = true adds it"
)]
#[case::versions_of_partitions("name = '_version'", "partition_version = true adds it")]
#[case::locks(r"name = '\x5flock'", "lock_family = true adds it")]
#[case::unknown(
    "name = 'g', version = 3",
    "unknown key \"version\" in family; known are name, versions"
)]
#[case::number("name = 'g', versions = '3'", "versions is text; it is a whole number")]
#[case::filter_without_length(
    "name = 'g', bloom_filter = 'rowprefix_fixed_length'",
    "t.toml:4:39: bloom_filter ROWPREFIX_FIXED_LENGTH needs a number of bytes"
)]
#[case::filter_of_no_length(
    "name = 'g', bloom_filter = 'ROWPREFIX_FIXED_LENGTH', configuration = {'RowPrefixBloomFilter.prefix_length' = 0}",
    "needs a number of bytes, 1 or more"
)]
#[case::attribute_as_configuration(
    "name = 'g', configuration = {VERSIONS = 3}",
    "VERSIONS is set by versions of the family"
)]
#[case::flag_of_family(
    "name = 'g', attributes = {IS_MOB = 'yes'}",
    "IS_MOB is \"yes\"; it is true or false"
)]
#[case::zero("name = 'g', versions = 0", "versions is 0; it is from 1 to 2147483647")]
#[case::negative("name = 'g', versions = -1", "versions is -1")]
#[case::huge("name = 'g', versions = 99999999999", "versions is 99999999999")]
#[case::too_many(
    "name = 'g', versions = 2, min_versions = 3",
    "min_versions is 3, more than versions, 2"
)]
#[case::time("name = 'g', ttl = '500ms'", "ttl is \"500ms\"; write a time")]
#[case::seconds("name = 'g', ttl = 30", "ttl is a whole number; it is text in quotes")]
#[case::word(
    "name = 'g', compression = 'zip'",
    "compression is \"zip\"; it is one of NONE, GZ"
)]
#[case::by_key("name = 'g', attributes = {TTL = 30}", "TTL is set by ttl of the family")]
#[case::misspelt(
    "name = 'g', attributes = {Versions = 3}",
    "HBase knows no attribute Versions; it is VERSIONS"
)]
#[case::no_name_of_attribute("name = 'g', attributes = {'' = 3}", "an attribute without a name")]
fn invalid_family_settings_have_a_position(#[case] family: &str, #[case] why: &str) {
    let found = faults(&format!(
        "table = 'orders'\npartition = {{prefix_length = 3}}\n\nfamily = [{{{family}}}]"
    ));
    assert!(found.contains(why), "{found}");
}

#[rstest]
#[case("prefix_length = 0", "t.toml:3:17: prefix_length is 0; it is from 1 to 32767")]
#[case("prefix_length = 32768", "prefix_length is 32768; it is from 1 to 32767")]
#[case("prefix_length = -1", "prefix_length is -1")]
#[case("prefix_length = '3'", "prefix_length is text; it is a whole number")]
#[case("delimiter = ''", "t.toml:3:13: an empty delimiter")]
#[case(r"delimiter = '\xff'", r"delimiter \xFF is not UTF-8")]
#[case("delimiter = 3", "delimiter is a whole number; it is text in quotes")]
#[case("", "[partition] has neither prefix_length nor delimiter")]
#[case(
    "prefix_length = 3\ndelimiter = '/'",
    "[partition] has both prefix_length and delimiter; only one"
)]
#[case(
    "prefixlength = 3",
    "unknown key \"prefixlength\" in partition; known are prefix_length, delimiter"
)]
fn invalid_rules_have_a_position(#[case] rule: &str, #[case] why: &str) {
    let found = faults(&format!(
        "table = 'orders'\n[partition]\n{rule}\n[[family]]\nname = 'f'"
    ));
    assert!(found.contains(why), "{found}");
}

#[rstest]
#[case("", &["no key table", "no [partition]", "no [[family]]"])]
#[case("table = 'no such:name'", &["t.toml:1:9: ", "can't be a table's name"])]
#[case("table = 'hbase:meta'", &["one of HBase's own tables"])]
#[case("table = 'a'\ntable = 'b'", &["t.toml:2:1: ", "duplicate key"])]
#[case("table = \nkind = [", &["t.toml:1:", "t.toml:2:"])]
#[case("family = {name = 'f'}", &["family is a table; it is a list of tables, each under [[family]]"])]
#[case("kind = 'locks'\ntable = 'l'\n[partition]\nprefix_length = 1", &["t.toml:3:2: partition is for tables of kind transactions only"])]
#[case("kind = 'locks'\ntable = 'l'\nregions = 258", &["regions is 258; it is from 1 to 257"])]
#[case("kind = 'locks'\ntable = 'l'\nstate_family = true", &["state_family is for tables of kind latches only"])]
#[case("kind = 'latches'\ntable = 'l'\nprotect_java_clients = true", &["protect_java_clients is for tables of kind locks only"])]
fn a_file_that_is_wrong_as_a_whole_says_why(#[case] text: &str, #[case] why: &[&str]) {
    let found = faults(text);
    for why in why {
        assert!(found.contains(why), "{why:?} is not in {found}");
    }
}

#[test]
fn duplicate_families_are_refused_in_any_spelling() {
    let found = faults(
        "table = 'orders'\n[partition]\nprefix_length = 3\n[[family]]\nname = 'f'\n[[family]]\nname = '\\x66'",
    );
    assert_eq!(
        found,
        "t.toml:6:1: family f is given twice; the first is on line 4"
    );
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_their_places() {
    let found = faults(
        "table = 'orders'\nfoo = 1\n[partition]\nprefix_length = 0\n[[family]]\nname = 'f'\nttl = 'soon'\nbar = 2",
    );
    let places: Vec<_> = found
        .lines()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        ["t.toml:2:1", "t.toml:4:17", "t.toml:7:7", "t.toml:8:1"],
        "{found}"
    );
}

#[test]
fn columns_are_counted_in_characters() {
    let found = faults(
        "table = 'orders' # ä\n'ä' = 1\npartition = {prefix_length = 3}\nfamily = [{name = 'ä', x = 1}]",
    );
    assert!(
        found.contains("t.toml:2:1: ") && found.contains("t.toml:4:24: "),
        "{found}"
    );
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let found = faults(&"#".repeat(TableFile::MAX_SIZE + 1));
    assert!(
        found.starts_with("t.toml:1:1: the file is longer than 1048576 bytes"),
        "{found}"
    );
    let nested = format!("x = {}", "[".repeat(100_000));
    assert!(faults(&nested).starts_with("t.toml:1:"));
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let error = TableFile::parse("t.toml", b"table = 'orders'\n# \xc3\xa4\xff\n").unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    let found = error.to_string();
    assert!(
        found.starts_with(r"t.toml:2:4: byte \xFF is not UTF-8"),
        "{found}"
    );
}

#[test]
fn a_file_knows_where_its_table_is_named() {
    assert_eq!(parse(SOUND).unwrap().place(), "t.toml:1:9");
    let behind = parse("# ä\nkind = 'locks'\n  table = 'l'").unwrap();
    assert_eq!(behind.place(), "t.toml:3:11");
}

/// The mistakes that must be refused, each with file, line and column.
#[rstest]
#[case::unknown_key("table = 'o'\ncolour = 'red'", "t.toml:2:1: unknown key \"colour\"")]
#[case::type_error("table = 'o'\nkind = 1", "t.toml:2:8: kind is a whole number")]
#[case::two_families_of_one_name(
    "table = 'o'\n[[family]]\nname = 'f'\n[[family]]\nname = 'f'",
    "t.toml:4:1: family f is given twice"
)]
#[case::split_keys_unsorted(
    "table = 'o'\nsplit.keys = ['a',\n 'c',\n 'b']",
    "t.toml:4:2: split keys are out of order: b sorts before c"
)]
#[case::split_keys_double(
    "table = 'o'\nsplit.keys = ['a',\n 'a']",
    "t.toml:3:2: split key a is given twice"
)]
#[case::split_keys_inside_a_prefix(
    "table = 'o'\npartition.prefix_length = 3\nsplit.keys = ['abc',\n 'abcd']",
    "t.toml:4:2: split key abcd cuts partition abc in two"
)]
#[case::delimiter_that_is_no_utf_8(
    "table = 'o'\npartition.delimiter = '\\xff'",
    r"t.toml:2:23: delimiter \xFF is not UTF-8"
)]
#[case::prefix_length_0(
    "table = 'o'\npartition.prefix_length = 0",
    "t.toml:2:27: prefix_length is 0; it is from 1 to 32767"
)]
#[case::prefix_length_too_long(
    "table = 'o'\npartition.prefix_length = 32768",
    "t.toml:2:27: prefix_length is 32768; it is from 1 to 32767"
)]
fn faults_have_file_line_and_reason(#[case] text: &str, #[case] why: &str) {
    let found = faults(text);
    assert!(found.lines().any(|line| line.starts_with(why)), "{found}");
}

#[test]
fn defaults_of_a_file_equal_those_of_table_create() {
    let file = parse(SOUND).unwrap();
    let expected = TableDescriptor::new("orders")
        .unwrap()
        .with_family(hbase_txn::client::FamilyDescriptor::new("f"))
        .with_partition_rule(&PartitionRule::prefix_length(3).unwrap())
        .with_multi_row_mutation_endpoint()
        .with_record_family()
        .with_attribute("SPLIT_ENABLED", "true")
        .with_attribute("MERGE_ENABLED", "true");
    assert_eq!(file.descriptor(), expected);
    assert!(file.split_keys().is_empty());
    assert_eq!(file.kind(), TableKind::Transactions);
}

#[test]
fn every_key_of_a_family_becomes_its_attribute() {
    let file = parse(
        "table = 'orders'\npartition = {prefix_length = 3}\n[[family]]\nname = 'f'\nversions = 3\nmin_versions = 1\n\
         ttl = '2h'\ncompression = 'gz'\ndata_block_encoding = 'FAST_DIFF'\nbloom_filter = 'ROWCOL'\nblock_size = 1024\n\
         block_cache = false\nin_memory = true\nkeep_deleted_cells = 'ttl'\nreplication_scope = 1\n\
         new_version_behavior = true\nattributes = {DFS_REPLICATION = 2, IS_MOB = true, note = 'ä'}",
    )
    .unwrap();
    let family = file.descriptor().family("f").unwrap().clone();
    for (name, value) in [
        ("VERSIONS", "3"),
        ("MIN_VERSIONS", "1"),
        ("TTL", "7200"),
        ("COMPRESSION", "GZ"),
        ("DATA_BLOCK_ENCODING", "FAST_DIFF"),
        ("BLOOMFILTER", "ROWCOL"),
        ("BLOCKSIZE", "1024"),
        ("BLOCKCACHE", "false"),
        ("IN_MEMORY", "true"),
        ("KEEP_DELETED_CELLS", "TTL"),
        ("REPLICATION_SCOPE", "1"),
        ("NEW_VERSION_BEHAVIOR", "true"),
        ("DFS_REPLICATION", "2"),
        ("IS_MOB", "true"),
        ("note", "ä"),
    ] {
        assert_eq!(family.attribute(name), Some(value), "{name}");
    }
    assert_eq!(family.attributes.len(), 15);
}

#[test]
fn sizes_have_units_and_families_a_configuration() {
    let file = parse(
        "table = 'orders'\npartition = {prefix_length = 3}\nattributes = {MAX_FILESIZE = '10G'}\n[[family]]\nname = 'f'\n\
         bloom_filter = 'ROWPREFIX_FIXED_LENGTH'\n[family.configuration]\n'RowPrefixBloomFilter.prefix_length' = 8",
    )
    .unwrap();
    let table = file.descriptor();
    assert_eq!(table.attribute("MAX_FILESIZE"), Some("10737418240"));
    let configuration = &table.family("f").unwrap().configuration;
    assert_eq!(configuration["RowPrefixBloomFilter.prefix_length"], "8");
    assert_eq!(configuration.len(), 1);
}

#[test]
fn lock_and_latch_tables_match_their_options() {
    use hbase_txn::{latch::LatchTableOptions, lock::LockTableOptions};
    let file = parse(
        "table = 'l'\nkind = 'locks'\nregions = 8\nwithout_java_clients = true\nprotect_java_clients = true",
    )
    .unwrap();
    let options = LockTableOptions::new("l").unwrap().regions(8);
    let options = options.without_java_clients().protect_java_clients();
    assert_eq!(file.descriptor(), options.descriptor());
    assert_eq!(file.split_keys(), options.split_keys().unwrap());
    let file = parse("table = 'D_LTCH_x'\nkind = 'latches'\nstate_family = false").unwrap();
    let options = LatchTableOptions::with_suffix("x").unwrap().no_state_family();
    assert_eq!(file.descriptor(), options.descriptor());
    assert_eq!(file.split_keys().len(), 7);
}
