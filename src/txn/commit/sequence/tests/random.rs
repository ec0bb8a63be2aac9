//! Random operations: folded, stamped and applied in one call, they have the same effect as one
//! after the other.

use hbase_client::low_level::MutationParts;
use proptest::{collection::vec, prelude::*, sample::select};

use super::model::{FAMILIES, Found, Store};
use crate::txn::commit::sequence::tests::*;

/// A day in 2023.
const TODAY: u64 = 1_700_000_000_000;
const SKEW: u64 = 60_000;

fn row() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b"])
}

/// Counters are in `n` and `m`, text in `t` and `u`, so that not all sequences are refused.
fn number_column() -> impl Strategy<Value = (&'static str, &'static str)> {
    (select(FAMILIES.to_vec()), select(vec!["n", "m"]))
}

fn text_column() -> impl Strategy<Value = (&'static str, &'static str)> {
    (select(FAMILIES.to_vec()), select(vec!["t", "u"]))
}

fn column() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![number_column(), text_column()]
}

fn number() -> impl Strategy<Value = Vec<u8>> {
    (-3i64..3).prop_map(|number| number.to_be_bytes().to_vec())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    "[a-z]{1,2}".prop_map(String::into_bytes)
}

fn written() -> impl Strategy<Value = ((&'static str, &'static str), Vec<u8>)> {
    prop_oneof![
        10 => (number_column(), number()),
        10 => (text_column(), text()),
        1 => (number_column(), text()),
    ]
}

fn timestamp() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..6, TODAY - 3..TODAY + 3]
}

/// Operations without timestamps.
fn plain() -> impl Strategy<Value = Mutation> {
    let put = (row(), vec(written(), 1..3)).prop_map(|(row, cells)| {
        let put = cells
            .into_iter()
            .fold(Put::new(row), |put, ((family, qualifier), value)| {
                put.cell(family, qualifier, value)
            });
        Mutation::from(put)
    });
    let delete = (row(), vec(column(), 1..3)).prop_map(|(row, columns)| {
        let delete = columns
            .into_iter()
            .fold(Delete::new(row), |delete, (family, qualifier)| {
                delete.column(family, qualifier)
            });
        delete.into()
    });
    let increment = (row(), vec((number_column(), -2i64..3), 1..3)).prop_map(|(row, columns)| {
        let of =
            |increment: Increment, ((family, qualifier), amount)| increment.column(family, qualifier, amount);
        columns.into_iter().fold(Increment::new(row), of).into()
    });
    let append = (
        row(),
        prop_oneof![20 => text_column(), 1 => number_column()],
        text(),
    )
        .prop_map(|(row, (family, qualifier), suffix)| {
            Append::new(row).cell(family, qualifier, suffix).into()
        });
    prop_oneof![
        6 => put,
        3 => delete,
        2 => (row(), select(FAMILIES.to_vec())).prop_map(|(row, family)| Delete::new(row).family(family).into()),
        1 => row().prop_map(|row| Delete::new(row).into()),
        4 => increment,
        4 => append,
    ]
}

fn with_timestamps() -> impl Strategy<Value = Mutation> {
    let put = (row(), written(), timestamp()).prop_map(|(row, ((family, qualifier), value), timestamp)| {
        Mutation::from(Put::new(row).cell_at(family, qualifier, timestamp, value))
    });
    let delete = (row(), column(), timestamp()).prop_map(|(row, (family, qualifier), timestamp)| {
        Delete::new(row)
            .column(family, qualifier)
            .timestamp(timestamp)
            .into()
    });
    // Not right after any cell: a real server would hide an increment there, in a transaction or
    // not.
    let version_timestamp = prop_oneof![1u64..6, Just(TODAY + 2 * SKEW)];
    let version = (row(), column(), version_timestamp).prop_map(|(row, (family, qualifier), timestamp)| {
        Delete::new(row).version(family, qualifier, timestamp).into()
    });
    let family = (row(), select(FAMILIES.to_vec()), timestamp())
        .prop_map(|(row, family, timestamp)| Delete::new(row).family(family).timestamp(timestamp).into());
    prop_oneof![4 => put, 2 => delete, 1 => version, 1 => family]
}

fn operations() -> impl Strategy<Value = Vec<Mutation>> {
    let any = prop_oneof![30 => plain(), 1 => with_timestamps()];
    prop_oneof![4 => vec(plain(), 1..12), 2 => vec(any, 1..12), 1 => vec(with_timestamps(), 1..8)]
}

