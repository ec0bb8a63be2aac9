//! The permissions of the connection's user on a table.

use hbase_client::{Connection, Permission, TableName, low_level::AdminCalls};
use hbase_txn::Result;
use tokio::time::Instant;

use super::{finding::Finding, name::Name};
use crate::command;

/// The permissions that transactions, locks and latches need.
const NEEDED: [(Permission, &str); 2] = [(Permission::Read, "read"), (Permission::Write, "write")];

/// Returns findings for permissions that the user lacks; none if the cluster does not check
/// permissions.
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

/// The only finding of a table whose descriptor the user may not read.
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
