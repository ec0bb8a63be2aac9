use hbase_client::low_level::{DeleteScope, LATEST_TIMESTAMP, MutationParts, MutationStamp};

use crate::{
    java_layout::Level,
    latch::{note::new_change, plan::*},
};

const BEGAN: u64 = 1_000;
const ENDS: u64 = 61_000;

fn cells(level: Level, has_state: bool) -> Cells {
    Cells::new("r".into(), level, "fra", has_state)
}

fn count(farm: &str, timestamp: u64, value: i64, expires: Option<u64>) -> Count {
    Count {
        qualifier: format!("count_{farm}").into(),
        seen: ObservedCell {
            value: encode(value),
            timestamp,
            expires,
        },
        value,
    }
}

fn observation(counts: &[Count], note: Option<Note>) -> LatchObservation {
    let seen = |note: &Note| ObservedCell {
        value: note.encode(),
        timestamp: BEGAN,
        expires: Some(ENDS + 1),
    };
    LatchObservation {
        counts: counts.to_vec(),
        note: note.map(|note| (note.clone(), seen(&note))),
        arrived: Vec::new(),
        visible_from: 0,
    }
}

/// The last step's put to a column (timestamp, TTL, value), and the timestamp up to which it
/// deletes the column.
type Written = (Option<(Option<u64>, Option<Duration>, i64)>, Option<u64>);

