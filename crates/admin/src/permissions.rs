//! Permissions of users, which `AccessController` checks.

use bytes::Bytes;
use hbase_client::{
    Error, IntoBytes, IntoTableName, Permission, Result, TableName,
    low_level::{convert, pb},
};

use crate::admin::{Admin, bad_answer};

/// The part of a cluster on which a user has permissions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PermissionScope {
    /// The whole cluster.
    Global,
    /// All tables of a namespace.
    Namespace(String),
    /// A table.
    Table(TableName),
    /// A column family of a table.
    Family {
        /// The table.
        table: TableName,
        /// The family.
        family: Bytes,
    },
    /// A column of a table.
    Qualifier {
        /// The table.
        table: TableName,
        /// The family of the column.
        family: Bytes,
        /// The qualifier of the column.
        qualifier: Bytes,
    },
}

/// The permissions of a user on a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct UserPermission {
    /// The user, or a group with an `@` before its name.
    pub user: String,
    /// The scope.
    pub scope: PermissionScope,
    /// The permissions, each once.
    pub permissions: Vec<Permission>,
}

impl PermissionScope {
    /// Creates the scope of a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the name of a table.
    pub fn table(table: impl IntoTableName) -> Result<Self> {
        table.into_table_name().map(Self::Table)
    }

    /// Creates the scope of a column family of a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the name of a table.
    pub fn family(table: impl IntoTableName, family: impl IntoBytes) -> Result<Self> {
        Ok(Self::Family {
            table: table.into_table_name()?,
            family: family.into_bytes(),
        })
    }

    /// Creates the scope of a column of a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the name of a table.
    pub fn qualifier(
        table: impl IntoTableName,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
    ) -> Result<Self> {
        Ok(Self::Qualifier {
            table: table.into_table_name()?,
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
        })
    }

    /// Returns the table of the scope, if it has one.
    #[must_use]
    pub fn table_name(&self) -> Option<&TableName> {
        match self {
            Self::Global | Self::Namespace(_) => None,
            Self::Table(table) | Self::Family { table, .. } | Self::Qualifier { table, .. } => Some(table),
        }
    }

    fn columns(&self) -> (Option<Bytes>, Option<Bytes>) {
        match self {
            Self::Global | Self::Namespace(_) | Self::Table(_) => (None, None),
            Self::Family { family, .. } => (Some(family.clone()), None),
            Self::Qualifier {
                family, qualifier, ..
            } => (Some(family.clone()), Some(qualifier.clone())),
        }
    }

    /// Rejects what the server would take for a wider scope.
    fn check(&self) -> Result<()> {
        match self {
            Self::Namespace(name) if name.is_empty() => Err(Error::invalid("a namespace without a name")),
            Self::Family { family, .. } | Self::Qualifier { family, .. } if family.is_empty() => {
                Err(Error::invalid("a column family without a name"))
            }
            Self::Qualifier { qualifier, .. } if qualifier.is_empty() => Err(Error::invalid(
                "permissions on the column without a qualifier; HBase has them for families, and for columns \
                 with a qualifier",
            )),
            _ => Ok(()),
        }
    }

    fn message(&self, permissions: &[Permission]) -> pb::Permission {
        use pb::permission::Type;

        let action: Vec<i32> = permissions
            .iter()
            .map(|permission| convert::permission_code(*permission))
            .collect();
        let (family, qualifier) = self.columns();
        match self {
            Self::Global => pb::Permission {
                r#type: Type::Global.into(),
                global_permission: Some(pb::GlobalPermission { action }),
                ..pb::Permission::default()
            },
            Self::Namespace(name) => pb::Permission {
                r#type: Type::Namespace.into(),
                namespace_permission: Some(pb::NamespacePermission {
                    namespace_name: Some(Bytes::copy_from_slice(name.as_bytes())),
                    action,
                }),
                ..pb::Permission::default()
            },
            Self::Table(table) | Self::Family { table, .. } | Self::Qualifier { table, .. } => {
                pb::Permission {
                    r#type: Type::Table.into(),
                    table_permission: Some(pb::TablePermission {
                        table_name: Some(convert::table_name_message(table)),
                        family,
                        qualifier,
                        action,
                    }),
                    ..pb::Permission::default()
                }
            }
        }
    }
}

