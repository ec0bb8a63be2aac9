//! Permissions of users, and the message by which a cell carries some.

use prost::Message;

/// A permission of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Read rows.
    Read,
    /// Change rows.
    Write,
    /// Call endpoints; required where servers check it (`hbase.security.exec.permission.checks`).
    Exec,
    /// Create, change and drop the table.
    Create,
    /// Administer it: split, merge, flush, move.
    Admin,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Exec, Self::Create, Self::Admin];

    /// Returns the number of HBase's `Permission.Action`.
    pub(crate) const fn code(self) -> i32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Exec => 2,
            Self::Create => 3,
            Self::Admin => 4,
        }
    }

    /// Returns the permission with this number, if there is one.
    pub(crate) fn of_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.code() == code)
    }
}

/// HBase's `UsersAndPermissions`, as far as the access lists of cells use it.
#[derive(Message)]
struct UsersAndPermissions {
    #[prost(message, repeated, tag = "1")]
    users: Vec<UserPermissions>,
}

#[derive(Message)]
struct UserPermissions {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(message, repeated, tag = "2")]
    permissions: Vec<CellPermission>,
}

/// A `Permission` of the type `Global`, which names no table.
#[derive(Message)]
struct CellPermission {
    #[prost(int32, optional, tag = "1")]
    kind: Option<i32>,
    #[prost(message, optional, tag = "2")]
    global: Option<Actions>,
}

#[derive(Message)]
struct Actions {
    #[prost(int32, repeated, packed = "false", tag = "1")]
    action: Vec<i32>,
}

/// Returns the message of an access list.
pub(super) fn access_list<'a>(users: impl IntoIterator<Item = (&'a str, &'a [Permission])>) -> Vec<u8> {
    const GLOBAL: i32 = 1;
    let users = users.into_iter().map(|(user, permissions)| UserPermissions {
        user: user.to_owned(),
        permissions: vec![CellPermission {
            kind: Some(GLOBAL),
            global: Some(Actions {
                action: permissions.iter().map(|permission| permission.code()).collect(),
            }),
        }],
    });
    let message = UsersAndPermissions {
        users: users.collect(),
    };
    message.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_list_is_the_message_of_the_protocol() {
        let list = access_list([("eve", &[Permission::Read, Permission::Write][..])]);
        // Field 1: the user (1) and a permission (2) of type 1 with a global one (2) of two actions.
        assert_eq!(list, b"\n\x0f\n\x03eve\x12\x08\x08\x01\x12\x04\x08\x00\x08\x01");
    }
}
