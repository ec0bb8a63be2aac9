//! Small histories, for which all orders can be tested.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*};

use super::super::check;
use crate::serialisability::history::{Fate, History, List, Read, Transaction, Write};

type Store = BTreeMap<String, List>;

/// The next action of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Span,
    /// Appends to the present list.
    Append(usize),
    /// Appends to the list that it has read, and loses elements added since.
    Put(usize),
    /// Deletes the key that it has read.
    Delete(usize),
}

fn step(deletes: bool) -> impl Strategy<Value = Step> {
    let key = 0..3_usize;
    prop_oneof![
        4 => key.clone().prop_map(Step::Read),
        2 => Just(Step::Span),
        4 => key.clone().prop_map(Step::Append),
        1 => key.clone().prop_map(Step::Put),
        u32::from(deletes) * 2 => key.prop_map(Step::Delete),
    ]
}

/// Runs transactions with interleaved steps and without isolation. Reads come first.
fn run(scripts: &[Vec<Step>], mut turns: Vec<usize>) -> History {
    let mut store = Store::new();
    let mut transactions: Vec<Transaction> = (0..scripts.len())
        .map(|number| Transaction::new(format!("T{number}")))
        .collect();
    let mut next = vec![0; scripts.len()];
    let mut deleted: Vec<String> = Vec::new();
    let all = scripts.iter().map(Vec::len).sum::<usize>();
    // Transactions that have not finished after the turns run one after the other.
    turns.extend((0..scripts.len()).flat_map(|number| [number].repeat(all)));
    for (time, number) in turns.into_iter().enumerate() {
        let number = number % scripts.len();
        let transaction = &mut transactions[number];
        let Some(step) = scripts[number].get(next[number]) else {
            continue;
        };
        if next[number] == 0 {
            transaction.began = Duration::from_secs(time as u64);
        }
        transaction.ended = Duration::from_secs(time as u64);
        next[number] += 1;
        do_step(step, transaction, &mut store, &mut deleted);
    }
    History {
        transactions,
        end: store,
    }
}

fn do_step(step: &Step, transaction: &mut Transaction, store: &mut Store, deleted: &mut Vec<String>) {
    let name = |key: usize| format!("k{key}");
    let wrote = |transaction: &Transaction, name: &str| {
        transaction.writes.iter().any(|write| match write {
            Write::Append { key, .. } | Write::Delete { key } => key == name,
        })
    };
    let seen = |transaction: &Transaction, name: &str| {
        transaction.reads.iter().rev().find_map(|read| match read {
            Read::Cell { key, found } => (key == name).then(|| found.clone()),
            Read::Span { found, .. } => Some(found.get(name).cloned().unwrap_or_default()),
        })
    };
    match step {
        Step::Read(_) | Step::Span if !transaction.writes.is_empty() => {}
        Step::Read(key) => {
            let found = store.get(&name(*key)).cloned().unwrap_or_default();
            transaction.read(name(*key), found);
        }
        Step::Span => drop(transaction.read_span("k", "l", store.clone())),
        // A key is written once, and not after its deletion.
        Step::Append(key) | Step::Put(key) | Step::Delete(key)
            if wrote(transaction, &name(*key)) || deleted.contains(&name(*key)) => {}
        Step::Append(key) => {
            let element = transaction.name.clone();
            store.entry(name(*key)).or_default().push(element.clone());
            transaction.append(name(*key), element);
        }
        Step::Put(key) => {
            if let Some(mut list) = seen(transaction, &name(*key)) {
                list.push(transaction.name.clone());
                store.insert(name(*key), list);
                transaction.append(name(*key), transaction.name.clone());
            }
        }
        Step::Delete(key) => {
            if seen(transaction, &name(*key)).is_some_and(|list| !list.is_empty()) {
                store.remove(&name(*key));
                deleted.push(name(*key));
                transaction.delete(name(*key));
            }
        }
    }
}

/// Returns whether the transactions could have run in some order.
fn has_order(history: &History) -> bool {
    let committed: Vec<&Transaction> = history
        .transactions
        .iter()
        .filter(|transaction| transaction.fate == Fate::Committed)
        .collect();
    search(&committed, &Store::new(), &history.end)
}

fn search(left: &[&Transaction], store: &Store, end: &Store) -> bool {
    if left.is_empty() {
        return store == end;
    }
    left.iter().enumerate().any(|(place, first)| {
        let mut others = left.to_vec();
        others.remove(place);
        let in_time = others.iter().all(|other| other.ended >= first.began);
        in_time && apply(first, store).is_some_and(|store| search(&others, &store, end))
    })
}

/// Returns the store after a transaction, if its reads agree with the store before.
fn apply(transaction: &Transaction, store: &Store) -> Option<Store> {
    let as_read = transaction.reads.iter().all(|read| match read {
        Read::Cell { key, found } => store.get(key).map_or(&[][..], Vec::as_slice) == found,
        Read::Span { found, .. } => store == found,
    });
    let mut store = store.clone();
    for write in &transaction.writes {
        match write {
            Write::Append { key, element } => store.entry(key.clone()).or_default().push(element.clone()),
            Write::Delete { key } => drop(store.remove(key)),
        }
    }
    as_read.then_some(store)
}

fn transactions(deletes: bool) -> impl Strategy<Value = Vec<Vec<Step>>> {
    vec(vec(step(deletes), 1..5), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn something_is_found_exactly_where_there_is_no_order(
        scripts in transactions(false),
        turns in vec(0..6_usize, 0..24),
    ) {
        let history = run(&scripts, turns);
        let report = check(&history);
        prop_assert_eq!(report.anomalies.is_empty(), has_order(&history), "{}{:#?}", history, report);
    }

    #[test]
    fn nothing_is_found_where_there_is_an_order_also_with_deletes(
        scripts in transactions(true),
        turns in vec(0..6_usize, 0..24),
    ) {
        let history = run(&scripts, turns);
        let report = check(&history);
        let is_right = report.anomalies.is_empty() || !has_order(&history);
        prop_assert!(is_right, "{}{:#?}", history, report);
        if report.undecided == 0 {
            prop_assert_eq!(report.anomalies.is_empty(), has_order(&history), "{}{:#?}", history, report);
        }
    }

    #[test]
    fn transactions_that_ran_one_after_the_other_are_right(scripts in transactions(true)) {
        let history = run(&scripts, Vec::new());
        let report = check(&history);
        prop_assert!(report.anomalies.is_empty(), "{}{:#?}", history, report);
        prop_assert_eq!(report.undecided, 0, "{}{:#?}", history, report);
    }
}
