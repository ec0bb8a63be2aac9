//! `completions` and `man`, which need no cluster.

use std::fs;

use crate::harness::run_alone;

#[test]
fn shells_get_completions() {
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef hbase-txn"),
        ("fish", "complete -c hbase-txn"),
    ] {
        let text = run_alone(&["completions", shell]).done();
        assert!(text.contains(part) && text.contains("snapshot"), "{shell}");
    }
    run_alone(&["completions", "tcsh"]).refused(2, &["tcsh"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    run_alone(&["man", path.to_str().unwrap()]).done();
    for (page, part) in [
        ("hbase-txn.1", "row"),
        ("hbase-txn-scan.1", "reversed"),
        ("hbase-txn-table-create.1", "prefix\\-length"),
    ] {
        let text = fs::read_to_string(path.join(page)).unwrap();
        assert!(text.contains(part), "{page}: {text}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    run_alone(&["man", file.to_str().unwrap()]).refused(1, &["file"]);
}
