//! A partition rule on the command line.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{PartitionRule, client::BytesBinary};
use serde::Serialize;

use crate::{
    exit::Failure,
    values::{self, Ranged},
};

/// A rule, or none.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct Rule {
    /// Length of the prefix in bytes: rows with the same first N bytes are a partition
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    prefix_length: Option<Ranged<usize>>,
    /// Delimiter: rows with the same bytes before the first D are a partition
    #[arg(long, value_name = "D", value_parser = values::bytes)]
    delimiter: Option<Bytes>,
}

impl Rule {
    /// Returns the specified rule, if any.
    pub(super) fn stated(&self) -> Result<Option<PartitionRule>, Failure> {
        let rule = match (&self.prefix_length, &self.delimiter) {
            (Some(length), _) => PartitionRule::prefix_length(length.get("--prefix-length")?),
            (None, Some(delimiter)) => PartitionRule::delimiter(delimiter.clone()),
            (None, None) => return Ok(None),
        };
        rule.map(Some)
            .map_err(|error| Failure::Unparsable(error.to_string()))
    }
}

/// A partition rule in JSON: `{"prefix_length":3}` or `{"delimiter":"/"}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RuleObject {
    PrefixLength(usize),
    Delimiter(String),
}

impl From<&PartitionRule> for RuleObject {
    fn from(rule: &PartitionRule) -> Self {
        match rule {
            PartitionRule::PrefixLength(length) => Self::PrefixLength(length.get()),
            PartitionRule::Delimiter(delimiter) => Self::Delimiter(BytesBinary(delimiter).to_string()),
        }
    }
}
