//! `hbase-txn grant`, `revoke` and `user-permission`.

use bytes::Bytes;
use clap::{ArgGroup, Args};
use hbase_txn::{
    admin::{Admin, PermissionScope, UserPermission},
    client::{BytesBinary, Permission, TableName},
};
use serde::Serialize;

use super::confirm::confirm;
use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output, values,
};

/// Grant permissions to a user, in place of those on the same scope
///
/// Prints the permissions that the user then has there. Servers learn of it a moment later.
///
/// C includes everything on the table, and without CoprocessorWhitelistMasterObserver on the masters
/// the code that region servers run for it: see coprocessor/security.md.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn grant eve RX --table orders")]
pub(crate) struct Grant {
    /// User, or @GROUP
    user: String,
    /// Permissions: letters of RWXCA, for read, write, exec, create and admin
    #[arg(value_parser = permissions)]
    permissions: Permissions,
    #[command(flatten)]
    scope: Scope,
    /// Keep the permissions that the user has
    #[arg(long)]
    merge: bool,
}

/// Revoke permissions of a user on a scope
///
/// Prints the permissions that the user then has there. Those on wider and narrower scopes stay. For
/// --global the command first asks for the user on a terminal. Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn revoke eve W --table orders")]
pub(crate) struct Revoke {
    /// User, or @GROUP
    user: String,
    /// Permissions: letters of RWXCA
    #[arg(default_value = "RWXCA", value_parser = permissions)]
    permissions: Permissions,
    #[command(flatten)]
    scope: Scope,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// List the permissions that were granted on a scope
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn user-permission --table orders")]
pub(crate) struct UserPermissions {
    #[command(flatten)]
    scope: Scope,
    /// Only those of this user, or @GROUP
    #[arg(long)]
    user: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("scope").required(true).args(["global", "namespace", "table"])))]
struct Scope {
    /// The whole cluster
    #[arg(long)]
    global: bool,
    /// All tables of a namespace
    #[arg(long)]
    namespace: Option<String>,
    /// A table
    #[arg(long)]
    table: Option<TableName>,
    /// Only this column family of the table
    #[arg(long, value_name = "F", requires = "table", value_parser = values::bytes)]
    family: Option<Bytes>,
    /// Only this column of the family
    #[arg(long, value_name = "Q", requires = "family", value_parser = values::bytes)]
    qualifier: Option<Bytes>,
}

#[derive(Clone, Debug)]
struct Permissions(Vec<Permission>);

#[derive(Serialize)]
struct PermissionObject {
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qualifier: Option<String>,
    permissions: String,
}

/// The letters of HBase's shell.
const LETTERS: [(char, Permission); 5] = [
    ('R', Permission::Read),
    ('W', Permission::Write),
    ('X', Permission::Exec),
    ('C', Permission::Create),
    ('A', Permission::Admin),
];

fn permissions(text: &str) -> Result<Permissions, String> {
    let permission = |letter: char| {
        let mut letters = LETTERS.iter();
        letters.find_map(|(known, permission)| (*known == letter).then_some(*permission))
    };
    let parsed: Option<Vec<_>> = text.chars().map(permission).collect();
    parsed
        .filter(|parsed| !parsed.is_empty())
        .map(Permissions)
        .ok_or_else(|| "permissions are letters of RWXCA".to_owned())
}

impl Grant {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let permission = UserPermission::new(self.user, self.scope.into(), self.permissions.0);
        let admin = Admin::new(&global.connect().await?);
        admin.grant(&permission, self.merge).await?;
        let found = admin
            .user_permissions(&permission.scope, Some(&permission.user))
            .await?;
        print(global, found)
    }
}

impl Revoke {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        if self.scope.global {
            let consequence = format!("This takes permissions on the whole cluster from {}.", self.user);
            confirm(global, self.yes, &self.user, &consequence)?;
        }
        let permission = UserPermission::new(self.user, self.scope.into(), self.permissions.0);
        let admin = Admin::new(&global.connect().await?);
        admin.revoke(&permission).await?;
        let found = admin
            .user_permissions(&permission.scope, Some(&permission.user))
            .await?;
        print(global, found)
    }
}

impl UserPermissions {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let scope = self.scope.into();
        let admin = Admin::new(&global.connect().await?);
        let mut found = admin.user_permissions(&scope, self.user.as_deref()).await?;
        found.sort_unstable();
        print(global, found)
    }
}

impl From<Scope> for PermissionScope {
    fn from(scope: Scope) -> Self {
        match (scope.namespace, scope.table, scope.family, scope.qualifier) {
            (Some(namespace), ..) => Self::Namespace(namespace),
            (None, Some(table), None, _) => Self::Table(table),
            (None, Some(table), Some(family), None) => Self::Family { table, family },
            (None, Some(table), Some(family), Some(qualifier)) => Self::Qualifier {
                table,
                family,
                qualifier,
            },
            (None, None, ..) => Self::Global,
        }
    }
}

impl From<UserPermission> for PermissionObject {
    fn from(found: UserPermission) -> Self {
        let letters = LETTERS
            .iter()
            .filter(|(_, permission)| found.permissions.contains(permission));
        let shown = |bytes: &Bytes| BytesBinary(bytes).to_string();
        let (family, qualifier) = match &found.scope {
            PermissionScope::Family { family, .. } => (Some(shown(family)), None),
            PermissionScope::Qualifier {
                family, qualifier, ..
            } => (Some(shown(family)), Some(shown(qualifier))),
            _ => (None, None),
        };
        Self {
            permissions: letters.map(|(letter, _)| *letter).collect(),
            namespace: match &found.scope {
                PermissionScope::Namespace(namespace) => Some(namespace.clone()),
                _ => None,
            },
            table: found.scope.table_name().map(ToString::to_string),
            family,
            qualifier,
            user: found.user,
        }
    }
}

fn print(global: &Global, found: Vec<UserPermission>) -> Result<Exit, Failure> {
    let objects = found.into_iter().map(PermissionObject::from);
    match global.output {
        Format::Json => {
            for object in objects {
                output::json(&object)?;
            }
        }
        Format::Table => {
            let header = ["user", "namespace", "table", "family", "qualifier", "permissions"];
            let rows = objects.map(|found| {
                let [namespace, table, family, qualifier] =
                    [found.namespace, found.table, found.family, found.qualifier]
                        .map(Option::unwrap_or_default);
                [found.user, namespace, table, family, qualifier, found.permissions]
            });
            output::page(&output::table(header, rows))?;
        }
    }
    Ok(Exit::Done)
}
