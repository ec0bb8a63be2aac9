//! Single rows, scans, and calls of coprocessors.

use std::sync::Arc;

use hbase_txn::client::{Append, Condition, Delete, EndpointCall, Get, Increment, Put, Row, Scan, Table};
use prost::Message;

use super::super::{
    report::{Call, Prepared, Reported},
    seat::Seat,
};
use crate::cluster::{FAMILY, QUALIFIER};

fn put(row: &str) -> Put {
    Put::new(row.to_owned()).cell(FAMILY, QUALIFIER, "v")
}

/// Returns the number of bytes of the case's row: one for each append, and one for a put.
async fn length(seat: Seat) -> u64 {
    let row = seat
        .clean
        .data
        .table()
        .get(Get::new(seat.row("a")))
        .await
        .unwrap();
    row.map_or(0, |row| row.value(FAMILY, QUALIFIER).unwrap().len() as u64)
}

/// Returns the number in a row that is incremented.
pub(super) async fn number(table: Table, row: String) -> u64 {
    let row = table.get(Get::new(row)).await.unwrap();
    let value = row.and_then(|row| row.value(FAMILY, QUALIFIER).cloned());
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// Returns the table after creating the case's row.
async fn seeded(seat: &Seat) -> Table {
    seat.clean.data.table().put(put(&seat.row("a"))).await.unwrap();
    seat.table().await
}

fn keys(rows: Vec<Row>) -> Vec<String> {
    let keys = rows.iter().map(|row| String::from_utf8(row.key().to_vec()));
    keys.map(Result::unwrap).collect()
}

/// A change that makes the case's row one byte longer.
fn growing<F>(name: &'static str, change: impl Fn(Table, String) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = Reported> + Send + 'static,
{
    let change = Arc::new(change);
    Call::new(name, move |seat: Seat| {
        let change = Arc::clone(&change);
        async move {
            let call = change(seat.table().await, seat.row("a"));
            Prepared::write(call, move || length(seat.clone()))
        }
    })
}

/// A change that removes the case's row.
fn shrinking<F>(name: &'static str, change: impl Fn(Table, String) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = Reported> + Send + 'static,
{
    let change = Arc::new(change);
    Call::new(name, move |seat: Seat| {
        let change = Arc::clone(&change);
        async move {
            let call = change(seeded(&seat).await, seat.row("a"));
            Prepared::write(call, move || {
                let seat = seat.clone();
                async move { 1 - length(seat).await }
            })
        }
    })
}

/// A read of the existing row of the case by its key.
fn reading<F>(name: &'static str, read: impl Fn(Table, String) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = hbase_client::Result<Vec<Row>>> + Send + 'static,
{
    let read = Arc::new(read);
    Call::new(name, move |seat: Seat| {
        let read = Arc::clone(&read);
        async move {
            let (table, row) = (seeded(&seat).await, seat.row("a"));
            Prepared::read(
                async move { Reported::expect(read(table, row.clone()).await.map(keys), &vec![row]) },
            )
        }
    })
}

pub(super) fn all() -> Vec<Call> {
    let found = |row: Option<Row>| row.into_iter().collect();
    vec![
        reading("get", move |table, row| async move {
            table.get(Get::new(row)).await.map(found)
        }),
        reading("get_many", |table, row| async move {
            let rows = table
                .get_many([Get::new(row.clone()), Get::new(row + "-not-there")])
                .await?;
            Ok(rows.into_iter().flatten().collect())
        }),
        reading("scan", |table, row| async move {
            let mut scanner = table.scan(Scan::prefix(row).caching(1))?;
            let mut rows = Vec::new();
            while let Some(row) = scanner.next().await? {
                rows.push(row);
            }
            Ok(rows)
        }),
        growing("put", |table, row| async move {
            Reported::of(table.put(put(&row)).await)
        }),
        growing("put with a timestamp", |table, row| async move {
            Reported::of(table.put(put(&row).timestamp(1)).await)
        }),
        shrinking("delete", |table, row| async move {
            Reported::of(table.delete(Delete::new(row)).await)
        }),
        shrinking("delete with a timestamp", |table, row| async move {
            Reported::of(table.delete(Delete::new(row).timestamp(1 << 50)).await)
        }),
        growing("append", |table, row| async move {
            Reported::of(table.append(Append::new(row).cell(FAMILY, QUALIFIER, "v")).await)
        }),
        Call::new("increment", |seat| async move {
            let (table, row) = (seat.table().await, seat.row("n"));
            let increment = Increment::new(row.clone()).column(FAMILY, QUALIFIER, 1);
            let clean = seat.clean.data.table().clone();
            Prepared::write(
                async move { Reported::of(table.increment(increment).await) },
                move || number(clean.clone(), row.clone()),
            )
        }),
        growing("check_and_mutate", |table, row| async move {
            let condition = Condition::absent(row.clone(), FAMILY, QUALIFIER);
            let changed = table.check_and_mutate(condition, [put(&row).into()]).await;
            Reported::expect(changed.map(|result| result.success), &true)
        }),
        growing("endpoint", |table, row| async move {
            Reported::of(table.call_endpoint(&raw_put(&row)).await)
        }),
        growing("idempotent endpoint", |table, row| async move {
            Reported::of(table.call_endpoint(&raw_put(&row).idempotent()).await)
        }),
    ]
}

/// `MutateRows` with a put, sent like any client of the endpoint.
fn raw_put(row: &str) -> EndpointCall {
    #[derive(Message)]
    struct Request {
        #[prost(message, repeated, tag = "1")]
        mutations: Vec<Mutation>,
    }
    #[derive(Message)]
    struct Mutation {
        #[prost(string, tag = "1")]
        row: String,
        #[prost(int32, tag = "2")]
        kind: i32,
        #[prost(message, repeated, tag = "3")]
        families: Vec<Family>,
    }
    #[derive(Message)]
    struct Family {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        columns: Vec<Column>,
    }
    #[derive(Message)]
    struct Column {
        #[prost(string, tag = "1")]
        qualifier: String,
        #[prost(string, tag = "2")]
        value: String,
    }
    const PUT: i32 = 2;
    let column = Column {
        qualifier: QUALIFIER.to_owned(),
        value: "v".to_owned(),
    };
    let put = Mutation {
        row: row.to_owned(),
        kind: PUT,
        families: vec![Family {
            name: FAMILY.to_owned(),
            columns: vec![column],
        }],
    };
    let request = Request { mutations: vec![put] };
    EndpointCall::new(
        row.to_owned(),
        "MultiRowMutationService",
        "MutateRows",
        request.encode_to_vec(),
    )
}
