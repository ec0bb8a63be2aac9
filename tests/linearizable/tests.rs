//! Histories of locks and latches that the checker must accept, and histories that it must refuse.

use serde_json::{Value, json};

use super::checker;

/// The operations of one object in short form: client, call, return (`None` if the outcome is
/// unknown), and what was done.
type History = Vec<(u8, i64, Option<i64>, Value)>;

fn is_legal(kind: &str, history: &History) -> bool {
    let lines = history.iter().map(|(client, called, returned, step)| {
        let outcome = if returned.is_some() {
            "committed"
        } else {
            "unknown"
        };
        json!({
            "history": "h",
            "client": client,
            "call": called,
            "return": returned,
            "what": kind,
            "outcome": outcome,
            kind: step,
        })
        .to_string()
    });
    let verdicts = checker::check(&lines.collect::<Vec<_>>().join("\n"), 10);
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].violation.is_empty(), verdicts[0].is_legal.unwrap());
    verdicts[0].is_legal.unwrap()
}

fn check(kind: &str, legal: Vec<History>, illegal: Vec<(&str, History)>) {
    for history in legal {
        assert!(is_legal(kind, &history), "{history:?}");
    }
    for (why, history) in illegal {
        assert!(!is_legal(kind, &history), "{why}: {history:?}");
    }
}

#[test]
fn impossible_histories_of_locks_are_refused() {
    let step = |called, returned, op: &str, fencing: i64| {
        (0, called, returned, json!({"op": op, "fencing": fencing}))
    };
    let at = |called, op, fencing| step(called, Some(called + 5), op, fencing);
    let legal = vec![
        vec![
            at(10, "acquire", 7),
            at(20, "renew", 7),
            at(30, "release", 7),
            at(40, "acquire", 9),
        ],
        // The second attempt is answered before the release is.
        vec![
            at(10, "acquire", 7),
            step(20, Some(40), "release", 7),
            step(15, Some(30), "acquire", 8),
        ],
        // The lease is over.
        vec![
            at(10, "acquire", 7),
            step(20, None, "end", 7),
            at(30, "acquire", 8),
            at(40, "release", 8),
        ],
        // A release is answered `Lost`, and an earlier copy of it was applied.
        vec![
            at(10, "acquire", 7),
            step(20, Some(40), "end", 7),
            step(15, Some(30), "acquire", 8),
            at(50, "renew", 8),
        ],
        // A release of unknown outcome is applied late, or never.
        vec![
            at(10, "acquire", 7),
            step(20, None, "end", 7),
            at(30, "renew", 7),
            at(40, "acquire", 8),
        ],
        vec![
            at(10, "acquire", 7),
            step(20, None, "end", 7),
            at(30, "release", 7),
        ],
    ];
    let illegal = vec![
        ("two holders", vec![at(10, "acquire", 7), at(20, "acquire", 8)]),
        (
            "two holders, of which one releases later",
            vec![at(10, "acquire", 7), at(20, "acquire", 8), at(30, "release", 7)],
        ),
        (
            "two holders before the lease may be over",
            vec![
                at(10, "acquire", 7),
                at(20, "acquire", 8),
                step(30, None, "end", 7),
            ],
        ),
        (
            "a fencing number that does not rise",
            vec![at(10, "acquire", 7), at(20, "release", 7), at(30, "acquire", 7)],
        ),
        (
            "a fencing number that falls",
            vec![at(10, "acquire", 7), at(20, "release", 7), at(30, "acquire", 6)],
        ),
        (
            "released by a holder that has lost it",
            vec![
                at(10, "acquire", 7),
                step(20, None, "end", 7),
                at(30, "acquire", 8),
                at(40, "release", 7),
            ],
        ),
        (
            "renewed by a holder that has released it",
            vec![at(10, "acquire", 7), at(20, "release", 7), at(30, "renew", 7)],
        ),
        (
            "renewed by a holder whose hold has ended",
            vec![at(10, "acquire", 7), at(20, "end", 7), at(30, "renew", 7)],
        ),
    ];
    check("lock", legal, illegal);
}

#[test]
fn impossible_histories_of_latches_are_refused() {
    let by = |client: u8, called: i64, step: Value| (client, called, Some(called + 5), step);
    let at = |called, step| by(0, called, step);
    let open = |called: i64, step: Value| (0, called, None, step);
    let init = |left: u64| json!({"op": "init", "left": left});
    let count = |name: &str, by: u64| json!({"op": "count", "name": name, "by": by});
    let arrive = |name: &str| json!({"op": "arrive", "name": name, "by": 1});
    let read = |left: u64| json!({"op": "read", "left": left});
    let read_after = |name: &str, left: u64| json!({"op": "read", "name": name, "left": left});
    let only = |op: &str| json!({"op": op});
    let legal = vec![
        vec![
            at(10, init(3)),
            at(20, count("p", 1)),
            at(20, read_after("p", 2)),
            at(30, read_after("p", 2)),
            at(40, count("#1", 2)),
            at(50, only("reached")),
        ],
        // An arrival of unknown outcome counted, and its repetition did not.
        vec![
            at(10, init(2)),
            open(20, count("p", 1)),
            at(30, read(2)),
            at(40, read_after("p", 1)),
        ],
        // It never counts, and is repeated.
        vec![
            at(10, init(2)),
            open(20, count("p", 1)),
            at(30, count("p", 1)),
            at(40, read(1)),
        ],
        // An arrival at a barrier that may be repeated.
        vec![
            at(10, init(2)),
            at(20, arrive("p")),
            at(30, arrive("p")),
            at(40, arrive("q")),
            at(50, only("reached")),
        ],
        // A wait for a latch that was deleted when it was reached, and created again.
        vec![
            at(10, init(2)),
            by(1, 20, count("p", 1)),
            at(30, count("q", 1)),
            at(40, only("delete")),
            at(50, init(2)),
            by(1, 60, only("reached")),
        ],
        vec![at(10, init(0)), at(20, only("reached")), at(30, only("exists"))],
    ];
    let two = vec![at(10, init(1)), at(20, count("p", 1)), at(30, only("delete"))];
    let illegal = vec![
        (
            "the count of an arrival is lost",
            vec![at(10, init(3)), at(20, count("p", 1)), at(30, read(3))],
        ),
        (
            "a participant counts twice",
            vec![at(10, init(3)), at(20, count("p", 1)), at(30, count("p", 1))],
        ),
        (
            "a participant is counted twice",
            vec![
                at(10, init(3)),
                open(20, count("p", 1)),
                at(30, count("p", 1)),
                at(40, read(1)),
            ],
        ),
        (
            "a wait returns early",
            vec![at(10, init(2)), at(20, count("p", 1)), at(30, only("reached"))],
        ),
        (
            "a wait returns before the last arrival is sent",
            vec![at(10, init(1)), at(20, only("reached")), at(30, count("p", 1))],
        ),
        (
            "a wait for the next latch returns the end of the one before",
            [two.clone(), vec![at(40, init(1)), by(1, 50, only("reached"))]].concat(),
        ),
        (
            "a count-down in a latch that is deleted",
            [two, vec![at(40, count("q", 1))]].concat(),
        ),
        (
            "the call's own count is not in what it read",
            vec![at(10, init(3)), at(20, read_after("p", 2)), at(30, count("p", 1))],
        ),
        (
            "more is counted than is left",
            vec![at(10, init(1)), at(20, count("#1", 2))],
        ),
        ("created twice", vec![at(10, init(1)), at(20, init(1))]),
    ];
    check("latch", legal, illegal);
}
