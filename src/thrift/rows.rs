//! Reads and changes of single rows of one table, through a gateway.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Cell, CellKind, Row, TableName,
    low_level::{CallKind, Pauses},
};
use hbase_thrift::hbase::{BatchMutation, Mutation, THbaseSyncClient, TRowResult};
use tokio::time::Instant;

use super::connection::{Client, ThriftConnection};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// The attribute that sets the TTL of a gateway's put: milliseconds, in eight bytes.
const TTL: &[u8] = b"_ttl";

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// One family of a table behind a gateway. Every write is durable if the table writes to the log,
/// because the gateway then does too.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) connection: ThriftConnection,
    pub(super) table: TableName,
    pub(super) family: Bytes,
}

/// A column's new value.
pub(super) type NewCell = (Bytes, Bytes);

impl Rows {
    /// Reads columns of rows in one call, each row separately. `None` for a row without any of
    /// them.
    pub(super) async fn get(
        &self,
        keys: &[Bytes],
        qualifiers: &[Bytes],
        deadline: Instant,
    ) -> Result<Vec<Option<Row>>> {
        let columns = qualifiers.iter().map(|qualifier| self.column(qualifier));
        self.read(keys, columns.collect(), deadline).await
    }

    /// Reads columns of rows, of any family; the name of a family alone means all of its columns.
    pub(super) async fn read(
        &self,
        keys: &[Bytes],
        columns: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Vec<Option<Row>>> {
        let (table, asked) = (self.name(), columns.clone());
        let rows: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
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
            .map(|row| Ok((row.row.clone().unwrap_or_default(), self.row(row, &asked)?)))
            .collect::<Result<HashMap<Vec<u8>, Row>>>()?;
        let rows = keys.iter().map(|key| found.remove(&key[..])).collect();
        match found.into_values().next() {
            // The requested rows may be in the answer under other names.
            Some(row) => Err(self.absurd(
                row.key(),
                "the Thrift gateway answered with a row that was not requested",
            )),
            None => Ok(rows),
        }
    }

    /// Puts one cell if a column has this value, or none (an empty value counts as none). The
    /// server stamps the cell not before the one in the condition.
    ///
    /// If it returns false, the last try of the gateway did not put the cell: the gateway retries
    /// by itself, and an earlier try may have put it.
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

    /// Puts cells of a row at a timestamp, all or none. Idempotent.
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

    /// Deletes columns of a row, up to a timestamp. Idempotent.
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

    /// Adds to a counter, which keeps its TTL. Its new timestamp is later than the old one, and not
    /// before the server's current time.
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

    /// Returns the table's families, and the TTL of each.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ClientErrorKind::TableNotFound), with this hint, and
    /// [`TableDisabled`](ClientErrorKind::TableDisabled).
    pub(super) async fn families(
        &self,
        hint: &'static str,
        deadline: Instant,
    ) -> Result<HashMap<Bytes, Option<Duration>>> {
        const OPERATION: &str = "looking at the table";
        let name = self.name();
        let found = self
            .call(OPERATION, CallKind::Read, None, deadline, move |client| {
                if client.is_table_enabled(name.clone())? {
                    client.get_column_descriptors(name.clone()).map(Some)
                } else {
                    Ok(None)
                }
            })
            .await;
        let families = found.map_err(|error| match error.kind() {
            ErrorKind::Client(ClientErrorKind::TableNotFound) => error.with_hint(hint),
            _ => error,
        })?;
        let families = families.ok_or_else(|| {
            self.refused(
                OPERATION,
                ClientErrorKind::TableDisabled,
                "the table is disabled".to_owned(),
            )
        })?;
        // The gateway adds a colon to a family's name.
        let name = |name: Vec<u8>| Bytes::copy_from_slice(name.strip_suffix(b":").unwrap_or(&name));
        // `i32::MAX` is HBase's `FOREVER`.
        let life = |seconds: Option<i32>| match seconds {
            None | Some(i32::MAX) => None,
            Some(seconds) => Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
        };
        Ok(families
            .into_iter()
            .map(|(family, described)| (name(family), life(described.time_to_live)))
            .collect())
    }

    /// Returns the error of a table without a family.
    pub(super) fn no_family(&self, family: &[u8], what_for: &str) -> Error {
        let what = format!("the table has no family {}{what_for}", BytesBinary(family));
        self.refused("looking at the table", ClientErrorKind::FamilyNotFound, what)
    }

    fn refused(&self, operation: &'static str, kind: ClientErrorKind, what: String) -> Error {
        Error::new(kind, what)
            .at_operation(operation)
            .at_table(&self.table)
            .at_server(self.connection.gateway())
    }

    /// Returns the error of an invalid answer to a read.
    fn absurd(&self, row: &[u8], what: &'static str) -> Error {
        Error::new(ClientErrorKind::Protocol, what)
            .with_hint("nothing between here and the gateway may mix up answers; is it HBase's own?")
            .at_operation("reading rows")
            .at_table(&self.table)
            .at_row(&BytesBinary(row))
            .at_server(self.connection.gateway())
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

    /// Decodes a row, of which these columns were requested.
    fn row(&self, row: TRowResult, asked: &[Vec<u8>]) -> Result<Row> {
        let key = Bytes::from(row.row.unwrap_or_default());
        let refuse = |what| self.absurd(&key, what);
        let mut cells = Vec::new();
        for (column, cell) in row.columns.unwrap_or_default() {
            let (family, qualifier) = split(&column)
                .filter(|(family, _)| asked.iter().any(|asked| *asked == column || asked == family))
                .ok_or_else(|| refuse("the Thrift gateway answered with a column that was not requested"))?;
            let timestamp = cell.timestamp.and_then(|timestamp| u64::try_from(timestamp).ok());
            cells.push(Cell::new(
                key.clone(),
                Bytes::copy_from_slice(family),
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

/// Makes an idempotent change, and again while its answer is lost.
pub(super) async fn resend<F: Future<Output = Result<()>> + Send>(
    deadline: Instant,
    change: impl Fn() -> F + Send + Sync,
) -> Result<()> {
    let mut pauses = Pauses::after_lost_answers();
    loop {
        match change().await {
            Err(error) if error.is_outcome_unknown() && pauses.wait_before(deadline).await => {}
            done => return done,
        }
    }
}

/// Splits a column's name into family and qualifier.
fn split(column: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = column.iter().position(|byte| *byte == b':')?;
    Some((&column[..colon], &column[colon + 1..]))
}

fn attributes(ttl: Duration) -> Attributes {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Attributes::from([(TTL.to_vec(), millis.to_be_bytes().to_vec())])
}
