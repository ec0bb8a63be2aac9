//! `export`: what it writes, and that `import` reads it.

use std::fs;

use hbase_txn::client::{FamilyDescriptor, Put};

use crate::harness::{TestTable, run, run_with_input, uri, with_admin};

/// Bytes that are hard on formats.
const ODD: [&[u8]; 8] = [
    b"",
    b"\t",
    b"\n",
    b"\r",
    b"\\N",
    b"\\x41\\",
    b"\xff\xfe\x00",
    "é,;\"'".as_bytes(),
];

fn table(label: &str) -> TestTable {
    TestTable::odd(
        label,
        |table| table.with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "5")),
        &["m"],
    )
}

/// Writes rows whose keys, qualifiers and values have all bytes.
fn fill(table: &TestTable, qualifiers: &[Vec<u8>]) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut bytes = |most: usize| -> Vec<u8> {
        let length = random.usize(0..=most);
        match random.usize(0..3) {
            0 => ODD[random.usize(..ODD.len())].to_vec(),
            1 => std::iter::repeat_with(|| random.u8(..)).take(length).collect(),
            _ => std::iter::repeat_with(|| random.alphanumeric() as u8)
                .take(length)
                .collect(),
        }
    };
    let mut puts = Vec::new();
    for number in 0_u64..300 {
        let row = [bytes(20), number.to_be_bytes().to_vec()].concat();
        let mut put = Put::new(row);
        for (index, qualifier) in qualifiers.iter().enumerate() {
            for version in 0..3 {
                let value = bytes(40);
                if value.len() % 4 > 0 || index == 0 {
                    put = put.cell_at("f", qualifier.clone(), 1_000 + version * 7 + number % 5, value);
                }
            }
        }
        puts.push(put);
    }
    puts.push(Put::new((0..=255).collect::<Vec<u8>>()).cell_at("f", "a", 5, (0..=255).collect::<Vec<u8>>()));
    with_admin(async |_| {
        let connection = hbase_txn::client::Connection::connect(uri()).await.unwrap();
        let results = connection.table(table.name()).unwrap().mutate_many(puts).await;
        results.into_iter().for_each(|result| result.unwrap());
    });
}

#[test]
fn exported_json_is_imported_without_loss() {
    let (from, into) = (table("export_json"), table("import_json"));
    let qualifiers: Vec<_> = ODD
        .iter()
        .map(|odd| odd.to_vec())
        .chain([b"a".to_vec()])
        .collect();
    fill(&from, &qualifiers);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let path = file.to_str().unwrap();
    let done = run(&["export", &from.0, path, "--all-versions"]).done();
    assert_eq!(done, format!("{}: 301 rows exported to {path}\n", from.0));
    run(&["import", &into.0, path]).done();
    let all = |table: &TestTable| run(&["export", &table.0, "--all-versions"]).done();
    assert_eq!(all(&from), fs::read_to_string(&file).unwrap());
    assert_eq!(all(&into), all(&from));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn exported_tsv_is_imported_without_loss() {
    for separator in ["\\x09", ",", " "] {
        let (from, into) = (table("export_tsv"), table("import_tsv"));
        fill(&from, &[b"a".to_vec(), b"".to_vec(), b",=\t".to_vec()]);
        let columns = ["--columns", "f:a,HBASE_TS_KEY,f:,HBASE_ROW_KEY,f:\\x2C=\\x09"];
        let options = [&columns[..], &["--separator", separator]].concat();
        let tsv = run(&[&["export", &from.0, "--all-versions"], &options[..]].concat()).done();
        run_with_input(&[&["import", &into.0, "-"], &options[..]].concat(), &tsv).done();
        let all = |table: &TestTable| run(&["export", &table.0, "--all-versions"]).done();
        assert_eq!(all(&into), all(&from));
    }
}

#[test]
fn exports_are_of_the_rows_and_columns_that_are_named() {
    let table = table("export_some");
    let t = table.0.as_str();
    run(&["put", t, "a1", "f:a=1", "f:b=2", "--timestamp", "5"]).done();
    run(&["put", t, "a1", "f:a=3", "--timestamp", "6"]).done();
    run(&["put", t, "a2", "f:b=4", "--timestamp", "7"]).done();
    run(&["put", t, "b1", "f:a=5", "--timestamp", "8"]).done();
    let cases: &[(&[&str], &str)] = &[
        (
            &["--prefix", "a", "--column", "f:a"],
            "{\"row\":\"a1\",\"cells\":[{\"family\":\"f\",\"qualifier\":\"a\",\"timestamp\":6,\"value\":\"3\"}]}\n",
        ),
        (
            &["--start-row", "b", "--without-timestamps"],
            "{\"row\":\"b1\",\"cells\":[{\"family\":\"f\",\"qualifier\":\"a\",\"value\":\"5\"}]}\n",
        ),
        (
            &["--columns", "HBASE_ROW_KEY,f:a,f:b"],
            "a1\t3\t2\na2\t\\N\t4\nb1\t5\t\\N\n",
        ),
        (
            &[
                "--columns",
                "HBASE_ROW_KEY,HBASE_TS_KEY,f:a,f:b",
                "--versions",
                "2",
                "--limit",
                "1",
            ],
            "a1\t5\t1\t2\na1\t6\t3\t\\N\n",
        ),
        (&["--columns", "f:b,HBASE_ROW_KEY", "--separator", "1"], ""),
    ];
    for (options, expected) in &cases[..4] {
        assert_eq!(
            run(&[&["export", t], *options].concat()).done(),
            *expected,
            "{options:?}"
        );
    }
    for (options, why) in [
        (
            &["--columns", "HBASE_ROW_KEY,f:a", "--family", "f"][..],
            "leave --family and --column out",
        ),
        (
            &["--columns", "HBASE_ROW_KEY,f:a", "--all-versions"],
            "add HBASE_TS_KEY",
        ),
        (&["--without-timestamps", "--all-versions"], "--all-versions"),
        (cases[4].0, "can't separate"),
    ] {
        run(&[&["export", t], options].concat()).refused(2, &[why]);
    }
}

#[test]
fn lifetimes_of_cells_are_exported() {
    let (from, into) = (table("export_ttl"), table("import_ttl"));
    run(&["put", &from.0, "r", "f:a=1", "--ttl", "10d"]).done();
    run(&["put", &from.0, "r", "f:b=2"]).done();
    let json = run(&["export", &from.0]).done();
    assert!(json.contains(r#""ttl_ms":864000000,"value":"1""#), "{json}");
    run_with_input(&["import", &into.0, "-"], &json).done();
    assert_eq!(run(&["export", &into.0]).done(), json);
}

#[test]
fn file_is_replaced_only_by_a_whole_export() {
    let table = table("export_file");
    run(&["put", &table.0, "r", "f:a=1", "--timestamp", "5"]).done();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    fs::write(&file, "old").unwrap();
    let path = file.to_str().unwrap();
    run(&["export", &table.0, path, "--family", "nope"]).refused(1, &["nope"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let done = run(&["export", &table.0, path, "--output", "json"]).done();
    assert_eq!(
        done,
        format!("{{\"table\":\"{}\",\"rows\":1,\"file\":\"{path}\"}}\n", table.0)
    );
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\"row\":\"r\""));
    let missing = folder.path().join("no/rows.json");
    run(&["export", &table.0, missing.to_str().unwrap()]).refused(1, &["no such folder"]);
}
