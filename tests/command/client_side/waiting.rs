//! The line on a terminal that says what a command waits for.

use rstest::rstest;

use crate::{
    client_side::locks::{lock, lock_table},
    client_side::{barriers, coordination, latches},
    harness::{Answer, TestTable, answer, run, uri, with_default_signals},
};

/// Runs the binary with a terminal as its stderr. The answer has what is on the terminal.
fn on_a_terminal(arguments: &[&str]) -> Answer {
    let words = arguments.iter().map(|word| format!("'{word}'"));
    let line: Vec<_> = [env!("CARGO_BIN_EXE_hbase-txn").to_owned()]
        .into_iter()
        .chain(words)
        .collect();
    let terminal = with_default_signals("script")
        .args(["-qec", &line.join(" "), "/dev/null"])
        .env("HBASE_TXN_CONNECT", uri())
        .env("TERM", "xterm")
        .spawn();
    answer(terminal.unwrap())
}

/// Waits for something that is not available for three seconds.
#[track_caller]
fn waits(arguments: &[&str], line: &str) {
    let arguments = [arguments, &["--wait", "3s"]].concat();
    let shown = on_a_terminal(&arguments);
    assert_eq!(shown.code, 3, "{shown:?}");
    assert!(shown.stdout.contains(line), "{shown:?}");
    let redirected = run(&arguments);
    assert_eq!(redirected.code, 3, "{redirected:?}");
    assert!(!redirected.stderr.contains("waiting"), "{redirected:?}");
}

#[test]
fn wait_for_a_lock_shows_its_holder() {
    let table = lock_table("shown-lock");
    lock(&table, "acquire", "a", &["--holder", "me\x1b[31m", "--ttl", "1h"]).done();
    waits(
        &["lock", "acquire", &table.0, "DC#fra#svc#a"],
        r"waiting: held by me\u{1b}[31m, 60.0 min left",
    );
}

#[test]
fn wait_that_ends_at_once_shows_nothing() {
    let table = lock_table("shown-nothing");
    let acquired = on_a_terminal(&["lock", "acquire", &table.0, "DC#fra#svc#a", "--wait", "1h"]);
    assert_eq!(acquired.code, 0, "{acquired:?}");
    assert!(!acquired.stdout.contains("waiting"), "{acquired:?}");
}

#[rstest]
#[case::semaphore("semaphore", "acquire", "SEM#DC#fra#svc#a")]
#[case::election("elect", "run", "LEAD#DC#fra#svc#a")]
#[case::readers("rwlock", "write", "RW#DC#fra#svc#a")]
fn waits_for_other_holders_show_them(#[case] group: &str, #[case] action: &str, #[case] name: &str) {
    let table = lock_table("shown-holder");
    let run_holder = match group {
        "semaphore" => {
            run(&["semaphore", "create", &table.0, name, "1"]).done();
            "run"
        }
        "elect" => "run",
        _ => "read",
    };
    let options = [&["--holder", "me"], &coordination::UNTIL_TOLD[..]].concat();
    let mut holder = crate::harness::start(&coordination::arguments(
        &table,
        [group, run_holder],
        &[],
        &options,
    ));
    let show = || run(&coordination::arguments(&table, [group, "show"], &[], &[]));
    coordination::until("held", show, |seen| seen.to_string().contains("\"me\""));
    let command: &[&str] = if action == "acquire" { &[] } else { &["--", "true"] };
    let line = [&[group, action, &table.0[..], name, "--wait", "3s"], command].concat();
    let shown = on_a_terminal(&line);
    assert_eq!(shown.code, 3, "{shown:?}");
    assert!(shown.stdout.contains("waiting: held by me, "), "{shown:?}");
    drop(holder.stdin.take());
    answer(holder).done();
}

#[test]
fn waits_for_latches_and_barriers_show_what_is_left() {
    let table: TestTable = latches::latch_table("shown-latch");
    run(&["latch", "init", &table.0, "DC#fra#svc#a", "2"]).done();
    waits(
        &["latch", "wait", &table.0, "DC#fra#svc#a"],
        "waiting: open, 2 to count down",
    );
    let barrier = |action: &str, options: &[&str]| run(&barriers::arguments(&table, action, options));
    barrier("create", &["3"]).done();
    waits(
        &["barrier", "arrive", &table.0, "XDC#svc#b", "--participant", "p"],
        "waiting: generation 1, 1 of 3 have arrived",
    );
    waits(
        &["barrier", "wait", &table.0, "XDC#svc#b", "--generation", "1"],
        "waiting: generation 1, 1 of 3 have arrived",
    );
}
