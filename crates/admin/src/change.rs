//! A change of the cluster, as the log of changes receives it.

use std::fmt;

use hbase_client::TableDescriptor;
use prost::Message;

/// A message that a log can print.
pub(crate) trait Request: Message + fmt::Debug {}

impl<M: Message + fmt::Debug> Request for M {}

/// The table before and after a change.
#[derive(Default)]
pub(crate) struct Tables<'a> {
    pub(crate) before: Option<TableDescriptor>,
    pub(crate) after: Option<&'a TableDescriptor>,
}

impl Tables<'_> {
    pub(crate) fn of(before: Option<TableDescriptor>) -> Self {
        Self { before, after: None }
    }
}
