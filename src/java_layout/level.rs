//! The scope of a lock or a latch.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// The scope of a lock or a latch: one farm (a data centre), or all farms.
///
/// A level is only a name. It is a part of a lock's key, and selects the counts of a latch that are
/// read. Two farms that share a table share its `Xdc` locks and latches. Two tables that HBase
/// replicates to each other share nothing, because replication is asynchronous: no lock can be
/// exclusive across it, and concurrent increments of one column on both sides are not added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One farm: its locks, or its own count of a latch.
    #[default]
    Dc,
    /// All farms: their shared locks, or the sum of their counts of a latch.
    Xdc,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dc => "DC",
            Self::Xdc => "XDC",
        })
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "dc" | "DC" => Ok(Self::Dc),
            "xdc" | "XDC" => Ok(Self::Xdc),
            _ => Err(Error::invalid(format!("{text:?} is no level: dc or xdc"))),
        }
    }
}
