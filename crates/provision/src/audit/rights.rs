//! The permissions of the connection's user on a table.

use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{Connection, Permission, TableName};
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
    let has = Admin::new(connection)
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
    let user = user(connection).await;
    let what = format!("may not {} the table", lacking.join(" or "));
    Ok(Some(missing(&user, table, &what)))
}

/// The only finding of a table whose descriptor the user may not read.
pub(super) async fn unreadable(connection: &Connection, table: &TableName) -> Finding {
    let what = "may not read the table's descriptor, which needs the permission C (create) or A (administer)";
    missing(&user(connection).await, table, what)
}

/// Returns the name by which permissions are granted to the user of the connection.
pub(super) async fn user(connection: &Connection) -> String {
    #[cfg(feature = "kerberos")]
    if connection.config().kerberos().is_some() {
        let principal = match connection.authenticated_user().await {
            Ok(user) => Some(user.name),
            // The question needs a permission, too.
            Err(error) => error.remote().and_then(|refusal| refused_user(&refusal.message)),
        };
        // Hadoop's default mapping of principals, such as `app/host@REALM`.
        if let Some(short) = principal
            .as_deref()
            .and_then(|name| name.split(['/', '@']).next())
        {
            return short.to_owned();
        }
    }
    connection.config().user().to_owned()
}

/// Returns the user in the message of a refusal, such as `Insufficient permissions (user=eve@REALM,
/// scope=…)`.
#[cfg(feature = "kerberos")]
fn refused_user(message: &str) -> Option<String> {
    let (_, rest) = message
        .split_once("user=")
        .or_else(|| message.split_once("user '"))?;
    let end = rest.find([',', ')', '\''])?;
    Some(rest[..end].to_owned())
}

fn missing(user: &str, table: &TableName, what: &str) -> Finding {
    Finding::broken(
        Name::RightsMissing,
        format!("user {user} {what}"),
        "the user's calls on the table are refused",
    )
    .of_table(table)
    .fixed_by(command::grant(user, table), command::GRANT_REMARK)
}

#[cfg(all(test, feature = "kerberos"))]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_their_user() {
        for message in [
            "Insufficient permissions (user=eve@R, scope=default:t, params=[],action=EXEC)",
            "Insufficient permissions for user 'eve@R' (table=t, action=READ)",
        ] {
            assert_eq!(refused_user(message).as_deref(), Some("eve@R"));
        }
        assert_eq!(refused_user("no user=at all"), None);
    }
}