fn stored(timestamps: std::ops::Range<u64>) -> impl Strategy<Value = Store> {
    vec((row(), written(), timestamps), 0..10).prop_map(|cells| {
        let mut store = Store::default();
        for (row, ((family, qualifier), value), timestamp) in cells {
            store.write(
                (row.into(), family.into(), qualifier.into()),
                timestamp,
                value.into(),
            );
        }
        store
    })
}

fn fold(mutations: &[Mutation]) -> Option<Sequence<'_>> {
    Sequence::fold(mutations, &Limits::default()).ok()
}

/// A transaction whose timestamps were read and that is under way.
struct UnderWay {
    stamped: Stamped,
    /// For each guarded row, its cells when it was read.
    rows: Vec<(GuardedRow, Found)>,
    mark: u64,
}

impl UnderWay {
    /// Reads and stamps at a time of the server that is known within `doubt`.
    fn new(sequence: &Sequence<'_>, store: &Store, server: u64, doubt: u64, guarded: bool) -> Self {
        let now = ServerTime {
            earliest: server - doubt,
            latest: server + doubt,
            is_assumed: false,
        };
        let to_read = sequence.to_read(|_, _, _| guarded);
        let seen = |row: &Bytes| {
            let of_row = to_read.iter().find(|part| part.row == *row)?;
            let newest = store.newest(row, &of_row.extent);
            Some(Seen {
                extent: &of_row.extent,
                newest,
                is_ahead: is_ahead(newest, now),
            })
        };
        let stamped = sequence.stamp(now, seen).unwrap();
        let rows = stamped.rows.iter().cloned();
        Self {
            rows: rows.map(|guard| (guard.clone(), store.found(&guard))).collect(),
            mark: store.mark,
            stamped,
        }
    }

    /// Returns whether the server would apply it now.
    fn is_accepted(&self, store: &Store) -> bool {
        self.stamped.guards.iter().all(|guard| store.holds(guard))
            && self
                .rows
                .iter()
                .all(|(guard, found)| store.holds_row(guard, found, self.stamped.ahead))
            && (!self.stamped.ahead || store.mark == self.mark)
    }

