#[path = "../../examples/outbox_inbox.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hbase_txn::{ErrorKind, client::Scan};

use self::example::{Message, deliver, forget, open, relay, run, send, total};
use crate::{
    Pattern, side_by_side,
    support::{eventually, keys},
};

const NAMES: [&str; 4] = ["anna", "bert", "cora", "dirk"];
const EACH: i64 = 5_000;

fn soon(most: u64) -> Duration {
    Duration::from_micros(fastrand::u64(200..most))
}

/// Returns the time after which an attempt is killed. Later attempts get more, because on a busy
/// machine no answer may come in a few milliseconds.
fn patience(attempt: u32) -> Duration {
    soon(8_000 << attempt.min(7))
}

#[tokio::test(flavor = "multi_thread")]
async fn money_arrives_once_while_senders_and_relays_are_killed() {
    let pattern = Pattern::new("outbox_inbox", run).await;
    let clients = Arc::new(pattern.clients().await);
    for name in NAMES {
        open(&clients[0], name, EACH).await.unwrap();
    }
    let sent_all = Arc::new(AtomicBool::new(false));
    // Two relays of each account, which conflict with each other, and are killed after some
    // milliseconds.
    let relays = side_by_side(8, |task| {
        let (clients, sent_all) = (Arc::clone(&clients), Arc::clone(&sent_all));
        async move {
            let (client, from) = (&clients[task / 2], NAMES[task % 4]);
            let mut killed = 0;
            while !sent_all.load(Ordering::Relaxed) {
                match tokio::time::timeout(soon(8_000), relay(client, from)).await {
                    // Relays that scan an empty outbox without a pause would take the time of the
                    // senders, where a server answers at once.
                    Ok(ended) => {
                        ended.unwrap();
                        tokio::time::sleep(soon(4_000)).await;
                    }
                    Err(_) => killed += 1,
                }
            }
            killed
        }
    });
    let senders = async {
        let sent = side_by_side(8, |task| {
            let clients = Arc::clone(&clients);
            async move {
                let mut sent = Vec::new();
                for number in 0..15 {
                    let message = Message {
                        id: format!("{task}-{number}"),
                        from: NAMES[task % 4].to_owned(),
                        to: NAMES[(task + 1 + number % 3) % 4].to_owned(),
                        cents: fastrand::u32(1..2_500),
                    };
                    // A payer without an answer sends again, by another client.
                    let mut attempt = 0;
                    let enough = loop {
                        let client = &clients[(task + 1 + attempt as usize) % 4];
                        let asked = send(client, &message);
                        let answer = tokio::time::timeout(patience(attempt), asked).await;
                        attempt += 1;
                        match answer {
                            Ok(Ok(answer)) => break answer,
                            // An earlier attempt was answered "not enough", and may still be in
                            // flight.
                            Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::Aborted, "{error}"),
                            Err(_) => {}
                        }
                    };
                    if enough {
                        sent.push(message);
                    }
                }
                sent
            }
        })
        .await;
        sent_all.store(true, Ordering::Relaxed);
        sent.concat()
    };
    let (killed, sent) = futures::join!(relays, senders);
    assert!(
        killed.iter().sum::<i32>() >= 10,
        "too few were killed: {killed:?}"
    );

    // Requests of the killed relays may still be in flight for a moment.
    let whole = EACH * NAMES.len() as i64;
    eventually("the killed are silent", async || {
        let (cents, _) = total(&clients[0], &NAMES).await.unwrap();
        (cents == whole).then_some(())
    })
    .await;
    for name in NAMES {
        relay(&clients[0], name).await.unwrap();
    }
    assert_eq!(total(&clients[0], &NAMES).await.unwrap(), (whole, 0));
    let mut balances: BTreeMap<&str, i64> = NAMES.map(|name| (name, EACH)).into();
    for message in &sent {
        *balances.get_mut(message.from.as_str()).unwrap() -= i64::from(message.cents);
        *balances.get_mut(message.to.as_str()).unwrap() += i64::from(message.cents);
    }
    let table = clients[0].table();
    let mut expected: Vec<_> = sent
        .iter()
        .map(|message| format!("{}/inbox/{}", message.to, message.id))
        .collect();
    expected.sort_unstable();
    let mut marks = Vec::new();
    for name in NAMES {
        assert_eq!(
            keys(table, Scan::prefix(format!("{name}/outbox/"))).await,
            [""; 0]
        );
        marks.extend(keys(table, Scan::prefix(format!("{name}/inbox/"))).await);
        let row = clients[0].snapshot(name).await.unwrap();
        let cents = row.value(format!("{name}/balance"), "f", "cents").unwrap();
        assert_eq!(cents[..], balances[name].to_be_bytes(), "{name}");
        assert!(balances[name] >= 0, "{name} has {}", balances[name]);
    }
    assert_eq!(marks, expected, "a mark for each message, and no other");
}

#[tokio::test]
async fn a_crash_between_any_two_steps_is_mended_by_the_next_relay() {
    let pattern = Pattern::new("outbox_steps", run).await;
    let clients = pattern.clients().await;
    let (bank, other) = (&clients[0], &clients[1]);
    let names = ["eve", "fay"];
    for name in names {
        open(bank, name, 1_000).await.unwrap();
    }
    let message = |id: &str, cents| Message {
        id: id.to_owned(),
        from: "eve".to_owned(),
        to: "fay".to_owned(),
        cents,
    };
    let one = message("one", 300);
    for client in [bank, other] {
        assert!(send(client, &one).await.unwrap());
    }
    assert_eq!(total(bank, &names).await.unwrap(), (2_000, 1));
    assert!(deliver(bank, &one).await.unwrap());
    assert_eq!(total(bank, &names).await.unwrap(), (2_000, 0));
    assert!(!deliver(other, &one).await.unwrap());
    relay(other, "eve").await.unwrap();
    forget(bank, &one).await.unwrap();
    // A relay that has read the outbox long ago and continues now.
    assert!(!deliver(bank, &one).await.unwrap());
    assert!(!send(bank, &message("two", 701)).await.unwrap());
    assert_eq!(total(bank, &names).await.unwrap(), (2_000, 0));
}
