//! Reads and changes of single rows of one table, through a gateway.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use hbase_thrift::hbase::{BatchMutation, Mutation, THbaseSyncClient, TRowResult};
use tokio::time::Instant;

use super::connection::{Client, ThriftConnection};
use crate::{
    client::CallKind,
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Cell, CellKind, Row, TableName},
};

/// The attribute by which a gateway's put gets a TTL: milliseconds, eight bytes.
const TTL: &[u8] = b"_ttl";

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// One family of a table behind a gateway. Every call is durable: the gateway writes to the log, as long as the table does.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) connection: ThriftConnection,
    pub(super) table: TableName,
    pub(super) family: Bytes,
}

/// A column's new value.
pub(super) type NewCell = (Bytes, Bytes);

impl Rows {
    /// Reads columns of rows, in one call; each row for itself. None for a row that has none of them.
    pub(super) async fn get(
        &self,
        keys: &[Bytes],
        qualifiers: &[Bytes],
        deadline: Instant,
    ) -> Result<Vec<Option<Row>>> {
        let table = self.name();
        let rows: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let columns: Vec<Vec<u8>> = qualifiers
            .iter()
            .map(|qualifier| self.column(qualifier))
            .collect();
        let found = self
            .call(
                "reading rows",
                CallKind::Read,
                keys.first(),
                deadline,
                move |client| {
                    client.get_rows_with_columns(
                        table.clone(),
                        rows.clone(),
                        columns.clone(),
                        Attributes::new(),
                    )
                },
            )
            .await?;
        let mut found = found
            .into_iter()
            .map(|row| self.row(row))
            .collect::<Result<Vec<_>>>()?;
        Ok(keys
            .iter()
            .map(|key| {
                let at = found.iter().position(|row| row.key() == key)?;
                Some(found.swap_remove(at))
            })
            .collect())
    }

