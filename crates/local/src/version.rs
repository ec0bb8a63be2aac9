//! The HBase releases that a local cluster can run.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A supported release of HBase: its artifacts resolve completely, and this crate is tested with
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum HBaseVersion {
    /// 2.4.18, on Hadoop 2: the oldest supported release.
    V2_4,
    /// 2.5.13, on Hadoop 3.
    V2_5,
    /// 2.6.4, on Hadoop 3: the default.
    #[default]
    V2_6,
    /// 3.0.0-alpha-4: a preview.
    V3_0,
}

impl HBaseVersion {
    /// All supported releases, the oldest first.
    pub const ALL: [Self; 4] = [Self::V2_4, Self::V2_5, Self::V2_6, Self::V3_0];

    /// Returns the version of the `hbase-server` artifact.
    #[must_use]
    pub fn artifact(self) -> &'static str {
        match self {
            Self::V2_4 => "2.4.18",
            Self::V2_5 => "2.5.13-hadoop3",
            Self::V2_6 => "2.6.4-hadoop3",
            Self::V3_0 => "3.0.0-alpha-4",
        }
    }

    /// Returns the size of the artifacts in megabytes, for progress messages.
    pub(super) fn megabytes(self) -> u32 {
        match self {
            Self::V2_4 => 91,
            Self::V2_5 => 116,
            Self::V2_6 => 117,
            Self::V3_0 => 101,
        }
    }
}

impl fmt::Display for HBaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.artifact())
    }
}

impl FromStr for HBaseVersion {
    type Err = Error;

    /// Parses a version such as `2.6.4-hadoop3`; the suffix for Hadoop is optional.
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|version| {
                let artifact = version.artifact();
                artifact == text || artifact.strip_suffix("-hadoop3") == Some(text)
            })
            .ok_or_else(|| {
                Error::invalid(format!("no HBase {text} for a local cluster")).with_hint(format!(
                    "take one of {}",
                    Self::ALL.map(Self::artifact).join(", ")
                ))
            })
    }
}

impl From<HBaseVersion> for String {
    fn from(version: HBaseVersion) -> Self {
        version.artifact().to_owned()
    }
}

impl TryFrom<String> for HBaseVersion {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2.6.4-hadoop3", HBaseVersion::V2_6)]
    #[case("2.6.4", HBaseVersion::V2_6)]
    #[case("2.5.13", HBaseVersion::V2_5)]
    #[case("2.4.18", HBaseVersion::V2_4)]
    #[case("3.0.0-alpha-4", HBaseVersion::V3_0)]
    fn reads_what_it_writes_and_the_short_form(#[case] text: &str, #[case] version: HBaseVersion) {
        assert_eq!(text.parse::<HBaseVersion>().unwrap(), version);
        assert_eq!(version.to_string().parse::<HBaseVersion>().unwrap(), version);
    }

    #[test]
    fn an_unknown_release_is_refused_with_the_known_ones() {
        let error = "2.6".parse::<HBaseVersion>().unwrap_err().to_string();
        assert!(
            error.contains("2.4.18") && error.contains("2.6.4-hadoop3"),
            "{error}"
        );
    }
}