impl UserPermission {
    /// Creates the permissions of a user on a scope. Write `@` before the name of a group.
    #[must_use]
    pub fn new(
        user: impl Into<String>,
        scope: PermissionScope,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Self {
        let mut permissions: Vec<Permission> = permissions.into_iter().collect();
        permissions.sort_unstable();
        permissions.dedup();
        Self {
            user: user.into(),
            scope,
            permissions,
        }
    }

    fn check(&self) -> Result<()> {
        if self.permissions.is_empty() {
            return Err(Error::invalid("no permissions"));
        }
        check_user(&self.user)?;
        self.scope.check()
    }

    fn message(&self) -> pb::UserPermission {
        pb::UserPermission {
            user: Bytes::copy_from_slice(self.user.as_bytes()),
            permission: self.scope.message(&self.permissions),
        }
    }

    fn of(message: pb::UserPermission) -> Result<Self> {
        use pb::permission::Type;

        let unreadable = |what: &str| bad_answer(&what);
        let permission = message.permission;
        let (scope, actions) = match permission.r#type() {
            Type::Global => {
                let global = permission.global_permission.unwrap_or_default();
                (PermissionScope::Global, global.action)
            }
            Type::Namespace => {
                let namespace = permission.namespace_permission.unwrap_or_default();
                let name = namespace.namespace_name.unwrap_or_default();
                let name = String::from_utf8(name.into());
                let name = name.map_err(|_| unreadable("the name of a namespace is not text"))?;
                (PermissionScope::Namespace(name), namespace.action)
            }
            Type::Table => {
                let on_table = permission.table_permission.unwrap_or_default();
                let name = on_table.table_name.as_ref();
                let name = name.ok_or_else(|| unreadable("permissions on a table without a name"))?;
                let table = convert::table_name(name).map_err(|error| bad_answer(&error))?;
                let named = |part: Option<Bytes>| part.filter(|part| !part.is_empty());
                let scope = match (named(on_table.family), named(on_table.qualifier)) {
                    (None, _) => PermissionScope::Table(table),
                    (Some(family), None) => PermissionScope::Family { table, family },
                    (Some(family), Some(qualifier)) => PermissionScope::Qualifier {
                        table,
                        family,
                        qualifier,
                    },
                };
                (scope, on_table.action)
            }
        };
        let user = String::from_utf8(message.user.into());
        let user = user.map_err(|_| unreadable("the name of a user is not text"))?;
        let permissions = actions.into_iter().map(|action| {
            convert::permission(action)
                .ok_or_else(|| bad_answer(&format_args!("there is no permission {action}")))
        });
        Ok(Self::new(user, scope, permissions.collect::<Result<Vec<_>>>()?))
    }
}

impl Admin {
    /// Grants permissions to a user. They replace the permissions that the user has on the same
    /// scope, or are added to them if `merge_existing`.
    ///
    /// Region servers learn of it a moment later.
    ///
    /// # Errors
    ///
    /// Returns [`AccessDenied`](hbase_client::ErrorKind::AccessDenied) if the user of the connection does
    /// not administer the scope, and an error of the server if the cluster has no
    /// `AccessController`.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::{Admin, PermissionScope, UserPermission};
    /// use hbase_client::{Connection, Permission};
    ///
    /// # async fn example(connection: &Connection) -> hbase_client::Result<()> {
    /// let orders = PermissionScope::table("orders")?;
    /// let reads = UserPermission::new("eve", orders, [Permission::Read]);
    /// Admin::new(connection).grant(&reads, true).await?;
    /// # Ok(()) }
    /// ```
    pub async fn grant(&self, permission: &UserPermission, merge_existing: bool) -> Result<()> {
        let in_context = in_context("granting permissions", &permission.scope);
        permission.check().map_err(&in_context)?;
        let request = pb::GrantRequest {
            user_permission: permission.message(),
            merge_existing_permissions: Some(merge_existing),
        };
        let _: pb::GrantResponse = self
            .call_until("Grant", &request, self.deadline())
            .await
            .map_err(&in_context)?;
        Ok(())
    }

    /// Revokes permissions of a user on a scope. The user keeps the others, and those on wider and
    /// narrower scopes. Does nothing for permissions that the user does not have.
    ///
    /// Region servers learn of it a moment later.
    ///
    /// # Errors
    ///
    /// Returns an error as [`grant`](Self::grant) does.
    pub async fn revoke(&self, permission: &UserPermission) -> Result<()> {
        let in_context = in_context("revoking permissions", &permission.scope);
        permission.check().map_err(&in_context)?;
        let request = pb::RevokeRequest {
            user_permission: permission.message(),
        };
        let _: pb::RevokeResponse = self
            .call_until("Revoke", &request, self.deadline())
            .await
            .map_err(&in_context)?;
        Ok(())
    }

