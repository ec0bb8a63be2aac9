//! The attributes of a mutation that HBase reads.

use std::time::Duration;

use bytes::Bytes;

use super::{
    limits::LATEST_TIMESTAMP,
    permission::{Permission, access_list},
};
use crate::error::{Error, Result};

/// The attribute that carries a visibility expression.
pub(crate) const VISIBILITY_ATTRIBUTE: &str = "VISIBILITY";
/// The attribute of an increment or append that asks for its new cells, or not.
pub(super) const RETURN_RESULTS_ATTRIBUTE: &str = "_rr_";
/// The attribute that carries a cell TTL; HBase forbids it on deletes, where it would expire the
/// marker.
pub(super) const TTL_ATTRIBUTE: &str = "_ttl";
/// The server adds the TTL to a timestamp, and a sum that overflows has expired long ago.
const MAX_TTL: u64 = LATEST_TIMESTAMP / 2;

pub(super) fn set_ttl(attributes: &mut Vec<(String, Bytes)>, ttl: Duration) {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let value = Bytes::copy_from_slice(&millis.to_be_bytes());
    set_attribute(attributes, TTL_ATTRIBUTE.to_owned(), value);
}

/// Sets the attribute to HBase's `CellVisibility`, a message whose field 1 is the expression.
pub(super) fn set_visibility(attributes: &mut Vec<(String, Bytes)>, expression: &str) {
    let mut value = Vec::new();
    prost::encoding::string::encode(1, &expression.to_owned(), &mut value);
    set_attribute(attributes, VISIBILITY_ATTRIBUTE.to_owned(), value.into());
}

/// Sets the access list of the cells: `AccessControlConstants.OP_ATTRIBUTE_ACL`.
pub(super) fn set_acl<'a>(
    attributes: &mut Vec<(String, Bytes)>,
    users: impl IntoIterator<Item = (&'a str, &'a [Permission])>,
) {
    set_attribute(attributes, "acl".to_owned(), access_list(users).into());
}

pub(crate) fn set_attribute(attributes: &mut Vec<(String, Bytes)>, name: String, value: Bytes) {
    attributes.retain(|(existing, _)| *existing != name);
    attributes.push((name, value));
}

/// The methods that all mutations have.
macro_rules! mutation_methods {
    () => {
        /// Sets how durable the write is when the server answers.
        pub fn durability(mut self, durability: Durability) -> Self {
            self.durability = durability;
            self
        }

        /// Sets an attribute that travels with the mutation. Replaces an attribute of the same name.
        pub fn attribute(mut self, name: impl Into<String>, value: impl IntoBytes) -> Self {
            set_attribute(&mut self.attributes, name.into(), value.into_bytes());
            self
        }

        /// Lets only those users read the cells whose labels fulfil this expression, for example
        /// `secret & !(probationary | temporary)`. Quote labels with other characters than letters,
        /// digits, `_`, `-`, `:`, `/` and `.`.
        ///
        /// A delete with an expression deletes only cells that have the same one, and a delete without
        /// only cells that have none. The cluster needs HBase's `VisibilityController`; without it the
        /// expression has no effect. Bulk writes and transactions refuse it, because in an atomic call
        /// HBase drops a mutation with an invalid expression and reports success.
        pub fn cell_visibility(mut self, expression: impl AsRef<str>) -> Self {
            set_visibility(&mut self.attributes, expression.as_ref());
            self
        }

        /// Returns the row key.
        #[must_use]
        pub fn row(&self) -> &Bytes {
            &self.row
        }
    };
}

pub(super) use mutation_methods;

/// Rejects a TTL that the server could not read, or that it would read as expired long ago.
pub(super) fn check_attributes(attributes: &[(String, Bytes)]) -> Result<()> {
    let Some((_, value)) = attributes.iter().find(|(name, _)| name == TTL_ATTRIBUTE) else {
        return Ok(());
    };
    match value.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)) {
        Some(millis) if value.len() == 8 && (1..=MAX_TTL).contains(&millis) => Ok(()),
        _ => Err(Error::invalid(
            "a TTL is at least one whole millisecond, and at most 146 million years",
        )),
    }
}
