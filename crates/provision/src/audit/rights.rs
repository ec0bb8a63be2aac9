//! What the connection's user may do with a table.

use hbase_client::{Connection, Permission, TableName, low_level::AdminCalls};
use hbase_txn::Result;
use tokio::time::Instant;

use super::{finding::Finding, name::Name};
use crate::command;

/// What a transaction, a lock or a latch needs.
const NEEDED: [(Permission, &str); 2] = [(Permission::Read, "read"), (Permission::Write, "write")];

/// Rights that the user lacks. Where the cluster checks none, none are lacking.
pub(super) async fn findings(
    connection: &Connection,
    table: &TableName,
    deadline: Instant,
) -> Result<Option<Finding>> {
    let rights = NEEDED.map(|(right, _)| right);
    let has = connection
        .admin()
        .until(deadline)
        .has_permissions(table, &rights)
        .await?;
    let lacking: Vec<_> = NEEDED
        .iter()
        .zip(has)
        .filter_map(|((_, name), has)| (!has).then_some(*name))
        .collect();
    if lacking.is_empty() {
        return Ok(None);
    }
    Ok(Some(missing(
        connection,
        table,
        &format!("may not {} the table", lacking.join(" or ")),
    )))
}

/// Of a table whose descriptor the user may not even read, which is all that can be found of it.
pub(super) fn unreadable(connection: &Connection, table: &TableName) -> Finding {
    let what =
        "may not read the table's descriptor, which takes the right to create (C) or to administer it (A)";
    missing(connection, table, what)
}

fn missing(connection: &Connection, table: &TableName, what: &str) -> Finding {
    let user = connection.config().user();
    Finding::broken(
        Name::RightsMissing,
        format!("user {user} {what}"),
        "what the user asks of it is refused",
    )
    .of_table(table)
    .fixed_by(command::grant(user, table), "as an administrator of HBase")
}
