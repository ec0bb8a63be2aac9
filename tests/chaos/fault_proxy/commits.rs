//! One fault, one commit.

use std::time::Duration;

use hbase_txn::Outcome;

use super::{COMMIT, Rig};
use crate::{proxy::Action, settings::Settings};

const DEADLINE: Duration = Duration::from_millis(1_500);

/// The state of the rows after a commit with an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    There,
    Absent,
    Either,
}

#[tokio::test]
async fn commit_with_a_lost_answer_is_unknown_and_not_sent_again() {
    const TEST: &str = "lost_answers";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    let unhurried = rig.table.clone();
    for (action, rows) in [
        (Action::DropAnswer, Rows::There),
        (Action::DropRequest, Rows::Absent),
        (Action::CutBeforeRequest, Rows::Absent),
        (Action::CutInRequest, Rows::Absent),
        (Action::CutAfterRequest, Rows::Either),
        (Action::CutBeforeAnswer, Rows::There),
        (Action::CutInAnswer, Rows::There),
        (Action::DelayAnswer(2 * DEADLINE), Rows::There),
        (Action::Blackhole, Rows::Absent),
    ] {
        rig.table = unhurried.clone().with_operation_timeout(DEADLINE);
        let sent = rig.proxy.requests(COMMIT);
        rig.proxy.once(COMMIT, action);
        let (outcome, group) = rig.commit("iii").await;
        assert!(matches!(&outcome, Outcome::Unknown(_)), "{action:?}: {outcome}");
        let error = outcome.error().unwrap();
        assert!(
            error.is_outcome_unknown() && !error.is_retryable(),
            "{action:?}: {error}"
        );
        assert_eq!(rig.proxy.requests(COMMIT) - sent, 1, "{action:?}: sent again");
        rig.table = unhurried.clone();
        let there = rig.is_there(&group).await;
        match rows {
            Rows::There => assert!(there, "{action:?}"),
            Rows::Absent => assert!(!there, "{action:?}"),
            Rows::Either => {}
        }
        rig.still_works().await;
    }
    rig.end().await;
}

#[tokio::test]
async fn commit_that_was_sent_in_part_is_sent_again() {
    const TEST: &str = "cut_before";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    for taken in [0, 1, 40] {
        let sent = rig.proxy.requests(COMMIT);
        let dialled = rig.proxy.dialled();
        rig.proxy.break_next_write_after(taken);
        let (outcome, group) = rig.commit("iii").await;
        assert!(outcome.is_committed(), "broken after {taken} bytes: {outcome}");
        assert!(rig.is_there(&group).await);
        assert_eq!(rig.proxy.requests(COMMIT) - sent, 1, "{taken}");
        assert_eq!(rig.proxy.dialled() - dialled, 1, "{taken}");
    }
    // The connection closes, and the next dials fail.
    rig.proxy.break_next_write_after(0);
    rig.proxy.refuse_dials(3);
    let (outcome, group) = rig.commit("iii").await;
    assert!(outcome.is_committed(), "{outcome}");
    assert!(rig.is_there(&group).await);
    rig.still_works().await;
    rig.end().await;
}

#[tokio::test]
async fn a_second_answer_to_one_call_is_skipped() {
    const TEST: &str = "second_answers";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| config).await;
    let dialled = rig.proxy.dialled();
    rig.proxy.rule(|_| Action::Duplicate);
    for _ in 0..50 {
        let (outcome, group) = rig.commit("iii").await;
        assert!(outcome.is_committed(), "{outcome}");
        assert!(rig.is_there(&group).await);
    }
    // A late answer stands for a second one: its call was given up.
    let table = rig.table.clone();
    rig.table = table.clone().with_operation_timeout(Duration::from_secs(1));
    rig.proxy
        .once(COMMIT, Action::DelayAnswer(Duration::from_millis(1_500)));
    let (outcome, _) = rig.commit("iii").await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
    rig.table = table;
    rig.still_works().await;
    // The silence of that second may have cost one connection, the doubled answers none.
    assert!(rig.proxy.dialled() <= dialled + 1);
    rig.end().await;
}
