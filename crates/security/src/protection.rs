//! The protection of messages after the authentication.

/// The protection of the messages of an authenticated connection (`hbase.rpc.protection`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// Both sides are authenticated when the connection opens, and messages are sent as they are.
    Authentication,
    /// Messages that were altered, repeated or left out are detected.
    Integrity,
    /// Messages are encrypted too.
    Privacy,
}

impl Protection {
    /// Returns the name of the protection in `hbase.rpc.protection`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Integrity => "integrity",
            Self::Privacy => "privacy",
        }
    }
}

/// Returns the names of protections, as in `hbase.rpc.protection`.
#[must_use]
pub fn protection_names(protections: &[Protection]) -> String {
    let names: Vec<_> = protections.iter().map(|protection| protection.name()).collect();
    names.join(", ")
}
