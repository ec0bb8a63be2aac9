//! `provision plan` and `provision apply`.

use std::{fs, path::PathBuf};

use hbase_txn::{TableDescriptorExt, client::TableDescriptor};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, TestTable, run, run_alone, run_with_input, unique_name, with_admin};

/// Table files of a test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a file for a table with the family `f` and partitions of three bytes, and these
    /// lines.
    fn by_three(&self, table: &str, lines: &str) -> String {
        let text = format!(
            "table = '{table}'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f'}}]\n{lines}\n"
        );
        self.file(&format!("{}.toml", table.replace(':', ".")), &text)
    }
}

/// The name of a table that `provision` creates; it is dropped with this.
fn unmade(label: &str) -> TestTable {
    TestTable(unique_name(label))
}

fn plan(files: &[&str]) -> Answer {
    run(&[&["provision", "plan", "--output", "json"], files].concat())
}

fn kinds(answer: &Answer, key: &str) -> Vec<Value> {
    let objects = answer.objects();
    objects
        .iter()
        .filter_map(|object| object.get(key).cloned())
        .collect()
}

#[test]
fn applied_table_needs_no_further_change() {
    let folder = Folder::new();
    let table = unmade("provision");
    let file = folder.by_three(&table.0, "split = {hex = 4}");
    let planned = plan(&[&file]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let expected = json!({"table": table.0, "change": "create-table", "regions": 4});
    assert_eq!(planned.objects()[0], expected);
    let detailed = ["provision", "plan", &file, "--detailed-exitcode"];
    assert_eq!(run(&detailed).code, 2);
    let page = run(&["provision", "plan", &file]).done();
    for line in [
        "changes\n",
        "  + the table, with 4 regions\n",
        "  + a partition is: the first 3 bytes\n",
        "  + MultiRowMutationEndpoint\n",
        "  + family f",
        "\n1 to create\n",
    ] {
        assert!(page.contains(line), "{line:?} is not in {page}");
    }
    assert!(!page.contains('\x1b'), "{page:?}");

    let applied = run(&["provision", "apply", &file, "--output", "json"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let steps = [
        json!({"table": table.0, "done": "create-table", "regions": 4}),
        json!({"table": table.0, "done": "read-back"}),
        json!({"table": table.0, "done": "probe", "regions": 4}),
    ];
    let (changes, done): (Vec<_>, Vec<_>) = applied
        .objects()
        .into_iter()
        .partition(|object| object["change"].is_string());
    assert_eq!(changes, planned.objects());
    assert_eq!(done, steps);
    assert_eq!(applied.stderr, "");
    assert_eq!(run(&["table", "check", &table.0, "--output", "json"]).done(), "");

    assert_eq!(plan(&[&file]).done(), "");
    assert!(
        run(&detailed)
            .done()
            .ends_with(": nothing to change\n1 unchanged\n")
    );
    let again = run(&["provision", "apply", &file]).done();
    assert!(
        again.ends_with(&format!("{}: nothing to change\n", table.0)),
        "{again}"
    );
    assert!(again.contains("4 regions queried, all answer"), "{again}");
}

#[test]
fn a_change_says_what_it_reopens_and_what_it_leaves() {
    let folder = Folder::new();
    let table = TestTable::odd(
        "reopens",
        |descriptor| {
            let family = hbase_txn::client::FamilyDescriptor::new("f").with_attribute("BLOOMFILTER", "NONE");
            descriptor.with_family(family)
        },
        &["ggg"],
    );
    let file = folder.by_three(&table.0, "");
    let page = run(&["provision", "plan", &file]).done();
    assert!(page.contains("which reopen 2 regions"), "{page}");
    assert!(
        page.contains("    note: not in the file, left alone: family f: BLOOMFILTER NONE"),
        "{page}"
    );
    let applied = run(&["provision", "apply", &file]).done();
    assert!(applied.contains("changed, 2 regions reopened"), "{applied}");
    assert_eq!(run(&["table", "check", &table.0, "--output", "json"]).done(), "");
}

#[test]
fn data_loss_must_be_allowed() {
    let folder = Folder::new();
    let table = TestTable::with(
        "loses",
        &["--family", "f", "--family", "g", "--prefix-length", "3"],
    );
    let file = folder.by_three(&table.0, "");
    let planned = plan(&[&file]);
    assert_eq!(planned.code, 3, "{planned:?}");
    assert_eq!(kinds(&planned, "change"), ["drop-family"]);
    assert_eq!(kinds(&planned, "refused"), ["data-loss"]);
    let detailed = ["provision", "plan", &file, "--detailed-exitcode"];
    assert_eq!(run(&detailed).code, 3);
    let loss = format!("{}:g", table.0);
    let allow = ["--allow-data-loss", &loss];
    assert_eq!(run(&[&detailed[..], &allow].concat()).code, 2);
    let place = format!("{file}:1:9: ");
    run(&["provision", "apply", &file])
        .refused(3, &["nothing was done", &place, "- family g", &allow.join(" ")]);
    let page = run(&["provision", "plan", &file]);
    assert!(
        page.stdout.contains("  - family g (loses data: all of its cells"),
        "{page:?}"
    );
    let refused = format!("  ! refused: {place}would lose data (1 change); pass --allow-data-loss {loss}\n");
    assert!(page.stdout.contains(&refused), "{page:?}");
    assert!(page.stdout.ends_with("\n1 refused\n"), "{page:?}");
    let allowing = |command| [&["provision", command, &file][..], &allow].concat();
    assert_eq!(run(&allowing("plan")).code, 0);
    // Not for another family, or a setting of the family.
    for other in ["h", "g:TTL"] {
        let other = format!("{}:{other}", table.0);
        run(&["provision", "apply", &file, "--allow-data-loss", &other]).refused(3, &["- family g"]);
    }
    let applied = run(&allowing("apply")).done();
    assert!(applied.contains("  - family g (loses data"), "{applied}");
    assert_eq!(plan(&[&file]).done(), "");
}

#[test]
fn strict_plan_refuses_settings_outside_of_the_file() {
    let folder = Folder::new();
    let table = TestTable::new("strict");
    let file = folder.by_three(&table.0, "");
    let strict = ["provision", "plan", &file, "--strict"];
    assert!(run(&strict).done().ends_with("\n1 unchanged\n"));
    let alter = |setting: [&str; 2]| run(&["table", "alter", &table.0, setting[0], setting[1]]).done();
    alter(["--attribute", "MAX_FILESIZE=10G"]);
    alter(["--family-configuration", "f:hbase.x=1"]);
    let page = run(&["provision", "plan", &file]).done();
    assert!(
        page.contains("note: not in the file, left alone: MAX_FILESIZE 10737418240, family f: hbase.x 1\n"),
        "{page}"
    );
    let refused = run(&[&strict[..], &["--output", "json"]].concat());
    assert_eq!(refused.code, 3, "{refused:?}");
    assert_eq!(kinds(&refused, "refused"), ["not-in-file", "not-in-file"]);
    assert_eq!(kinds(&refused, "note"), [Value::Null; 0]);
    let page = run(&strict);
    assert!(
        page.stdout.contains(
            "not in the file: MAX_FILESIZE 10737418240; add it there, or remove it: hbase-txn table alter"
        ),
        "{page:?}"
    );
    alter(["--attribute", "MAX_FILESIZE="]);
    alter(["--family-configuration", "f:hbase.x="]);
    assert_eq!(run(&strict).code, 0);
}

#[test]
fn values_that_hbase_refuses_are_refused_before_any_call() {
    let folder = Folder::new();
    let file = folder.by_three(
        "orders",
        "attributes = {MAX_FILESIZE = '10 potatoes', READONLY = 'yes'}",
    );
    run_alone(&["provision", "plan", &file]).refused(
        2,
        &[
            "4:15: MAX_FILESIZE is \"10 potatoes\"",
            "4:45: READONLY is \"yes\"; it is true or false",
        ],
    );
}

#[test]
fn one_invalid_file_stops_all() {
    let folder = Folder::new();
    let (fine, cut) = (
        unmade("fine"),
        TestTable::odd(
            "cut",
            |descriptor| descriptor.with_family(hbase_txn::client::FamilyDescriptor::new("f")),
            &["abcd"],
        ),
    );
    let files = [folder.by_three(&fine.0, ""), folder.by_three(&cut.0, "")];
    let files = [files[0].as_str(), files[1].as_str()];
    let planned = plan(&files);
    assert_eq!(planned.code, 3, "{planned:?}");
    let page = run(&[&["provision", "plan"][..], &files].concat());
    assert!(page.stdout.ends_with("\n1 to create, 1 refused\n"), "{page:?}");
    let refused: Vec<_> = planned
        .objects()
        .into_iter()
        .filter(|object| object.get("refused").is_some())
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (&refused[0]["boundary"], &refused[0]["partition"]),
        (&json!("abcd"), &json!("abc"))
    );
    run(&[&["provision", "apply"][..], &files].concat()).refused(
        3,
        &[
            "nothing was done",
            &format!("{}:1:9: ", files[1]),
            "boundary abcd cuts partition abc in two",
        ],
    );
    let exists = with_admin(async |admin| admin.exists(&fine.name()).await.unwrap());
    assert!(!exists);
    run(&["provision", "apply", files[0]]).done();
}

#[test]
fn a_disabled_table_is_changed_and_ends_as_not_proven() {
    let folder = Folder::new();
    let table = TestTable::odd(
        "disabled",
        |descriptor| descriptor.with_family(hbase_txn::client::FamilyDescriptor::new("f")),
        &[],
    );
    let file = folder.by_three(&table.0, "");
    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    assert!(
        run(&["provision", "plan", &file])
            .done()
            .contains("note: the table is disabled")
    );
    run(&["provision", "apply", &file]).refused(1, &["but disabled", "enable it", &table.0]);
    with_admin(async |admin| admin.enable_table(&table.name()).await.unwrap());
    run(&["provision", "apply", &file]).done();
    assert_eq!(plan(&[&file]).done(), "");
}

#[test]
fn a_missing_namespace_is_named_with_both_ways_out() {
    let folder = Folder::new();
    let name = format!("absent_{}:t", std::process::id());
    let file = folder.by_three(&name, "");
    run(&["provision", "apply", &file]).refused(
        3,
        &[
            &format!("{file}:1:9: table {name}: namespace absent_"),
            "create_namespace = true",
        ],
    );
    let planned = plan(&[&file]);
    assert_eq!(kinds(&planned, "refused"), ["namespace-missing"]);
    assert_eq!(kinds(&planned, "file"), [json!(format!("{file}:1:9"))]);
}

#[test]
fn mistakes_in_all_files_are_listed_before_any_call() {
    let folder = Folder::new();
    let one = folder.file(
        "one.toml",
        "table = 'orders'\nfoo = 1\n[partition]\nprefix_length = 0\n[[family]]\nname = 'f'\n",
    );
    let other = folder.file("other.toml", "table = 'orders\n");
    // There is no cluster, because files are checked without one.
    let refused = run_alone(&["provision", "apply", &one, &other]);
    refused.refused(
        2,
        &[
            "one.toml:2:1: unknown key \"foo\"",
            "one.toml:4:17: prefix_length is 0",
            "other.toml:1:",
        ],
    );
    let (fine, twin) = (
        folder.by_three("orders", ""),
        folder.file("twin.toml", "table = 'orders'\nkind = 'locks'"),
    );
    run_alone(&["provision", "plan", &fine, &twin]).refused(
        2,
        &[
            "twin.toml:1:9: table orders is described by",
            "orders.toml:1:9 already",
        ],
    );
    let no_text = folder.0.path().join("no_text.toml");
    fs::write(&no_text, b"table = 'orders'\n# \xff\n").unwrap();
    run_alone(&["provision", "plan", no_text.to_str().unwrap()])
        .refused(2, &[r"no_text.toml:2:3: byte \xFF is not UTF-8"]);
    run_alone(&["provision", "plan", "/no/such.toml"]).refused(1, &["/no/such.toml can't be read"]);
    run_alone(&["provision", "plan"]).refused(2, &["<FILE>..."]);
}

#[test]
fn a_cluster_that_is_not_there_is_told_in_time() {
    let folder = Folder::new();
    let file = folder.by_three("orders", "");
    let answer = run_alone(&[
        "provision",
        "plan",
        &file,
        "--connect",
        "hbase+rpc://127.0.0.1:1",
        "--timeout",
        "2s",
    ]);
    answer.refused(1, &["127.0.0.1:1"]);
    assert!(answer.took.as_secs() < 5, "{answer:?}");
}

#[test]
fn a_file_that_is_a_dash_is_stdin() {
    let table = unmade("piped");
    let text = format!(
        "table = '{}'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f'}}]\n",
        table.0
    );
    let applied = run_with_input(&["provision", "apply", "-"], &text).done();
    assert!(
        applied.contains(&format!("{}: created with 1 region", table.0)),
        "{applied}"
    );
    let planned = run_with_input(&["provision", "plan", "-", "--output", "json"], &text);
    assert_eq!(planned.done(), "");
    run_with_input(&["provision", "plan", "-"], "colour = 1")
        .refused(2, &["stdin:1:1: unknown key \"colour\""]);
    run_with_input(&["provision", "plan", "-", "--detailed-exitcode"], "colour = 1")
        .refused(1, &["stdin:1:1: unknown key \"colour\""]);
    run_with_input(&["provision", "plan", "-", "-"], &text).refused(2, &["- is given twice"]);
    let long = "#".repeat((1 << 20) + 1);
    run_with_input(&["provision", "plan", "-"], &long).refused(2, &["stdin:1:1: the file is longer than"]);
}

/// Exports a table, drops it, applies the file, and exports it again. Returns the file.
#[track_caller]
fn exported_again(table: &TestTable, notes: &[&str]) -> String {
    let export = || {
        let exported = run(&["provision", "export", &table.0]);
        assert_eq!(exported.code, 0, "{exported:?}");
        exported
    };
    let exported = export();
    for note in notes {
        assert!(exported.stderr.contains(note), "{note:?} is not in {exported:?}");
    }
    assert_eq!(exported.stderr.is_empty(), notes.is_empty(), "{exported:?}");
    run(&["table", "drop", &table.0, "--yes"]).done();
    run_with_input(&["provision", "apply", "-"], &exported.stdout).done();
    let again = export();
    assert_eq!(again.stdout, exported.stdout);
    assert_eq!(again.stderr, "");
    exported.stdout
}

#[test]
fn exported_table_is_created_again_from_its_file() {
    let folder = Folder::new();
    let table = unmade("exported");
    let text = format!(
        r#"table = "{}"
partition_version = true
lock_family = true
merge_enabled = false
replay_window = "2d"

[partition]
delimiter = '/'

[split]
keys = [
    '\x00\x27z/',
    'c3',
]

[[family]]
name = 'f'
versions = 3
ttl = "90d"
compression = "GZ"
data_block_encoding = "FAST_DIFF"
bloom_filter = "ROWPREFIX_FIXED_LENGTH"
block_size = 131072
block_cache = false
in_memory = true
replication_scope = 1

[family.attributes]
"a \"key\"" = "b\\c"

[family.configuration]
"RowPrefixBloomFilter.prefix_length" = "2"

[[family]]
name = 'g'

[attributes]
DURABILITY = "FSYNC_WAL"
MAX_FILESIZE = "10737418240"
owner = "me"
"#,
        table.0
    );
    let file = folder.file("exported.toml", &text);
    run(&["provision", "apply", &file]).done();
    assert_eq!(exported_again(&table, &[]), text);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    let filter = json!({"RowPrefixBloomFilter.prefix_length": "2"});
    assert!(
        described["families"]
            .as_array()
            .unwrap()
            .iter()
            .any(|family| family["configuration"] == filter),
        "{described}"
    );
    let page = run(&["table", "describe", &table.0]).done();
    assert!(
        page.contains("CONFIGURATION={RowPrefixBloomFilter.prefix_length=2}"),
        "{page}"
    );
    let json = run(&["provision", "export", &table.0, "--output", "json"]);
    let expected = json!({"table": table.0, "contents": text, "notes": []});
    assert_eq!(json.objects(), [expected]);
    assert_eq!(plan(&[&file]).done(), "");
}

#[test]
fn lock_and_latch_tables_are_exported_with_their_kind() {
    let folder = Folder::new();
    for (kind, lines) in [
        (
            "locks",
            "regions = 3\nwithout_java_clients = true\nprotect_java_clients = true\n",
        ),
        ("locks", "regions = 8\n\n[attributes]\nowner = \"me\"\n"),
        ("latches", "regions = 2\nstate_family = false\n"),
        ("latches", "regions = 1\n"),
    ] {
        let table = unmade("exported_kind");
        let text = format!("table = \"{}\"\nkind = \"{kind}\"\n{lines}", table.0);
        let file = folder.file("kind.toml", &text);
        run(&["provision", "apply", &file]).done();
        assert_eq!(exported_again(&table, &[]), text);
    }
}

#[test]
fn export_notes_what_a_new_table_has_in_another_form() {
    let old_rule = TestTable::odd(
        "exported_old",
        |descriptor| {
            descriptor
                .with_family(hbase_txn::client::FamilyDescriptor::new("f"))
                .with_multi_row_mutation_endpoint()
                .with_attribute(
                    "SPLIT_POLICY",
                    "org.apache.hadoop.hbase.regionserver.KeyPrefixRegionSplitPolicy",
                )
                .with_attribute("KeyPrefixRegionSplitPolicy.prefix_length", "3")
        },
        &["abc"],
    );
    let text = exported_again(&old_rule, &["note", "partition rule", &old_rule.0]);
    assert!(text.contains("\nrecord_family = false\n"), "{text}");
    assert!(
        text.contains("[partition]\nprefix_length = 3\n\n[split]\nkeys = [\n    'abc',\n]\n"),
        "{text}"
    );
    let cut = TestTable::odd(
        "exported_buckets",
        |descriptor| hbase_txn::lock::LockTableOptions::from(descriptor.name).descriptor(),
        &["odd"],
    );
    let text = exported_again(&cut, &["2 regions begin at other rows"]);
    assert!(text.ends_with("kind = \"locks\"\nregions = 2\n"), "{text}");
}

#[test]
fn settings_that_no_file_states_are_refused() {
    let export = |table: &str| run(&["provision", "export", table]);
    export(&unique_name("absent")).refused(1, &["no such table", "hbase-txn table list"]);
    let family = || hbase_txn::client::FamilyDescriptor::new("f");
    let without_rule = TestTable::odd("exported_plain", |table| table.with_family(family()), &[]);
    export(&without_rule.0).refused(1, &["exporting the table", &without_rule.0, "no [partition]"]);
    let rule = hbase_txn::PartitionRule::prefix_length(3).unwrap();
    let cut = |table: TableDescriptor| table.with_family(family()).with_partition_rule(&rule);
    let cut = TestTable::odd("exported_cut", cut, &["abcd"]);
    export(&cut.0).refused(1, &["split key abcd cuts partition abc in two"]);
    let reserved = |table: TableDescriptor| {
        let records = hbase_txn::client::FamilyDescriptor::new("_txn").with_attribute("BLOCKSIZE", "1024");
        let table = table.with_family(family()).with_family(records);
        table.with_partition_rule(&rule)
    };
    let reserved = TestTable::odd("exported_reserved", reserved, &[]);
    export(&reserved.0).refused(1, &["can't state", "family _txn", "BLOCKSIZE 1024"]);
    let weak = |table: TableDescriptor| {
        let table = table.with_family(family()).with_partition_rule(&rule);
        table.with_attribute("DURABILITY", "ASYNC_WAL")
    };
    let weak = TestTable::odd("exported_weak", weak, &[]);
    export(&weak.0).refused(1, &["DURABILITY ASYNC_WAL"]);
}
