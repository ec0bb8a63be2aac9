//! `lock run`: a command under a lock, signals, and what happens when the lock is lost.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use hbase_txn::client::FamilyDescriptor;
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::{
    client_side::locks::{arguments, lock, lock_table, show, told, until},
    harness::{Answer, TestTable, answer, command, run_with_input, until_caught, uri, with_default_signals},
    support::{forwarder::Forwarder, standalone},
};

/// A run of `lock run` in progress.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Runs a script under the lock `a`, in its own process group, because the tests may have a
    /// terminal.
    fn start(table: &TestTable, options: &[&str], script: &str) -> Self {
        Self::start_at(uri(), table, options, script)
    }

    /// The same with the cluster at this address.
    fn start_at(uri: &str, table: &TestTable, options: &[&str], script: &str) -> Self {
        let options = [options, &["--", "sh", "-c", script]].concat();
        let mut child = command(arguments(table, "run", "a", &options))
            .env("HBASE_TXN_CONNECT", uri)
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the id of the process that the script started. That process writes `started` when it
    /// is ready; the shell writes the id, before or after.
    fn started(&mut self) -> String {
        let mut lines = vec![self.line(), self.line()];
        lines.retain(|line| line != "started");
        let [pid] = <[String; 1]>::try_from(lines).expect("`started` and a number");
        pid
    }

    /// Waits for its exit, and returns the rest of its output.
    fn end(mut self) -> Answer {
        let mut rest = String::new();
        let end = answer(self.child);
        self.stdout.read_to_string(&mut rest).unwrap();
        Answer { stdout: rest, ..end }
    }
}

#[track_caller]
fn within<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
    }
}

/// Returns whether a process exists and is not a zombie.
fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

/// Returns how many processes wait for the lock, unless the server needs longer to say it.
fn waiting(table: &TestTable) -> Option<u64> {
    let seen = lock(table, "watch", "a", &["--wait", "100ms"]);
    seen.objects().first()?["waiting"].as_u64()
}

#[rstest]
fn signalled_waiter_leaves_the_queue_before_it_exits(#[values(Signal::TERM, Signal::INT)] signal: Signal) {
    let table = lock_table("run_leaves");
    let mut holder = Running::start(&table, &["--ttl", "1m"], FOREVER);
    assert_eq!(holder.line(), "ready");
    let waiter = Running::start(&table, &["--wait", "1m"], "echo never");
    within("a waiter", || waiting(&table).filter(|waiting| *waiting == 1));
    waiter.signal(signal);
    let ended = waiter.end();
    assert_eq!((ended.code, &*ended.stdout), (130, ""));
    // A ticket that is left would be there for three seconds.
    assert_eq!(within("a look", || waiting(&table)), 0);
    holder.signal(Signal::TERM);
    let _ = holder.end();
}

/// A script that runs until it is signalled.
const FOREVER: &str = "echo ready; while :; do sleep 0.05; done";