    /// Returns whether a column may have been added to a deleted row that had no cell. The client
    /// can't notice that.
    fn may_miss_a_column(&self, store: &Store) -> bool {
        let was_empty = |(guard, found): &&(GuardedRow, Found)| {
            found.timestamps.is_empty() && !store.found(guard).timestamps.is_empty()
        };
        self.rows.iter().any(|row| was_empty(&row))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Holds for any stored cells, including those that clients stamped ahead, however imprecisely the
    /// server's clock is known.
    #[test]
    fn folded_operations_equal_the_same_operations_in_sequence(
        mut store in stored(TODAY - SKEW..TODAY + SKEW),
        transactions in vec((operations(), 0..SKEW), 1..5),
        doubt in 0..2_000u64,
    ) {
        let mut server = TODAY;
        for (mutations, pause) in transactions {
            server += pause;
            let Some(sequence) = fold(&mutations) else { continue };
            let UnderWay { stamped, .. } = UnderWay::new(&sequence, &store, server, doubt, true);
            for guard in &stamped.guards {
                prop_assert!(store.holds(guard), "{guard:?} in {store:?}");
            }
            for guard in &stamped.rows {
                prop_assert!(store.holds_row(guard, &store.found(guard), stamped.ahead), "{guard:?} in {store:?}");
            }
            server = server.max(stamped.floor + 1);
            let mut expected = store.clone();
            let answer = expected.in_sequence(&mutations, server);
            let mut found = store.clone();
            if found.call(&stamped.mutations, server).is_err() {
                prop_assert!(answer.is_err());
            } else if answer.is_ok() {
                prop_assert_eq!(found.visible(), expected.visible(), "{:?}", stamped.mutations);
                store = found;
            }
        }
    }

    /// Any number of transactions are under way at once, for any time. Each that is accepted has the
    /// effect of its operations at that moment: nothing that it writes is hidden, and nothing that it
    /// deletes is left.
    #[test]
    fn delayed_transaction_has_its_whole_effect_when_it_is_accepted(
        // A delete of cells that are ahead hides later puts.
        mut store in stored(TODAY - SKEW..TODAY),
        transactions in vec((vec(plain(), 1..5), any::<bool>(), 0..3u64, any::<prop::sample::Index>()), 1..10),
        doubt in 0..5u64,
    ) {
        let mut server = TODAY;
        let mut under_way: Vec<(usize, UnderWay)> = Vec::new();
        let folded: Vec<_> = transactions.iter().map(|(mutations, ..)| fold(mutations)).collect();
        let applies = |under_way: &mut Vec<(usize, UnderWay)>, store: &mut Store, server: &mut u64, place: usize| {
            let (number, transaction) = under_way.remove(place);
            // Increments of one cell within a millisecond run ahead of the clock, and hide a blind put.
            *server = (*server).max(transaction.stamped.floor) + 1;
            if !transaction.is_accepted(store) || transaction.may_miss_a_column(store) {
                return Ok(());
            }
            let mut expected = store.clone();
            let answer = expected.in_sequence(&transactions[number].0, *server);
            let mut found = store.clone();
            if found.call(&transaction.stamped.mutations, *server).is_err() {
                prop_assert!(answer.is_err());
            } else if answer.is_ok() {
                let mutations = &transaction.stamped.mutations;
                prop_assert_eq!(found.visible(), expected.visible(), "{:?} in {:?}", mutations, store);
                let deletes = folded[number].as_ref().is_some_and(Sequence::deletes);
                found.mark += u64::from(deletes || transaction.stamped.ahead);
                *store = found;
            }
            Ok(())
        };
        for (number, (_, guarded, pause, first)) in transactions.iter().enumerate() {
            server += pause;
            if let Some(sequence) = &folded[number] {
                under_way.push((number, UnderWay::new(sequence, &store, server, doubt, *guarded)));
            }
            if !under_way.is_empty() && *pause > 0 {
                let place = first.index(under_way.len());
                applies(&mut under_way, &mut store, &mut server, place)?;
            }
        }
        while !under_way.is_empty() {
            let place = under_way.len() - 1;
            applies(&mut under_way, &mut store, &mut server, place)?;
        }
    }

    /// Holds if nothing is stored ahead of the server's clock.
    #[test]
    fn transactions_without_replacement_need_no_stamps(
        store in stored(TODAY - SKEW..TODAY),
        mutations in vec(plain(), 1..12),
    ) {
        let sequence = fold(&mutations);
        let Some(folded) = sequence.as_ref().and_then(Sequence::mutations) else { return Ok(()) };
        let mut expected = store.clone();
        let answer = expected.in_sequence(&mutations, TODAY);
        let mut found = store;
        if found.call(folded, TODAY).is_err() {
            prop_assert!(answer.is_err());
        } else if answer.is_ok() {
            prop_assert_eq!(found.visible(), expected.visible(), "{:?}", folded);
        }
    }

    /// The only refusals are increments and appends of one cell, and an increment of a value that
    /// is not a counter.
    #[test]
    fn one_operation_a_cell_is_left_and_few_are_refused(mutations in vec(plain(), 1..12)) {
        let sequence = match Sequence::fold(&mutations, &Limits::default()) {
            Ok(sequence) => sequence,
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.contains("then incremented") || text.contains("appended to"), "{}", text);
                return Ok(());
            }
        };
        let stamped = sequence.stamp(ServerTime::default(), |_| None).unwrap();
        let mut cells = HashSet::new();
        let mut kinds = HashSet::new();
        let operations = |mutation: &Mutation| mutation.families().count().max(1);
        for mutation in &stamped.mutations {
            let keys: Vec<_> = match mutation {
                Mutation::Put(put) => put.parts().iter().map(|cell| (cell.family.clone(), cell.qualifier.clone())).collect(),
                Mutation::Append(append) => {
                    append.parts().iter().map(|cell| (cell.family.clone(), cell.qualifier.clone())).collect()
                }
                Mutation::Increment(increment) => {
                    increment.parts().iter().map(|counter| (counter.family.clone(), counter.qualifier.clone())).collect()
                }
                Mutation::Delete(_) => continue,
            };
            prop_assert!(kinds.insert((mutation.row().clone(), std::mem::discriminant(mutation))));
            for key in keys {
                prop_assert!(cells.insert((mutation.row().clone(), key)), "twice in {:?}", stamped.mutations);
            }
        }
        let before: usize = mutations.iter().map(operations).sum();
        let after: usize = sequence.mutations.iter().map(operations).sum();
        prop_assert_eq!(before - after, sequence.folded());
    }
}
