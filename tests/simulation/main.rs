//! The library on a fake cluster, in virtual time, under faults that are drawn from a seed.
//!
//! Each test runs one scenario with `SIM_SEEDS` seeds (300 unless set), from a first seed that it
//! prints. `SIM_SEED=N` runs one seed again. A scenario checks what its clients were told against
//! the cells of the cluster. `docs/testing.md` has the API that each one calls.
//!
//! | file | what |
//! |---|---|
//! | `bench` | clients of a scenario, and their tables |
//! | `across` | transactions across partitions are serialisable with all others |
//! | `updates` | updates are serialisable |
//! | `transfers` | an outcome is what happened, and a record says it to everybody |
//! | `batches` | batches, shared calls, calls without the endpoint, snapshots |
//! | `bulk` | lists of mutations, writers, streams |
//! | `partitions` | locks and latches in partitions |
//! | `holds` | locks have one holder |
//! | `coordination` | permits, readers and leaders |
//! | `elections` | leaders and what followers see of them |
//! | `histories` | drawn programs have linearizable histories, which Porcupine checks; also those of `holds`, `latches` and `barriers` |
//! | `latches` | counts and arrivals |
//! | `rows` | single rows of a plain table |
//! | `barriers` | arrivals in generations |
//! | `double_barriers` | generations that are entered and left |
//! | `drawn` | every public method is drawn, or has a reason |
//! | `outages` | what outages longer than leases leave behind |
//! | `limits` | transactions at their limits |
//! | `lines` | waiting processes acquire in about the order of their arrival |
//! | `dropped` | calls that are dropped midway |
//! | `scans` | scans of regions that change |
//! | `sessions` | holds that end together, and the members of a group |
//! | `single_changes` | one change of each object |
//! | `processes` | runs in two processes |
//! | `records` | a transport that sends records, as TLS does |

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::future_not_send, reason = "a run has one thread")]

mod across;
mod barriers;
mod batches;
mod bench;
mod bulk;
mod coordination;
mod double_barriers;
mod drawn;
mod dropped;
mod elections;
mod histories;
mod holds;
#[allow(dead_code, reason = "tests under faults use the rest")]
#[path = "../holds/mod.rs"]
mod holds_checker;
mod latches;
mod limits;
#[allow(dead_code, reason = "tests under faults use the rest")]
#[path = "../linearizable/mod.rs"]
mod linearizable;
mod lines;
mod outages;
mod partitions;
mod processes;
mod records;
mod rows;
mod scans;
#[allow(dead_code, reason = "tests under faults use the rest")]
#[path = "../serialisability/mod.rs"]
mod serialisability;
mod sessions;
mod single_changes;
mod transfers;
mod updates;

use hbase_fake::sim::Simulation;

#[test]
fn updates_are_serialisable() {
    Simulation::from_env("updates")
        .steady_clocks()
        .run(updates::scenario);
}

#[test]
fn transactions_across_partitions_are_serialisable() {
    Simulation::from_env("across")
        .steady_clocks()
        .run(across::scenario);
}

#[test]
fn outcomes_are_what_happened() {
    Simulation::from_env("transfers").run(transfers::scenario);
}

#[test]
fn locks_have_one_holder() {
    Simulation::from_env("locks")
        .steady_clocks()
        .doubled_requests()
        .run(holds::scenario);
    holds::CHECKED.report();
}

#[test]
fn permits_readers_and_leaders_stay_within_their_limits() {
    Simulation::from_env("coordination")
        .steady_clocks()
        .doubled_requests()
        .run(coordination::scenario);
}

#[test]
fn followers_see_one_leader_at_a_time() {
    // A doubled acquisition takes the lock again after its release, for one lease, and followers see it.
    Simulation::from_env("elections")
        .steady_clocks()
        .run(elections::scenario);
}

#[test]
fn holds_of_a_session_end_together() {
    // A doubled acquisition takes a lock again after its release, for one lease.
    Simulation::from_env("sessions")
        .steady_clocks()
        .run(sessions::scenario);
}

#[test]
fn batches_and_snapshots_are_whole() {
    Simulation::from_env("batches")
        .region_changes(6)
        .run(batches::scenario);
}

#[test]
fn only_holders_write_in_a_partition() {
    Simulation::from_env("partitions")
        .steady_clocks()
        .run(partitions::scenario);
}

#[test]
fn latches_count_each_call_once() {
    Simulation::from_env("latches")
        .steady_clocks()
        .doubled_requests()
        .run(latches::scenario);
    latches::CHECKED.report();
}

#[test]
fn single_rows_are_read_as_they_were_written() {
    // A server whose clock goes back puts under what it has put before: so does HBase.
    Simulation::from_env("rows").steady_clocks().run(rows::scenario);
}

#[test]
fn bulk_mutations_are_applied_in_order_as_reported() {
    Simulation::from_env("bulk")
        .region_changes(6)
        .steady_clocks()
        .run(bulk::scenario);
}

#[test]
fn a_change_is_made_if_it_is_reported_so() {
    Simulation::from_env("single changes")
        .steady_clocks()
        .run(single_changes::scenario);
}

#[test]
fn scans_return_each_row_once() {
    Simulation::from_env("scans")
        .region_changes(12)
        .run(scans::scenario);
}

#[test]
fn dropped_calls_leave_nothing_half_done() {
    Simulation::from_env("dropped")
        .steady_clocks()
        .run(dropped::scenario);
}

#[test]
fn barriers_open_when_all_have_arrived() {
    Simulation::from_env("barriers")
        .steady_clocks()
        .doubled_requests()
        .run(barriers::scenario);
    barriers::CHECKED.report();
}

#[test]
fn double_barriers_are_entered_and_left_together() {
    Simulation::from_env("double barriers")
        .steady_clocks()
        .doubled_requests()
        .run(double_barriers::scenario);
}

#[test]
fn histories_are_linearizable() {
    Simulation::from_env("linearizable")
        .steady_clocks()
        .run(histories::with_steady_clocks);
    histories::report();
}

#[test]
fn histories_are_linearizable_with_skewed_clocks() {
    Simulation::from_env("linearizable, skewed clocks")
        .steady_clocks()
        .run(histories::with_skewed_clocks);
    histories::report();
}

#[test]
fn outages_leave_nothing_taken() {
    Simulation::from_env("outages").run(outages::scenario);
}

#[test]
fn transactions_at_their_limits_are_committed_or_invalid() {
    Simulation::from_env("limits").run(limits::scenario);
}

#[test]
fn who_has_waited_longest_comes_next() {
    Simulation::from_env("lines").steady_clocks().run(lines::scenario);
}
