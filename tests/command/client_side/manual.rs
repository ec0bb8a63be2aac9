//! `completions` and `man`, which need no cluster.

use std::{env, fs, path::Path};

use crate::harness::{answer, run_alone, with_default_signals};

#[test]
fn shells_get_completions() {
    for (shell, part) in [
        ("bash", "-F _clap_complete_hbase_txn hbase-txn"),
        ("zsh", "#compdef hbase-txn"),
        ("fish", "--command hbase-txn"),
    ] {
        let text = run_alone(&["completions", shell]).done();
        assert!(
            text.contains(part) && text.contains("HBASE_TXN_COMPLETE"),
            "{shell}: {text}"
        );
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

/// The README's lines run in a new home, as a user runs them.
#[test]
fn documented_installation_puts_completions_and_pages_in_their_places() {
    let readme = fs::read_to_string(Path::new(env!("REPOSITORY")).join("crates/cli/README.md")).unwrap();
    let (_, block) = readme.split_once("```sh\n").unwrap();
    let (lines, _) = block.split_once("```").unwrap();
    let home = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_hbase-txn")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap());
    let shell = |program: &str, text: &str| {
        let mut shell = with_default_signals(program);
        shell
            .args(["-c", text])
            .env("HOME", home.path())
            .env("PATH", &path);
        answer(shell.spawn().unwrap())
    };
    shell("sh", &format!("set -eu\n{lines}")).done();
    // Again, after an upgrade.
    shell("sh", &format!("set -eu\n{lines}")).done();
    for (file, part) in [
        (
            ".local/share/bash-completion/completions/hbase-txn",
            "-F _clap_complete_hbase_txn hbase-txn",
        ),
        (".local/share/zsh/site-functions/_hbase-txn", "#compdef hbase-txn"),
        (".config/fish/completions/hbase-txn.fish", "--command hbase-txn"),
        (".local/share/man/man1/hbase-txn-lock-watch.1", "renewals"),
    ] {
        let text = fs::read_to_string(home.path().join(file)).unwrap();
        assert!(text.contains(part), "{file}");
    }
    let complete = r#"
        . ~/.local/share/bash-completion/completions/hbase-txn
        function=$(complete -p hbase-txn | sed 's/.*-F \([^ ]*\).*/\1/')
        COMP_WORDS=(hbase-txn lock wat) COMP_CWORD=2
        $function hbase-txn wat lock
        echo "${COMPREPLY[@]}""#;
    assert_eq!(shell("bash", complete).done(), "watch\n");
}