#[test]
fn command_gets_streams_lock_and_number_and_keeps_its_status() {
    let table = lock_table("run");
    let binary = env!("CARGO_BIN_EXE_hbase-txn");
    let script = format!(
        "cat; echo \"$HBASE_TXN_LOCK $HBASE_TXN_FENCING\"; \
         {binary} lock show {} a --farm fra --client svc --output json; echo complaint >&2; exit 7",
        table.0
    );
    let options = ["--holder", "runner", "--", "sh", "-c", &script];
    let ran = run_with_input(&arguments(&table, "run", "a", &options), "input\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (7, "complaint\n"), "{ran:?}");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "input");
    let shown: Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!(
        (shown["state"].as_str(), shown["holder"].as_str()),
        (Some("held"), Some("runner"))
    );
    assert_eq!(lines[1], format!("DC#fra#svc#a {}", shown["fencing"]));
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn a_command_that_a_signal_ended_is_told_as_shells_tell_it() {
    let table = lock_table("killed");
    assert_eq!(
        lock(&table, "run", "a", &["--", "sh", "-c", "kill -9 $$"]).code,
        137
    );
    assert_eq!(lock(&table, "run", "a", &["--", "true"]).code, 0);
}

#[rstest]
#[case("no-such-command", 127, "No such file or directory")]
#[case("/", 126, "Permission denied")]
#[case("", 127, "No such file or directory")]
fn a_command_that_can_t_be_run_leaves_no_lock(#[case] program: &str, #[case] status: i32, #[case] why: &str) {
    let table = lock_table("unrunnable");
    lock(&table, "run", "a", &["--", program]).refused(status, &["running", "DC#fra#svc#a", why]);
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn a_command_is_not_run_without_the_lock() {
    let table = lock_table("unavailable");
    lock(&table, "acquire", "a", &["--holder", "other"]).done();
    let refused = lock(&table, "run", "a", &["--", "echo", "ran"]);
    refused.refused(3, &["held by other"]);
    assert_eq!(refused.stdout, "");
    let never = TestTable(crate::harness::unique_name("unmade"));
    let refused = lock(&never, "run", "a", &["--", "echo", "ran"]);
    refused.refused(1, &["no such table", "--create"]);
    assert_eq!(refused.stdout, "");
}

#[test]
fn a_lease_is_renewed_as_long_as_the_command_runs() {
    let table = lock_table("renewed");
    let binary = env!("CARGO_BIN_EXE_hbase-txn");
    let script = format!(
        "sleep 4; {binary} lock show {} a --farm fra --client svc --output json",
        table.0
    );
    let ran = lock(&table, "run", "a", &["--ttl", "3s", "--", "sh", "-c", &script]);
    let shown: Value = serde_json::from_str(&ran.done()).unwrap();
    assert_eq!(shown["state"], "held");
    assert!(shown["age_ms"].as_u64() >= Some(3_900), "{shown}");
}

#[rstest]
fn signals_are_passed_on(
    #[values(
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2
    )]
    signal: Signal,
) {
    let table = lock_table("signals");
    let trap = format!("trap 'echo told; exit 9' {}; {FOREVER}", signal.as_raw());
    let mut run = Running::start(&table, &[], &trap);
    assert_eq!(run.line(), "ready");
    run.signal(signal);
    let end = run.end();
    assert_eq!((end.code, end.stdout.as_str()), (9, "told\n"), "{end:?}");
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn a_command_that_does_nothing_about_a_signal_ends_by_it() {
    let table = lock_table("untrapped");
    let mut run = Running::start(&table, &[], FOREVER);
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 143);
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn signal_that_comes_with_the_end_of_the_command_does_not_keep_the_lock() {
    let table = lock_table("together");
    for _ in 0..20 {
        let ended = Running::start(&table, &[], "kill -TERM $PPID").end();
        assert!(!ended.stderr.contains("cannot release"), "{}", ended.stderr);
        assert_eq!(show(&table, "a")["state"], "free");
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let table = lock_table("nohup");
    let line = arguments(&table, "run", "a", &["--", "grep", "SigIgn", "/proc/self/status"]).join(" ");
    let shell = with_default_signals("sh")
        .args([
            "-c",
            &format!("trap '' HUP; exec {} {line}", env!("CARGO_BIN_EXE_hbase-txn")),
        ])
        .env("HBASE_TXN_CONNECT", uri())
        .spawn();
    let ignored = answer(shell.unwrap()).done();
    let mask = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 0b111, 1, "HUP alone of the first three: {ignored}");
}

#[test]
fn lost_lock_ends_the_command_and_its_children() {
    let table = lock_table("lost");
    // A renewal between the release and the next acquisition would find no lock.
    let mut run = Running::start(
        &table,
        &["--ttl", "10s"],
        "trap 'echo told; exit 0' TERM; sleep 1000 & echo $!; while :; do sleep 0.05; done",
    );
    let sleeper = run.line();
    assert!(lives(&sleeper), "{sleeper}");
    lock(&table, "release", "a", &["--force"]).done();
    let next = lock(&table, "acquire", "a", &["--holder", "the next", "--ttl", "1h"]);
    next.done();
    let end = run.end();
    assert_eq!((end.code, end.stdout.as_str()), (4, "told\n"), "{end:?}");
    end.refused(
        4,
        &["running sh under lock DC#fra#svc#a", "lost", "taken by the next"],
    );
    assert!(!lives(&sleeper));
    assert_eq!(show(&table, "a")["holder"], "the next");
}

#[test]
fn a_command_that_ignores_term_is_killed_after_five_seconds() {
    let table = lock_table("stubborn");
    let mut run = Running::start(
        &table,
        &["--ttl", "2s"],
        &format!("trap '' TERM; echo $$; {FOREVER}"),
    );
    let pid = run.line();
    assert_eq!(run.line(), "ready");
    let began = Instant::now();
    lock(&table, "release", "a", &["--force"]).done();
    let end = run.end();
    assert_eq!(end.code, 4, "{end:?}");
    assert!(began.elapsed() >= Duration::from_secs(5), "{end:?}");
    assert!(!lives(&pid));
}

#[test]
fn orphan_that_ignores_term_is_killed() {
    let table = lock_table("orphan");
    let script = "(trap '' TERM; echo started; while :; do sleep 0.05; done) & echo $!; wait";
    let mut run = Running::start(&table, &["--ttl", "2s"], script);
    let orphan = run.started();
    lock(&table, "release", "a", &["--force"]).done();
    assert_eq!(run.end().code, 4);
    within("the end of what was left", || (!lives(&orphan)).then_some(()));
}

#[test]
fn lock_is_held_until_what_the_command_started_has_ended() {
    let table = lock_table("background");
    let run = Running::start(&table, &[], "sleep 3 & exit 7");
    until(&table, "a", "held");
    let end = run.end();
    assert_eq!(end.code, 7, "{end:?}");
    assert!(end.took >= Duration::from_secs(2), "released before: {end:?}");
    assert_eq!(show(&table, "a")["state"], "free");
    // With this option only the command itself is waited for.
    let mut run = Running::start(
        &table,
        &["--release-on-exit"],
        "sleep 1000 >&- 2>&- & echo $!; exit 7",
    );
    let sleeper = run.line();
    assert_eq!(run.end().code, 7);
    assert_eq!(show(&table, "a")["state"], "free");
    assert!(lives(&sleeper));
    kill_process(Pid::from_raw(sleeper.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn terminal_changes_nothing_about_what_is_waited_for() {
    let table = lock_table("terminal");
    lock(&table, "acquire", "a", &["--ttl", "2s"]).done();
    // The other end of the pipe is in the same process group.
    let script = ["--", "sh", "-c", "'sleep 3 & exit 7'", "|", "cat"];
    let line = arguments(&table, "run", "a", &["--wait", "10s"]).join(" ");
    let terminal = with_default_signals("script")
        .args(["-qec"])
        .arg(format!(
            "{} {line} {}",
            env!("CARGO_BIN_EXE_hbase-txn"),
            script.join(" ")
        ))
        .arg("/dev/null")
        .env("HBASE_TXN_CONNECT", uri())
        .spawn();
    let end = answer(terminal.unwrap());
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.took >= Duration::from_secs(3), "{end:?}");
    assert_eq!(show(&table, "a")["state"], "free");
}

/// Leaves 50 short-lived orphans, and exits with the number of zombies that `lock run` has then.
const ORPHANS: &str = r#"for i in $(seq 50); do sh -c "sleep 0.1 &"; done; sleep 1;
    exit $(grep -lE "^[0-9]+ \(.*\) Z $PPID " /proc/[0-9]*/stat 2>/dev/null | wc -l)"#;

#[test]
fn orphans_leave_no_zombies_while_the_command_runs() {
    let table = lock_table("zombies");
    let ran = lock(&table, "run", "a", &["--", "sh", "-c", ORPHANS]);
    assert_eq!(ran.code, 0, "zombies, {ran:?}");
    // On a terminal orphans become children of `lock run`.
    let line = arguments(&table, "run", "b", &["--", "sh", "-c", &format!("'{ORPHANS}'")]).join(" ");
    let terminal = with_default_signals("script")
        .args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_hbase-txn"))])
        .arg("/dev/null")
        .env("HBASE_TXN_CONNECT", uri())
        .spawn();
    let ran = answer(terminal.unwrap());
    assert_eq!(ran.code, 0, "zombies at the terminal, {ran:?}");
}

#[test]
fn term_reaches_the_children_before_the_release() {
    let table = lock_table("group");
    // TERM ends the shell; its child cleans up for a second, or ignores TERM. Neither prints a line
    // before it has set its trap.
    let script =
        "sh -c \"trap 'sleep 1; exit' TERM; echo started; while :; do sleep 0.05; done\" & echo $!; wait";
    let mut run = Running::start(&table, &[], script);
    let cleaner = run.started();
    run.signal(Signal::TERM);
    let end = run.end();
    assert_eq!(end.code, 143, "{end:?}");
    assert!(
        !lives(&cleaner) && end.took >= Duration::from_millis(700),
        "{end:?}"
    );
    assert_eq!(show(&table, "a")["state"], "free");

    let script = "(trap '' TERM; echo started; while :; do sleep 0.05; done) & echo $!; wait";
    let mut run = Running::start(&table, &[], script);
    let deaf = run.started();
    run.signal(Signal::TERM);
    let end = run.end();
    assert_eq!(end.code, 143, "{end:?}");
    assert!(!lives(&deaf) && end.took >= Duration::from_secs(4), "{end:?}");
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn a_run_that_was_stopped_past_its_lease_has_lost_the_lock() {
    let table = lock_table("stopped");
    let mut run = Running::start(&table, &["--ttl", "2s"], FOREVER);
    assert_eq!(run.line(), "ready");
    run.signal(Signal::STOP);
    until(&table, "a", "free");
    run.signal(Signal::CONT);
    run.end().refused(4, &["lost", "its lease expired"]);
}

#[test]
fn command_that_ends_after_a_revocation_is_not_done() {
    let table = lock_table("late");
    let binary = env!("CARGO_BIN_EXE_hbase-txn");
    let script = format!(
        "{binary} lock release {} a --farm fra --client svc --force",
        table.0
    );
    let ran = lock(&table, "run", "a", &["--ttl", "1h", "--", "sh", "-c", &script]);
    ran.refused(4, &["lost before the command ended", "revoked"]);
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    let table = lock_table("interrupted");
    let held = told(&lock(&table, "acquire", "a", &["--ttl", "1h"]), 0);
    for action in ["run", "acquire"] {
        let options: &[&str] = match action {
            "run" => &["--wait", "1h", "--", "echo", "ran"],
            _ => &["--wait", "1h"],
        };
        let waiting = command(arguments(&table, action, "a", options))
            .env("HBASE_TXN_CONNECT", uri())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&waiting);
        // Signal handlers are installed before the first call. That of USR2 is the last: the one of TERM
        // has a listener by then.
        until_caught(pid, Signal::USR2);
        assert!(test_kill_process(pid).is_ok());
        kill_process(pid, Signal::TERM).unwrap();
        let end = answer(waiting);
        end.refused(130, &["interrupted"]);
        assert!(
            end.stdout.is_empty() && end.took < Duration::from_secs(10),
            "{end:?}"
        );
    }
    let token = held["token"].as_str().unwrap();
    lock(&table, "release", "a", &["--token", token]).done();
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn familys_ttl_loses_a_lock_early_despite_renewals() {
    let family = FamilyDescriptor::new("D").with_attribute("TTL", "26");
    let table = TestTable::odd("short_lived", |table| table.with_family(family), &[]);
    // bash knows the time without another process, which may begin late.
    let script = "exec bash -c 'trap \"echo \\${EPOCHREALTIME/[.,]/}; exit\" TERM; echo ready; \
                  while :; do sleep 0.05 & wait; done'";
    // The margin of this lease is two seconds, so the program ends in time on a busy machine, too.
    let mut run = Running::start(&table, &["--ttl", "20s"], script);
    assert_eq!(run.line(), "ready");
    let next = told(
        &lock(&table, "acquire", "a", &["--wait", "60s", "--ttl", "1s"]),
        0,
    );
    let ended = run.line().parse::<u64>().unwrap() / 1_000;
    // A fencing number is the server's time in milliseconds, and the server is on this machine.
    assert!(ended < next["fencing"].as_u64().unwrap(), "{ended}: {next}");
    run.end().refused(4, &["lost", "its lease expired"]);
}

/// As when a firewall has dropped the connection's state, and HBase is healthy.
#[test]
fn silent_connection_does_not_end_the_program() {
    let table = lock_table("silent");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = standalone().status.ports["region-server"];
    let forwarder = runtime.block_on(Forwarder::in_front_of(server));
    let mut run = Running::start_at(
        &format!("hbase+rpc://127.0.0.1:{}", forwarder.port),
        &table,
        &["--ttl", "10s"],
        "echo ready; sleep 14; echo done",
    );
    assert_eq!(run.line(), "ready");
    let before = forwarder.accepted();
    forwarder.silence_existing();
    let end = run.end();
    assert!(
        forwarder.accepted() > before,
        "the command did not connect through the forwarder"
    );
    assert_eq!((end.code, end.stdout.as_str()), (0, "done\n"), "{end:?}");
}

#[test]
fn statuses_of_the_command_itself_can_be_replaced() {
    let table = lock_table("run_codes");
    let codes = ["--conflict-exit-code", "75", "--lost-exit-code", "76"];
    let ran = |script: &str| {
        lock(
            &table,
            "run",
            "a",
            &[&codes[..], &["--", "sh", "-c", script]].concat(),
        )
    };
    for code in [0, 3, 4] {
        assert_eq!(ran(&format!("exit {code}")).code, code);
    }
    let mut holder = Running::start(&table, &[&["--ttl", "3s"], &codes[..]].concat(), FOREVER);
    assert_eq!(holder.line(), "ready");
    ran("true").refused(75, &["not available"]);
    lock(&table, "release", "a", &["--force"]).done();
    holder.end().refused(76, &["lost"]);
}
