//! Histories that must pass, and histories that must fail.

use std::time::Duration;

use tokio::time::Instant;

use super::{Fault, Hold, check};

/// Times are in milliseconds from a common start.
struct Clock(Instant);

impl Clock {
    fn hold(&self, part: usize, [asked, from, until]: [u64; 3], fencing: i64) -> Hold {
        let at = |time| self.0 + Duration::from_millis(time);
        Hold {
            thing: 0,
            part,
            asked: at(asked),
            from: at(from),
            until: at(until),
            fencing,
        }
    }
}

#[test]
fn permits_beside_each_other_pass_up_to_so_many() {
    let clock = Clock(Instant::now());
    let mut holds = vec![
        clock.hold(1, [0, 1, 10], 5),
        clock.hold(2, [0, 2, 6], 7),
        // Requested before the first was acquired, and answered late.
        clock.hold(1, [0, 6, 9], 4),
        clock.hold(1, [7, 8, 9], 9),
    ];
    assert_eq!(check(&holds, 3), Ok(()));
    assert_eq!(check(&holds, 2), Err(Fault::Exceeded(holds[1])));
    holds.push(clock.hold(1, [8, 8, 9], 10));
    assert_eq!(check(&holds, 3), Err(Fault::Exceeded(holds[4])));
    holds.reverse();
    holds.remove(0);
    assert_eq!(check(&holds, 3), Ok(()));
}

#[test]
fn number_is_above_all_numbers_handed_out_before() {
    let clock = Clock(Instant::now());
    let holds = [clock.hold(1, [0, 1, 10], 5), clock.hold(1, [2, 3, 6], 5)];
    assert_eq!(
        check(&holds, 2),
        Err(Fault::Fencing {
            hold: holds[1],
            before: 5
        })
    );
}

#[test]
fn a_writer_is_alone_and_above_all_readers_before() {
    let clock = Clock(Instant::now());
    let readers = [clock.hold(1, [0, 1, 5], 1), clock.hold(1, [0, 2, 7], 2)];
    let writer = |from, number| clock.hold(9, [0, from, 12], number);
    assert_eq!(check(&[readers[0], readers[1], writer(7, 3)], 9), Ok(()));
    for (from, number, exceeds) in [(6, 3, true), (7, 2, false)] {
        let writer = writer(from, number);
        let expected = if exceeds {
            Fault::Exceeded(writer)
        } else {
            Fault::Fencing {
                hold: writer,
                before: 2,
            }
        };
        assert_eq!(check(&[readers[0], readers[1], writer], 9), Err(expected));
    }
    // A reader after a writer has a higher number, not the same one.
    let reader = |from, number| clock.hold(1, [0, from, 20], number);
    assert_eq!(check(&[writer(7, 3), reader(12, 4)], 9), Ok(()));
    check(&[writer(7, 3), reader(12, 3)], 9).unwrap_err();
    check(&[writer(7, 3), reader(11, 4)], 9).unwrap_err();
}

#[test]
fn reversed_intervals_are_refused() {
    let clock = Clock(Instant::now());
    let hold = clock.hold(1, [0, 5, 4], 1);
    assert_eq!(check(&[hold], 1), Err(Fault::EndedBeforeItBegan(hold)));
}