fn written(plan: &Plan, column: &str) -> Written {
    let mut found = (None, None);
    for mutation in &plan.steps.last().unwrap().mutations {
        match mutation {
            Mutation::Put(put) => {
                let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
                let ttl = mutation.attributes().iter().find(|(name, _)| name == "_ttl");
                let ttl = ttl.map(|(_, millis)| Duration::from_millis(number(millis).unsigned_abs()));
                for cell in put.parts().iter().filter(|cell| cell.qualifier == column) {
                    found.0 = Some((cell.timestamp, ttl, number(&cell.value)));
                }
            }
            Mutation::Delete(delete) => {
                let is_it = |scope: &DeleteScope| matches!(scope, DeleteScope::Column { qualifier, .. } if qualifier == column);
                found.1 = found
                    .1
                    .or_else(|| delete.stamp().filter(|_| delete.parts().iter().any(is_it)));
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

fn planned(cells: &Cells, operation: &LatchOperation, observation: &LatchObservation) -> Plan {
    plan(cells, operation, new_change(), observation)
        .unwrap()
        .unwrap()
}

fn refused(cells: &Cells, operation: &LatchOperation, observation: &LatchObservation) -> ErrorKind {
    plan(cells, operation, new_change(), observation)
        .unwrap_err()
        .kind()
}

fn ttl(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

#[test]
fn cells_end_with_the_latch_and_uncover_nothing_after_a_flush() {
    let down = LatchOperation::CountDown(1);
    let noted = || Some(Note::first(new_change()));
    let own = |timestamp| count("fra", timestamp, 3, Some(ENDS));
    let dc = |has_state| cells(Level::Dc, has_state);
    // At the common timestamp of all clients that write notes.
    let plan = planned(&dc(true), &down, &observation(&[own(BEGAN)], noted()));
    assert_eq!(
        written(&plan, "count_fra"),
        (Some((Some(BEGAN), ttl(ENDS - BEGAN), 2)), None)
    );
    assert_eq!((plan.left, plan.leaves), (2, Leaves::CountFrom(BEGAN)));
    // On a Java client's count, and without notes: later, above a delete marker.
    let later = (Some((Some(BEGAN + 6), ttl(ENDS - BEGAN - 6), 2)), Some(BEGAN + 5));
    let plan = planned(&dc(true), &down, &observation(&[own(BEGAN + 5)], noted()));
    assert_eq!(written(&plan, "count_fra"), later);
    let plan = planned(&dc(false), &down, &observation(&[own(BEGAN + 5)], None));
    assert_eq!(written(&plan, "count_fra"), later);
    // A farm's first count has the timestamp of the count that ends the latch.
    let far = count("sgp", BEGAN, 3, Some(ENDS));
    let plan = planned(
        &cells(Level::Xdc, false),
        &down,
        &observation(std::slice::from_ref(&far), None),
    );
    assert_eq!(
        written(&plan, "count_fra"),
        (Some((Some(BEGAN), ttl(ENDS - BEGAN), -1)), None)
    );
    // A count that would end earlier ends with the latch, and so does one without an end.
    for expires in [Some(ENDS - 9), None] {
        let mine = count("fra", BEGAN, -1, expires);
        let plan = planned(
            &cells(Level::Xdc, false),
            &down,
            &observation(&[far.clone(), mine], None),
        );
        let put = Some((Some(BEGAN + 1), ttl(ENDS - BEGAN - 1), -2));
        assert_eq!(written(&plan, "count_fra"), (put, Some(BEGAN)), "{expires:?}");
    }
    // A latch without an end still has none.
    let plan = planned(
        &dc(false),
        &down,
        &observation(&[count("fra", BEGAN, 3, None)], None),
    );
    assert_eq!(written(&plan, "count_fra").0, Some((Some(BEGAN + 1), None, 2)));
}

#[test]
fn count_at_the_end_of_time_is_not_counted_over() {
    let down = LatchOperation::CountDown(1);
    let cells = cells(Level::Dc, false);
    for timestamp in [u64::MAX, LATEST_TIMESTAMP, LATEST_TIMESTAMP - 1] {
        let late = count("fra", timestamp, 3, None);
        assert_eq!(
            refused(&cells, &down, &observation(&[late], None)),
            ClientErrorKind::InvalidInput
        );
    }
}

#[test]
fn latch_begins_over_leftovers_but_not_over_a_live_latch() {
    let operation = LatchOperation::Init {
        count: 4,
        ttl: Duration::from_secs(60),
    };
    let leftovers = [count("fra", BEGAN, -2, None), count("sgp", BEGAN + 3, -1, None)];
    for has_state in [true, false] {
        let cells = cells(Level::Xdc, has_state);
        let plan = planned(&cells, &operation, &observation(&leftovers, None));
        assert_eq!(plan.steps.len(), if has_state { 2 } else { 1 });
        assert_eq!(
            written(&plan, "count_fra"),
            (Some((None, ttl(60_000), 4)), Some(BEGAN))
        );
        assert_eq!(written(&plan, "count_sgp"), (None, Some(BEGAN + 3)));
        for live in [count("fra", BEGAN, 0, Some(ENDS)), count("sgp", BEGAN, 1, None)] {
            assert_eq!(
                refused(&cells, &operation, &observation(&[live], None)),
                ErrorKind::LatchExists
            );
        }
    }
}

#[test]
fn counts_stay_between_nothing_and_all_that_eight_bytes_say() {
    let cells = cells(Level::Xdc, true);
    let of = |fra, sgp| {
        let counts = [
            count("fra", BEGAN, fra, Some(ENDS)),
            count("sgp", BEGAN, sgp, Some(ENDS)),
        ];
        observation(&counts, Some(Note::first(new_change())))
    };
    let (up, down) = (
        |by| LatchOperation::CountUp(by),
        |by| LatchOperation::CountDown(by),
    );
    assert_eq!(planned(&cells, &down(1), &of(3, -2)).left, 0);
    assert_eq!(
        refused(&cells, &down(2), &of(3, -2)),
        ClientErrorKind::LimitExceeded
    );
    assert_eq!(
        refused(&cells, &down(i64::MAX), &of(3, -2)),
        ClientErrorKind::LimitExceeded
    );
    assert_eq!(
        planned(&cells, &up(1), &of(i64::MAX - 1, 0)).left,
        i64::MAX.unsigned_abs()
    );
    assert_eq!(
        refused(&cells, &up(2), &of(i64::MAX - 1, 0)),
        ClientErrorKind::InvalidInput
    );
    // The sum is in range, but the farm's own count is not.
    assert_eq!(
        refused(&cells, &up(1), &of(i64::MAX, -5)),
        ClientErrorKind::InvalidInput
    );
    assert_eq!(refused(&cells, &up(1), &of(i64::MAX, 1)), ErrorKind::LatchCorrupt);
    // A Java client counted below zero.
    assert_eq!(
        refused(&cells, &down(1), &of(0, -2)),
        ClientErrorKind::LimitExceeded
    );
}

#[test]
fn nothing_is_counted_where_there_is_no_latch() {
    let note = || Some(Note::first(new_change()));
    let leftover = count("fra", BEGAN, -1, None);
    for (seen, kind) in [
        (observation(&[], None), ErrorKind::LatchAbsent),
        (observation(&[], note()), ErrorKind::LatchExpired),
        (
            observation(std::slice::from_ref(&leftover), note()),
            ErrorKind::LatchExpired,
        ),
        (observation(&[leftover], None), ErrorKind::LatchAbsent),
        (
            observation(&[], note().map(Note::of_deleted)),
            ErrorKind::LatchAbsent,
        ),
    ] {
        let cells = cells(Level::Dc, true);
        for operation in [
            LatchOperation::CountUp(1),
            LatchOperation::CountDown(1),
            LatchOperation::Arrive("a".into()),
        ] {
            assert_eq!(refused(&cells, &operation, &seen), kind, "{operation:?}");
        }
    }
    // A deleted latch is not deleted again.
    let deleted = observation(&[], note().map(Note::of_deleted));
    let nothing = plan(
        &cells(Level::Dc, true),
        &LatchOperation::Delete,
        new_change(),
        &deleted,
    );
    assert!(nothing.unwrap().is_none());
}
