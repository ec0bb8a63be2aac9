//! Queries of a registry.

/// A server that only the registry knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    MetaServer,
    ActiveMaster,
}
