//! A partition rule on the command line.

use bytes::Bytes;
use clap::Args;
use hbase_txn::PartitionRule;

use crate::{
    exit::Failure,
    values::{self, Ranged},
};

/// A rule, or none.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct Rule {
    /// A partition is all rows that begin with the same N bytes
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    prefix_length: Option<Ranged<usize>>,
    /// A partition is all rows with the same bytes before the first D
    #[arg(long, value_name = "D", value_parser = values::bytes)]
    delimiter: Option<Bytes>,
}

impl Rule {
    /// The rule that is stated; none where none is.
    pub(super) fn stated(&self) -> Result<Option<PartitionRule>, Failure> {
        Ok(match (&self.prefix_length, &self.delimiter) {
            (Some(length), _) => Some(PartitionRule::prefix_length(length.get("--prefix-length")?)?),
            (None, Some(delimiter)) => Some(PartitionRule::delimiter(delimiter.clone())?),
            (None, None) => None,
        })
    }
}
