use std::time::{Duration, Instant};

use super::*;

/// Calls by party, times in seconds, and their results.
fn calls(of: &[(usize, u64, u64, Ended)]) -> Vec<Call> {
    let zero = Instant::now();
    let at = |seconds| zero + Duration::from_secs(seconds);
    let call = |&(party, asked, told, ended)| Call {
        party,
        asked: at(asked),
        told: at(told),
        ended,
    };
    of.iter().map(call).collect()
}

#[test]
fn generations_that_open_with_all_and_break_without_are_right() {
    let history = calls(&[
        (0, 0, 3, Ended::Opened(1)),
        (1, 1, 2, Ended::Opened(1)),
        (0, 4, 6, Ended::Broken(2)),
        (1, 5, 5, Ended::Unknown),
        (0, 7, 9, Ended::Opened(3)),
    ]);
    assert_eq!(check(&history, 2), Ok((2, 1)));
}

#[test]
fn a_generation_does_not_open_and_break() {
    let history = calls(&[(0, 0, 3, Ended::Opened(1)), (1, 1, 2, Ended::Broken(1))]);
    assert_eq!(check(&history, 2), Err(Fault::OpenedAndBroken(1)));
}

#[test]
fn no_generation_opens_before_all_have_asked() {
    let without = |party| Err(Fault::OpenedWithout { generation: 1, party });
    let alone = calls(&[(0, 0, 1, Ended::Opened(1))]);
    assert_eq!(check(&alone, 2), without(1));
    let too_late = calls(&[(0, 0, 1, Ended::Opened(1)), (1, 2, 3, Ended::Unknown)]);
    assert_eq!(check(&too_late, 2), without(1));
    // One call can't have counted twice.
    let once = calls(&[
        (1, 0, 0, Ended::Unknown),
        (0, 1, 2, Ended::Opened(1)),
        (0, 3, 4, Ended::Opened(2)),
    ]);
    assert_eq!(
        check(&once, 2),
        Err(Fault::OpenedWithout {
            generation: 2,
            party: 1
        })
    );
}

#[test]
fn later_arrival_is_in_a_later_generation() {
    let history = calls(&[(0, 0, 1, Ended::Broken(2)), (1, 2, 3, Ended::Broken(2))]);
    assert!(matches!(check(&history, 2), Err(Fault::Late { ended: 2, .. })));
    let at_once = calls(&[(0, 0, 2, Ended::Broken(2)), (1, 1, 3, Ended::Broken(2))]);
    assert_eq!(check(&at_once, 2), Ok((0, 1)));
}
