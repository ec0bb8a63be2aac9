//! The cells of barriers, and double barriers in virtual time.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use futures::future::{join, join3};
use hbase_fake::FakeHBase;
use rstest::rstest;
use tokio::time::{Instant, sleep};

use super::{
    BarrierInfo, BarrierOutcome, BarrierPhase, DoubleBarrier,
    cells::{Arrivals, State},
};
use crate::{
    ClientErrorKind, ErrorKind, Result,
    latch::{
        in_virtual_time::{cluster, processes},
        note::{Note, new_change},
    },
};

const TIME: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);

fn state(is_double: bool) -> State {
    State {
        barrier: 7,
        is_double,
        parties: 3,
        time: 1_000,
        generation: 1,
        is_filling: false,
        opened: 0,
        note: Note::first(new_change()),
    }
}

#[test]
fn generations_of_a_double_barrier_have_two_phases_each() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let (mut state, mut ended) = (state(true), BTreeMap::new());
        for _ in 0..100 {
            let (phase, opens) = (state.generation, rng.bool());
            let entered = phase % 2 == 1;
            let expected = if entered {
                BarrierPhase::Entering
            } else {
                BarrierPhase::Leaving
            };
            assert_eq!(state.phase(), Some(expected));
            ended.insert(phase, opens);
            if entered && !opens {
                ended.insert(phase + 1, false);
            }
            state = state.after(opens);
            assert_eq!(state.generation, ended.len() as u64 + 1);
            assert_eq!(state.number(state.generation), ended.len() as u64 / 2 + 1);
            for (phase, opened) in ended.iter().rev().take(64) {
                let outcome = if *opened {
                    BarrierOutcome::Opened
                } else {
                    BarrierOutcome::Broken
                };
                assert_eq!(state.ended(*phase), Some(outcome), "seed {seed}, phase {phase}");
            }
        }
        assert_eq!(State::decode(&state.encode()), Some(state));
    }
}

#[test]
fn barrier_keeps_its_form() {
    let single = state(false);
    let value = single.encode();
    assert_eq!(value[..13], [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3]);
    assert_eq!((single.phase(), single.number(5)), (None, 5));
    assert_eq!(single.after(false).generation, 2);
    let mut double = value.to_vec();
    double[0] = 2;
    assert!(State::decode(&double).is_some_and(|state| state.is_double));
    double[0] = 3;
    assert_eq!(State::decode(&double), None);
}

#[rstest]
#[case(0, 0)]
#[case(3, 0)]
#[case(1, 2)]
#[case(0, 999)]
fn arrivals_decode(#[case] arrived: u8, #[case] inside: u16) {
    let name = |number: u16| [number.to_be_bytes()[1]; 16];
    let arrivals = Arrivals {
        barrier: 1,
        generation: 2,
        names: (0..u16::from(arrived)).map(name).collect(),
        inside: (0..inside).map(name).collect(),
    };
    let value = arrivals.encode();
    assert_eq!(Arrivals::decode(&value), Some(arrivals));
    let mut odd = value.to_vec();
    odd.extend([0xff; 18]);
    assert_eq!(Arrivals::decode(&odd[..value.len() + 1]), None);
    if inside == 0 {
        assert_eq!(Arrivals::decode(&odd), None, "more inside than there are");
    }
}

/// Creates a double barrier that breaks after [`TIME`].
async fn created(hbase: &FakeHBase, parties: u32) -> Result<DoubleBarrier> {
    let latches = processes(hbase, 1, PATIENCE).await?.remove(0);
    let double = latches.double_barrier("b")?;
    double.create(parties, TIME).await?;
    Ok(double)
}

async fn shown(double: &DoubleBarrier) -> Result<(u64, BarrierPhase, u32)> {
    let info = double.show().await?.unwrap();
    Ok((info.generation, info.phase.unwrap(), info.arrived))
}

