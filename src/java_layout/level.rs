//! How far a lock or a latch reaches.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// The scope of a lock or a latch: one farm (a data centre), or all farms.
///
/// A level is no more than a name: a part of a lock's key, and for a latch whose counts are looked
/// at. Two farms that share a table share its `Xdc` locks and latches; two tables that HBase
/// replicates to each other share nothing, because replication is asynchronous: no lock can be
/// exclusive over it, and what two sides add to one column at a time is not added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// One farm: its locks, or its own count of a latch.
    #[default]
    Dc,
    /// All farms: locks that they share, or the sum of their counts of a latch.
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
