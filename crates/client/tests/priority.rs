//! The priority of calls, as servers receive it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use hbase_client::{Connection, Get, Put, Scan};
use hbase_fake::{Call, FakeHBase};

#[test]
fn calls_have_the_priority_of_the_client_and_those_of_system_tables_their_own() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let every = Call::Any.when(move |call| {
            let table = call.table.clone().unwrap_or_default();
            recorder.lock().unwrap().push((table, call.priority));
            call.rows.iter().any(|row| row == "last")
        });
        hbase.fault(every.delay_answer(Duration::ZERO));
        for priority in [None, Some(11)] {
            let config = hbase.config().with_call_priority(priority);
            let builder = Connection::builder(config).connector(hbase.connector());
            let table = builder.connect().await?.table("t")?;
            table.put(Put::new("a").cell("f", "q", "v")).await?;
            let puts = (0..3).map(|row| Put::new(row.to_string()).cell("f", "q", "v"));
            table.mutate_many(puts).await;
            table.get(Get::new("a")).await?;
            assert!(table.scan(Scan::new())?.next().await?.is_some());
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            let of = |wanted: &str| {
                let calls = seen.iter().filter(|(table, _)| table == wanted);
                calls.map(|(_, priority)| *priority).collect::<Vec<_>>()
            };
            assert!(of("t").len() >= 4, "{seen:?}");
            assert!(
                of("t").iter().all(|found| *found == priority.unwrap_or(0)),
                "{seen:?}"
            );
            assert!(of("hbase:meta").iter().all(|found| *found == 200), "{seen:?}");
        }
        let handle = hbase.connect().await?.table("t")?;
        handle.get(Get::new("last")).await?;
        Ok(())
    });
}

#[test]
fn handles_of_one_client_have_priorities_of_their_own() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let recorder = Arc::clone(&seen);
        let every = Call::Any.when(move |call| {
            if call.table.as_deref() == Some("t") {
                recorder.lock().unwrap().insert(call.priority);
            }
            call.rows.iter().any(|row| row == "last")
        });
        hbase.fault(every.delay_answer(Duration::ZERO));
        let config = hbase.config().with_call_priority(Some(3));
        let builder = Connection::builder(config).connector(hbase.connector());
        let table = builder.connect().await?.table("t")?;
        for (table, priority) in [
            (&table.clone().with_call_priority(Some(7)), 7),
            (&table.clone().with_call_priority(None), 3),
            (&table, 3),
        ] {
            table.put(Put::new("a").cell("f", "q", "v")).await?;
            table.mutate_many([Put::new("b").cell("f", "q", "v")]).await;
            table.get_many([Get::new("a"), Get::new("b")]).await?;
            assert!(table.scan(Scan::new())?.next().await?.is_some());
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert_eq!(seen, BTreeSet::from([priority]));
        }
        table.get(Get::new("last")).await?;
        Ok(())
    });
}