#[tokio::test(start_paused = true)]
async fn parties_enter_and_leave_together() -> Result<()> {
    let hbase = cluster();
    let double = created(&hbase, 2).await?;
    let (first, outcome) = double.enter("p", SHORT).await?;
    assert_eq!((first.generation(), outcome), (1, BarrierOutcome::TimedOut));
    assert_eq!(shown(&double).await?, (1, BarrierPhase::Entering, 1));
    let error = double.leave(&first, SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    assert_eq!(shown(&double).await?, (1, BarrierPhase::Entering, 1));

    let again = double.enter_in("p", 1, PATIENCE);
    let (again, second) = join(again, double.enter("q", PATIENCE)).await;
    let (second, outcome) = second?;
    assert_eq!(again?, (first.clone(), BarrierOutcome::Opened));
    assert_eq!((second.generation(), outcome), (1, BarrierOutcome::Opened));
    assert_eq!(shown(&double).await?, (1, BarrierPhase::Leaving, 0));

    for stage in ["inside", "leaving"] {
        // A participant stays in its generation until it leaves.
        let (repeated, outcome) = double.enter("q", SHORT).await?;
        assert_eq!(
            (repeated, outcome),
            (second.clone(), BarrierOutcome::Opened),
            "{stage}"
        );
        let error = double.enter_in("q", 2, SHORT).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        let error = double.leave_in("r", 1, SHORT).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        let (next, outcome) = double.enter("r", SHORT).await?;
        assert_eq!(
            (next.generation(), outcome),
            (2, BarrierOutcome::NotEntered),
            "{stage}"
        );
        assert_eq!(
            double.leave(&first, SHORT).await?,
            BarrierOutcome::TimedOut,
            "{stage}"
        );
        assert_eq!(shown(&double).await?, (1, BarrierPhase::Leaving, 1));
    }

    let began = Instant::now();
    let last = async {
        sleep(SHORT).await;
        (double.leave_in("q", 1, PATIENCE).await, began.elapsed())
    };
    let (next, left, (last, at)) =
        join3(double.enter("r", SHORT * 3), double.leave(&first, PATIENCE), last).await;
    assert!(at >= SHORT);
    assert_eq!((left?, last?), (BarrierOutcome::Opened, BarrierOutcome::Opened));
    let (next, outcome) = next?;
    assert_eq!(
        (next.generation(), outcome),
        (2, BarrierOutcome::TimedOut),
        "it has entered"
    );
    assert_eq!(shown(&double).await?, (2, BarrierPhase::Entering, 1));
    assert_eq!(
        double.leave(&second, SHORT).await?,
        BarrierOutcome::Opened,
        "again"
    );
    let (other, outcome) = double.enter_in("p", 1, SHORT).await?;
    assert_eq!((other, outcome), (first, BarrierOutcome::Opened));
    let error = double.enter_in("p", 4, SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn generation_that_is_not_entered_in_time_is_not_left() -> Result<()> {
    let hbase = cluster();
    let double = created(&hbase, 2).await?;
    let began = Instant::now();
    let (broken, outcome) = double.enter("p", PATIENCE).await?;
    assert_eq!((broken.generation(), outcome), (1, BarrierOutcome::Broken));
    assert!(began.elapsed() >= TIME, "{:?}", began.elapsed());
    assert_eq!(double.leave(&broken, SHORT).await?, BarrierOutcome::Broken);
    assert_eq!(shown(&double).await?, (2, BarrierPhase::Entering, 0));
    let (entry, _) = double.enter("p", SHORT).await?;
    assert_eq!(entry.generation(), 2);
    // Its time is over, and no write has recorded that.
    sleep(TIME).await;
    assert_eq!(shown(&double).await?, (3, BarrierPhase::Entering, 0));
    assert_eq!(double.leave_in("q", 2, SHORT).await?, BarrierOutcome::Broken);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn generation_breaks_after_a_party_died_inside() -> Result<()> {
    let hbase = cluster();
    let double = created(&hbase, 2).await?;
    let (first, second) = join(double.enter("p", PATIENCE), double.enter("q", PATIENCE)).await;
    let ((first, _), _) = (first?, second?);
    // Inside there is no limit.
    sleep(TIME * 10).await;
    assert_eq!(shown(&double).await?, (1, BarrierPhase::Leaving, 0));
    let began = Instant::now();
    assert_eq!(double.leave(&first, PATIENCE).await?, BarrierOutcome::Broken);
    let took = began.elapsed();
    assert!(took >= TIME && took < TIME + SHORT, "{took:?}");
    let (next, again) = join(double.enter("p", PATIENCE), double.enter("q", PATIENCE)).await;
    let (next, again) = (next?, again?);
    assert_eq!((next.0.generation(), next.1), (2, BarrierOutcome::Opened));
    assert_eq!((again.0.generation(), again.1), (2, BarrierOutcome::Opened));
    assert_eq!(
        double.leave_in("q", 1, SHORT).await?,
        BarrierOutcome::Broken,
        "late"
    );
    assert_eq!(shown(&double).await?, (2, BarrierPhase::Leaving, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_party_enters_and_leaves() -> Result<()> {
    let hbase = cluster();
    let double = created(&hbase, 1).await?;
    for generation in 1..5 {
        let (entry, outcome) = double.enter("p", SHORT).await?;
        assert_eq!(
            (entry.generation(), outcome),
            (generation, BarrierOutcome::Opened)
        );
        assert_eq!(
            double.leave_in("q", generation, SHORT).await.unwrap_err().kind(),
            ClientErrorKind::InvalidInput
        );
        assert_eq!(double.leave(&entry, SHORT).await?, BarrierOutcome::Opened);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn kinds_of_barriers_are_not_mixed_up() -> Result<()> {
    let hbase = cluster();
    let latches = processes(&hbase, 1, PATIENCE).await?.remove(0);
    let double = created(&hbase, 2).await?;
    let single = latches.barrier("b")?;
    let mismatch = ErrorKind::DefinitionMismatch;
    assert_eq!(single.arrive("p").await.unwrap_err().kind(), mismatch);
    assert_eq!(single.arrive_in("p", 1).await.unwrap_err().kind(), mismatch);
    assert_eq!(single.wait_for(1, SHORT).await.unwrap_err().kind(), mismatch);
    assert_eq!(
        single.create(2, TIME).await.unwrap_err().kind(),
        ErrorKind::LatchExists
    );
    let (entry, _) = double.enter("p", SHORT).await?;
    let listed = latches.list_barriers().await?;
    let infos: Vec<BarrierInfo> = listed.into_iter().map(|listed| listed.info).collect();
    assert_eq!(infos, [single.show().await?.unwrap()]);

    assert!(single.delete().await?);
    single.create(2, TIME).await?;
    assert_eq!(double.enter("p", SHORT).await.unwrap_err().kind(), mismatch);
    assert_eq!(double.leave(&entry, SHORT).await.unwrap_err().kind(), mismatch);
    assert_eq!(single.show().await?.unwrap().phase, None);
    assert!(double.delete().await?);
    double.create(1, TIME).await?;
    let _ = double.enter("p", SHORT).await?;
    // It is not the barrier of that entry.
    assert_eq!(
        double.leave(&entry, SHORT).await.unwrap_err().kind(),
        ErrorKind::LatchAbsent
    );
    Ok(())
}