    /// Puts one cell, stamped by the server not before the one that it depends on, if a column has this value, or none (an empty one
    /// counts as none).
    ///
    /// False says no more than that the last try of the gateway did not put it: it tries again by itself, and an earlier one may have.
    pub(super) async fn check_and_put(
        &self,
        key: &Bytes,
        (qualifier, expected): (&Bytes, Option<&Bytes>),
        (new_qualifier, value): NewCell,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<bool> {
        let (table, row) = (self.name(), key.to_vec());
        let (column, expected) = (
            self.column(qualifier),
            expected.map(|value| value.to_vec()).unwrap_or_default(),
        );
        let put = self.put(&new_qualifier, &value);
        self.call(
            "changing a row on a condition",
            CallKind::Write,
            Some(key),
            deadline,
            move |client| {
                client.check_and_put(
                    table.clone(),
                    row.clone(),
                    column.clone(),
                    expected.clone(),
                    put.clone(),
                    attributes(ttl),
                )
            },
        )
        .await
    }

    /// Puts cells of a row at a timestamp, all or none. Twice is the same as once.
    pub(super) async fn put_at(
        &self,
        key: &Bytes,
        timestamp: u64,
        cells: &[NewCell],
        ttl: Duration,
        deadline: Instant,
    ) -> Result<()> {
        let puts = cells.iter().map(|(qualifier, value)| self.put(qualifier, value));
        self.mutate(key, timestamp, puts.collect(), attributes(ttl), deadline)
            .await
    }

    /// Deletes columns of a row, up to a timestamp. Twice is the same as once.
    pub(super) async fn delete_up_to(
        &self,
        key: &Bytes,
        timestamp: u64,
        qualifiers: &[Bytes],
        deadline: Instant,
    ) -> Result<()> {
        let deletes = qualifiers
            .iter()
            .map(|qualifier| Mutation::new(true, self.column(qualifier), None, true));
        self.mutate(key, timestamp, deletes.collect(), Attributes::new(), deadline)
            .await
    }

    /// Adds to a counter; the server stamps it later than it was, and not before now. It keeps the TTL that it had.
    pub(super) async fn increment(
        &self,
        key: &Bytes,
        qualifier: &Bytes,
        amount: i64,
        deadline: Instant,
    ) -> Result<i64> {
        let (table, row, column) = (self.name(), key.to_vec(), self.column(qualifier));
        self.call("counting", CallKind::Write, Some(key), deadline, move |client| {
            client.atomic_increment(table.clone(), row.clone(), column.clone(), amount)
        })
        .await
    }

    /// How long a family of the table keeps its cells, in seconds.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`TableDisabled`](ErrorKind::TableDisabled), [`FamilyNotFound`](ErrorKind::FamilyNotFound).
    pub(super) async fn family_ttl(&self, deadline: Instant) -> Result<i32> {
        const OPERATION: &str = "looking at the table";
        let table = self.name();
        let name = table.clone();
        // Asked about a table that is not there, gateways fail in ways of their own; asked which tables are enabled, also when
        // any other is deleted at that moment.
        let is_enabled = self
            .call(
                OPERATION,
                CallKind::Read,
                None,
                deadline,
                move |client| match client.get_table_names()?.contains(&name) {
                    true => client.is_table_enabled(name.clone()).map(Some),
                    false => Ok(None),
                },
            )
            .await?;
        let refuse = |kind, what: String| {
            let error = Error::new(kind, what)
                .at_operation(OPERATION)
                .at_table(&self.table)
                .at_server(self.connection.gateway());
            Err(match kind {
                ErrorKind::TableNotFound => error.with_hint(
                    "check its name; a gateway can't make it, hbase-txn lock acquire makes one natively",
                ),
                _ => error,
            })
        };
        match is_enabled {
            None => return refuse(ErrorKind::TableNotFound, "the table does not exist".to_owned()),
            Some(false) => return refuse(ErrorKind::TableDisabled, "the table is disabled".to_owned()),
            Some(true) => {}
        }
        let families = self
            .call(OPERATION, CallKind::Read, None, deadline, move |client| {
                client.get_column_descriptors(table.clone())
            })
            .await?;
        // A family's name comes with a colon behind it.
        let family = families
            .iter()
            .find(|(name, _)| name.strip_suffix(b":").unwrap_or(name) == &self.family[..]);
        match family {
            Some((_, family)) => Ok(family.time_to_live.unwrap_or(i32::MAX)),
            None => refuse(
                ErrorKind::FamilyNotFound,
                format!("the table has no family {}", BytesBinary(&self.family)),
            ),
        }
    }

    async fn mutate(
        &self,
        key: &Bytes,
        timestamp: u64,
        mutations: Vec<Mutation>,
        attributes: Attributes,
        deadline: Instant,
    ) -> Result<()> {
        let (table, row) = (self.name(), key.to_vec());
        let timestamp = i64::try_from(timestamp).unwrap_or(i64::MAX);
        self.call(
            "changing a row",
            CallKind::IdempotentWrite,
            Some(key),
            deadline,
            move |client| {
                let change = BatchMutation::new(row.clone(), mutations.clone());
                client.mutate_rows_ts(table.clone(), vec![change], timestamp, attributes.clone())
            },
        )
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: CallKind,
        row: Option<&Bytes>,
        deadline: Instant,
        work: impl Fn(&mut Client) -> thrift::Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = self.connection.call(operation, kind, deadline, work).await;
        answer.map_err(|error| {
            let error = error.at_table(&self.table);
            match row {
                Some(row) => error.at_row(&BytesBinary(row)),
                None => error,
            }
        })
    }

    fn put(&self, qualifier: &Bytes, value: &Bytes) -> Mutation {
        Mutation::new(false, self.column(qualifier), value.to_vec(), true)
    }

    fn name(&self) -> Vec<u8> {
        self.table.to_string().into_bytes()
    }

    fn column(&self, qualifier: &[u8]) -> Vec<u8> {
        [&self.family[..], b":", qualifier].concat()
    }

    /// The cells of our family.
    fn row(&self, row: TRowResult) -> Result<Row> {
        let key = Bytes::from(row.row.unwrap_or_default());
        let refuse = |what: &'static str| {
            Error::new(ErrorKind::Protocol, what)
                .at_operation("reading rows")
                .at_table(&self.table)
                .at_row(&BytesBinary(&key))
                .at_server(self.connection.gateway())
        };
        let prefix = self.column(b"");
        let mut cells = Vec::new();
        for (column, cell) in row.columns.unwrap_or_default() {
            let qualifier = column
                .strip_prefix(&prefix[..])
                .ok_or_else(|| refuse("the Thrift gateway answered with a column that nobody asked for"))?;
            let timestamp = cell.timestamp.and_then(|timestamp| u64::try_from(timestamp).ok());
            cells.push(Cell::new(
                key.clone(),
                self.family.clone(),
                Bytes::copy_from_slice(qualifier),
                timestamp
                    .ok_or_else(|| refuse("the Thrift gateway answered with a cell without a timestamp"))?,
                CellKind::Put,
                cell.value.unwrap_or_default().into(),
            ));
        }
        Ok(Row::new(key, cells))
    }
}

fn attributes(ttl: Duration) -> Attributes {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Attributes::from([(TTL.to_vec(), millis.to_be_bytes().to_vec())])
}
