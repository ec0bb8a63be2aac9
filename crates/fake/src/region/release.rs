//! Releases of HBase.

use std::{fmt, str::FromStr};

use crate::filter::Dialect;

/// A release of HBase, as far as servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(non_camel_case_types, reason = "the numbers need a separator")]
#[non_exhaustive]
pub enum Release {
    /// 2.4.2 and before: servers apply conditional changes of several rows without regard to the
    /// conditions.
    V2_4_2,
    /// 2.4.5 to 2.4.18.
    V2_4,
    /// 2.5.
    V2_5,
    /// 2.6.
    V2_6,
    /// 3.0.
    V3_0,
}

impl Release {
    /// The behaviour of its filters.
    pub(super) fn filters(self) -> Dialect {
        Dialect {
            // HBase's `HintingFilter`.
            hints: matches!(self, Self::V2_5 | Self::V2_6),
            first_masks: matches!(self, Self::V2_4 | Self::V2_5 | Self::V2_6),
        }
    }
}

/// The error of a text that names no modelled release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRelease(String);

impl fmt::Display for UnknownRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hbase-fake does not model HBase {}; it models 2.4, 2.5, 2.6 and 3.0",
            self.0
        )
    }
}

impl std::error::Error for UnknownRelease {}

impl FromStr for Release {
    type Err = UnknownRelease;

    /// Reads a version such as `2.6.4-hadoop3`.
    fn from_str(version: &str) -> Result<Self, Self::Err> {
        let mut numbers = version.split(['.', '-']);
        match (
            numbers.next(),
            numbers.next(),
            numbers.next().and_then(|patch| patch.parse().ok()),
        ) {
            (Some("2"), Some("4"), Some(0..=2)) => Ok(Self::V2_4_2),
            (Some("2"), Some("4"), Some(3 | 4)) => Err(UnknownRelease(version.to_owned())),
            (Some("2"), Some("4"), _) => Ok(Self::V2_4),
            (Some("2"), Some("5"), _) => Ok(Self::V2_5),
            (Some("2"), Some("6"), _) => Ok(Self::V2_6),
            (Some("3"), Some("0"), _) => Ok(Self::V3_0),
            _ => Err(UnknownRelease(version.to_owned())),
        }
    }
}
