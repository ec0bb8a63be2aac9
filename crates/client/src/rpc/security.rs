//! How the security of connections, which is a crate of its own, appears to the rest of the client.

use crate::error::ErrorKind;

/// Returns the kind of the error that a caller gets.
pub(crate) fn kind_of(kind: hbase_security::ErrorKind) -> ErrorKind {
    match kind {
        hbase_security::ErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
        hbase_security::ErrorKind::Protocol => ErrorKind::Protocol,
        hbase_security::ErrorKind::AuthenticationFailed => ErrorKind::AuthenticationFailed,
    }
}
