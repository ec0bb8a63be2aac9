//! `import`: lines, tables and options that are refused.

use std::{io::Write, process::Child};

use hbase_txn::client::FamilyDescriptor;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    client_side::import::{Input, keys, lines, objects, row, until},
    harness::{Answer, TestTable, answer, run, start, with_admin},
};

/// An import of stdin into a table whose family `nope` was dropped after the import had begun, so that the server
/// refuses its lines.
struct Refused {
    table: TestTable,
    folder: TempDir,
    import: Child,
}

impl Refused {
    fn start(options: &[&str]) -> Self {
        let table = TestTable::odd(
            "import_refused",
            |table| {
                let table = table.with_family(FamilyDescriptor::new("nope"));
                table.with_family(FamilyDescriptor::new("f"))
            },
            &["0001000"],
        );
        let folder = tempfile::tempdir().unwrap();
        let rejects = folder.path().join("rejects");
        let rejects = rejects.to_str().unwrap();
        let mut import = start(&[&["import", &table.0, "-", "--rejects", rejects][..], options].concat());
        writeln!(import.stdin.as_mut().unwrap(), "{}", row("first", "v")).unwrap();
        until(|| keys(&table) == ["first"]);
        with_admin(async |admin| {
            let mut without = admin.descriptor(&table.name()).await.unwrap();
            without.families.retain(|family| family.name == "f");
            admin.modify_table(&without).await.unwrap();
        });
        Self {
            table,
            folder,
            import,
        }
    }

    /// Writes these lines, and returns the answer and the rejects.
    fn end(self, text: &str) -> (TestTable, Answer, Vec<Value>) {
        let mut import = self.import;
        // An import that stops reads no further.
        let _ = import.stdin.take().unwrap().write_all(text.as_bytes());
        let answer = answer(import);
        (self.table, answer, objects(&self.folder.path().join("rejects")))
    }
}

#[test]
fn lines_that_the_server_refuses_are_rejected() {
    let mut text = lines(3_000);
    for number in [500, 1_500, 2_500] {
        let good = row(&format!("{number:07}"), &format!("value {number}"));
        assert!(text.contains(&good));
        text = text.replace(&good, &good.replace(r#""f""#, r#""nope""#));
    }
    let (table, answer, rejects) = Refused::start(&[]).end(&text);
    answer.refused(
        3,
        &[
            "rejected: line 502: ",
            "NoSuchColumnFamily",
            "rejected: line 2502: ",
        ],
    );
    let summary = format!("{}: 2998 lines imported, 3 lines rejected (see ", table.0);
    assert!(answer.stdout.starts_with(&summary), "{answer:?}");
    let numbers: Vec<_> = rejects.iter().map(|reject| &reject["line"]).collect();
    assert_eq!(numbers, [502, 1502, 2502]);
    let text = rejects[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with(r#"{"row":"0000500","cells":[{"family":"nope""#),
        "{text}"
    );
    assert_eq!(keys(&table).len(), 2_998);
}

#[test]
fn import_of_refused_lines_stops_near_the_maximum() {
    let text = lines(20_000).replace(r#""f""#, r#""nope""#);
    let (_, answer, rejects) = Refused::start(&["--max-rejects", "100"]).end(&text);
    answer.refused(1, &["more than 100 lines were rejected"]);
    assert!((101..110).contains(&rejects.len()), "{}", rejects.len());
}

#[test]
fn unknown_families_are_refused_before_any_line_is_sent() {
    let table = TestTable::new("import_families");
    let input = Input::new("rows.tsv", "r1\tv\n");
    let answer = input.import(&table, &["--columns", "HBASE_ROW_KEY, nope:q"]);
    answer.refused(1, &["--columns: ", "the table has no family nope; it has f"]);
    assert!(!input.beside("checkpoint").exists() && !input.beside("rejects").exists());
    let input = Input::new("rows.json", lines(2_000).replace(r#""f""#, r#""nope""#));
    let answer = input.import(&table, &["--max-rejects", "100"]);
    let why = "rejected: line 1: the table has no family nope; it has f";
    answer.refused(1, &["more than 100 lines were rejected", why]);
    assert_eq!(input.rejects().len(), 101);
    assert_eq!(keys(&table), [""; 0]);
}

#[test]
fn read_only_table_takes_no_line() {
    let table = TestTable::new("import_read_only");
    run(&["table", "alter", &table.0, "--attribute", "READONLY=true"]).done();
    let input = Input::new("rows.json", lines(10));
    let answer = input.import(&table, &[]);
    let fix = format!("hbase-txn table alter {} --attribute READONLY=false", table.0);
    answer.refused(1, &["is read-only", &fix]);
    assert!(!input.beside("checkpoint").exists() && !input.beside("rejects").exists());
}

#[test]
fn import_is_resumed_only_with_its_options() {
    let table = TestTable::new("import_options");
    let input = Input::new("rows.tsv", "key;q;r\na;1;2\nbroken\nb;3;4\n");
    let import = |options: &[&str]| input.import(&table, options);
    let options = [
        "--columns",
        "HBASE_ROW_KEY,f:q,f:r",
        "--separator",
        ";",
        "--skip",
        "1",
    ];
    let stopped = import(&[&options[..], &["--max-rejects", "0"]].concat());
    stopped.refused(1, &["more than 0 lines", "stopped behind line 3"]);
    for (index, other) in [(1, "HBASE_ROW_KEY,f:r,f:q"), (3, ","), (5, "0")] {
        let mut others = options;
        others[index] = other;
        let why =
            r"it is of an import with --columns HBASE_ROW_KEY,f:q,f:r --separator \x3B --skip 1, not with ";
        import(&[&others[..], &["--resume"]].concat()).refused(1, &[why, "repeat its options; delete "]);
    }
    import(&[&options[..], &["--raw", "--resume"]].concat()).refused(1, &["--raw --skip 1; repeat"]);
    let spelt_otherwise = [
        "--columns",
        "HBASE_ROW_KEY, f:q, f:r",
        "--separator",
        r"\x3b",
        "--skip",
        "1",
    ];
    let done = import(&[&spelt_otherwise[..], &["--resume", "--output", "json"]].concat());
    let summary = done.objects().remove(0);
    assert_eq!(
        (
            done.code,
            &summary["imported"],
            &summary["rejected"],
            &summary["line"]
        ),
        (3, &json!(2), &json!(1), &json!(4)),
        "{done:?}"
    );
    assert_eq!(keys(&table), ["a", "b"]);
    import(&[&options[..], &["--check"]].concat()).refused(3, &["invalid: line 3"]);
}

#[test]
fn gzip_is_recognised_and_refused() {
    let table = TestTable::new("import_gzip");
    let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
    let input = Input::new("rows.json.gz", packed);
    let path = input.path();
    let unpack = format!("zcat {path} | hbase-txn import {} -", table.0);
    for options in [&[][..], &["--check"]] {
        let answer = input.import(&table, &[&["--format", "json"], options].concat());
        answer.refused(1, &["is compressed by gzip", &unpack]);
    }
    assert!(!input.beside("checkpoint").exists());
}
