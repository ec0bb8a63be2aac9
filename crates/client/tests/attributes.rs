//! Attributes of requests and connections, as servers receive them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::{Connection, Get, Put};
use hbase_fake::{Call, FakeHBase};

#[test]
fn attributes_are_those_of_the_handle_and_of_the_client() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let every = Call::Any.when(move |call| {
            let attributes = [&call.connection_attributes, &call.attributes].map(|attributes| {
                let value = |name: &str| attributes.get(name).cloned();
                (attributes.len(), value("id"))
            });
            recorder.lock().unwrap().push((call.table.clone(), attributes));
            call.rows.iter().any(|row| row == "last")
        });
        hbase.fault(every.delay_answer(Duration::ZERO));
        let config = hbase.config().with_connection_attribute("id", "client");
        let builder = Connection::builder(config).connector(hbase.connector());
        let table = builder.connect().await?.table("t")?;
        let tagged = table
            .clone()
            .with_request_attribute("other", "0")
            .with_request_attribute("id", "1")
            .with_request_attribute("id", "2");
        for (table, expected) in [(&tagged, (2, Some(Bytes::from("2")))), (&table, (0, None))] {
            seen.lock().unwrap().clear();
            table.put(Put::new("a").cell("f", "q", "v")).await?;
            table.get(Get::new("a")).await?;
            table.get_many([Get::new("a")]).await?;
            let seen = seen.lock().unwrap();
            assert!(seen.len() >= 3, "{seen:?}");
            for (of_table, [connection, request]) in &*seen {
                assert_eq!(*connection, (1, Some(Bytes::from("client"))));
                let is_lookup = of_table.as_deref() != Some("t");
                assert_eq!(*request, if is_lookup { (0, None) } else { expected.clone() });
            }
        }
        hbase.connect().await?.table("t")?.get(Get::new("last")).await?;
        Ok(())
    });
}
