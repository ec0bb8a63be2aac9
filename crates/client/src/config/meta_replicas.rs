//! Which replicas of `hbase:meta` a client reads.

use std::str::FromStr;

use crate::error::Error;

/// The replicas of `hbase:meta` that lookups of regions read, HBase's `CatalogReplicaMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetaReplicaMode {
    /// The primary alone.
    #[default]
    None,
    /// The primary, and a replica if the primary fails or does not answer in time. Lookups succeed
    /// while the server of the primary hangs.
    HedgedRead,
    /// A random replica, and the primary if the replica fails, does not answer in time, or does not
    /// know the region. Takes load off the primary.
    LoadBalance,
}

impl FromStr for MetaReplicaMode {
    type Err = Error;

    /// Parses the values of `hbase.locator.meta.replicas.mode`, in any case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let modes = [
            ("None", Self::None),
            ("HedgedRead", Self::HedgedRead),
            ("LoadBalance", Self::LoadBalance),
        ];
        let mode = modes.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        mode.map(|(_, mode)| *mode).ok_or_else(|| {
            Error::invalid_config(format!(
                "{text:?} is no mode of meta replicas; they are None, HedgedRead and LoadBalance"
            ))
        })
    }
}