    /// Returns the permissions that were granted on a scope, of one user or of all. For a table they
    /// include those on its families and columns; for the whole cluster, those of its superusers.
    ///
    /// # Errors
    ///
    /// Returns an error as [`grant`](Self::grant) does.
    pub async fn user_permissions(
        &self,
        scope: &PermissionScope,
        user: Option<&str>,
    ) -> Result<Vec<UserPermission>> {
        use pb::permission::Type;

        let in_context = in_context("listing permissions", scope);
        scope.check().map_err(&in_context)?;
        let (column_family, column_qualifier) = scope.columns();
        let request = pb::GetUserPermissionsRequest {
            r#type: Some(match scope {
                PermissionScope::Global => Type::Global.into(),
                PermissionScope::Namespace(_) => Type::Namespace.into(),
                _ => Type::Table.into(),
            }),
            table_name: scope.table_name().map(convert::table_name_message),
            namespace_name: match scope {
                PermissionScope::Namespace(name) => Some(Bytes::copy_from_slice(name.as_bytes())),
                _ => None,
            },
            column_family,
            column_qualifier,
            user_name: user.map(|user| Bytes::copy_from_slice(user.as_bytes())),
        };
        let answer: pb::GetUserPermissionsResponse = self
            .call("GetUserPermissions", &request)
            .await
            .map_err(&in_context)?;
        let found = answer.user_permission.into_iter();
        found.map(UserPermission::of).collect()
    }

    /// Returns which of these permissions the user of the connection has on a table, in their
    /// order. All of them if the cluster does not check permissions.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached.
    pub async fn has_permissions(
        &self,
        table: impl IntoTableName,
        permissions: &[Permission],
    ) -> Result<Vec<bool>> {
        let scope = PermissionScope::table(table)?;
        let asked: Vec<pb::Permission> = permissions
            .iter()
            .map(|permission| scope.message(&[*permission]))
            .collect();
        self.has(None, &scope, asked).await
    }

    /// Returns whether a user has all permissions of each of these. They are granted on the scope
    /// itself or on a wider one. Only an administrator may ask for another user.
    ///
    /// # Errors
    ///
    /// Returns [`AccessDenied`](hbase_client::ErrorKind::AccessDenied) if the user of the connection does
    /// not administer the scope.
    pub async fn has_user_permissions(&self, permission: &UserPermission) -> Result<bool> {
        let in_context = in_context("checking permissions", &permission.scope);
        permission.check().map_err(&in_context)?;
        let asked = vec![permission.scope.message(&permission.permissions)];
        let user = Bytes::copy_from_slice(permission.user.as_bytes());
        let has = self.has(Some(user), &permission.scope, asked).await;
        Ok(has.map_err(in_context)?.iter().all(|has| *has))
    }

    async fn has(
        &self,
        user_name: Option<Bytes>,
        scope: &PermissionScope,
        permission: Vec<pb::Permission>,
    ) -> Result<Vec<bool>> {
        let asked = permission.len();
        if !self.checks_permissions().await? {
            return Ok(vec![true; asked]);
        }
        let request = pb::HasUserPermissionsRequest {
            user_name,
            permission,
        };
        let answer: pb::HasUserPermissionsResponse = self
            .call("HasUserPermissions", &request)
            .await
            .map_err(|error| match scope.table_name() {
                Some(table) => error.at_table(table),
                None => error,
            })?;
        match answer.has_user_permission {
            has if has.len() == asked => Ok(has),
            has => Err(bad_answer(&format_args!(
                "it has {} answers to {asked} questions",
                has.len(),
            ))),
        }
    }

    /// Returns whether the master checks permissions. One without authorization rejects the query.
    async fn checks_permissions(&self) -> Result<bool> {
        let request = pb::SecurityCapabilitiesRequest {};
        let answer: pb::SecurityCapabilitiesResponse = self.call("getSecurityCapabilities", &request).await?;
        let authorization = pb::security_capabilities_response::Capability::Authorization;
        Ok(answer
            .capabilities()
            .any(|capability| capability == authorization))
    }
}

/// Adds the operation, and the scope as far as an error has a place for it.
fn in_context(operation: &'static str, scope: &PermissionScope) -> impl Fn(Error) -> Error {
    let (table, namespace) = match scope {
        PermissionScope::Namespace(name) => (None, Some(name.clone())),
        scope => (scope.table_name().cloned(), None),
    };
    move |error| match (&table, &namespace) {
        (Some(table), _) => error.at_operation(operation).at_table(table),
        (None, Some(name)) => error.at_operation(format!("{operation} on namespace {name}")),
        (None, None) => error.at_operation(operation),
    }
}

pub(crate) fn check_user(user: &str) -> Result<()> {
    if user.is_empty() {
        Err(Error::invalid("a user without a name"))
    } else {
        Ok(())
    }
}
