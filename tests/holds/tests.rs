//! Histories that must pass, and histories that must fail.

use std::time::Duration;

use super::{Event, Fault, HoldId, What, check};

fn begin(at: u64, lock: usize, hold: HoldId, fencing: i64) -> Event {
    Event {
        at: Duration::from_millis(at),
        lock,
        hold,
        what: What::Acquired { fencing },
    }
}

fn end(at: u64, lock: usize, hold: HoldId) -> Event {
    Event {
        at: Duration::from_millis(at),
        lock,
        hold,
        what: What::Ended,
    }
}

#[test]
fn consecutive_holds_pass_the_checker_in_any_order() {
    let mut events = vec![
        begin(0, 0, 1, 10),
        end(5, 0, 1),
        begin(5, 0, 2, 11),
        // Another lock, at the same time and with a lower number.
        begin(1, 1, 3, 7),
        end(9, 1, 3),
        end(7, 0, 2),
        begin(8, 0, 4, 20),
        end(8, 0, 4),
    ];
    assert_eq!(check(&events), Ok(4));
    events.reverse();
    assert_eq!(check(&events), Ok(4));
    assert_eq!(check(&[]), Ok(0));
}

#[test]
fn impossible_histories_are_refused() {
    let overlap = |first, second| Fault::Overlap {
        lock: 0,
        first,
        second,
    };
    let fencing = |before, after| Fault::Fencing {
        lock: 0,
        before,
        after,
    };
    let first = [begin(0, 0, 1, 10), end(5, 0, 1)];
    let cases: Vec<(Vec<Event>, Fault)> = vec![
        // The second hold begins inside the first, ends before it, or lies inside it.
        (vec![begin(4, 0, 2, 11), end(9, 0, 2)], overlap(1, 2)),
        (vec![begin(2, 0, 2, 11), end(3, 0, 2)], overlap(1, 2)),
        (vec![begin(0, 0, 2, 11), end(9, 0, 2)], overlap(1, 2)),
        (vec![begin(6, 0, 2, 10), end(9, 0, 2)], fencing(10, 10)),
        (vec![begin(6, 0, 2, 9), end(9, 0, 2)], fencing(10, 9)),
        (vec![begin(6, 0, 1, 11)], Fault::AcquiredTwice(1)),
        (vec![end(6, 0, 1)], Fault::EndedTwice(1)),
        (vec![begin(6, 0, 2, 11)], Fault::NeverEnded(2)),
        (vec![end(6, 0, 2)], Fault::NeverAcquired(2)),
        (
            vec![begin(6, 0, 2, 11), end(5, 0, 2)],
            Fault::EndedBeforeItBegan(2),
        ),
        (
            vec![begin(6, 0, 2, 11), end(7, 1, 2)],
            Fault::EndedOnAnotherLock(2),
        ),
    ];
    for (more, expected) in cases {
        let events = [&first[..], &more].concat();
        assert_eq!(check(&events), Err(expected), "{more:?}");
    }
}
