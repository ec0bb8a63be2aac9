//! Folds the operations of one cell.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::{Bytes, BytesMut};
use hbase_client::Durability;

/// The reason why the operations of a cell can't be applied in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// An increment of a put value with this many bytes, not 8.
    Width(usize),
    /// Increments whose sum, also with a put value, is not a 64-bit number.
    Overflow,
    /// An increment and an append of the value stored on the server.
    IncrementAndAppend,
    /// Operations with and without a timestamp.
    Mixed,
    /// A put at this timestamp after a delete that hides it.
    Hidden(u64),
}

/// The origin of a folded operation, with its attributes and durability.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    /// Its position among the operations of the row.
    pub(super) at: usize,
    pub(super) attributes: Cow<'a, [(String, Bytes)]>,
    pub(super) durability: Durability,
}

/// The remaining operations of one cell, without deletes of wider scope.
#[derive(Debug, Default)]
pub(super) struct CellFold<'a> {
    pub(super) change: Option<(Change, Source<'a>)>,
    /// Puts with their own timestamps.
    pub(super) versions: BTreeMap<u64, (Bytes, Source<'a>)>,
    pub(super) deleted_versions: BTreeMap<u64, Source<'a>>,
}

/// The result of the operations without a timestamp.
#[derive(Debug)]
pub(super) enum Change {
    Put(Value),
    Increment(i64),
    Append(Value),
}

/// A value and its appended suffixes. A long sequence of appends must not copy the value each time.
#[derive(Debug)]
pub(super) struct Value {
    beginning: Bytes,
    rest: BytesMut,
}

impl<'a> CellFold<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.change.is_none() && self.versions.is_empty() && self.deleted_versions.is_empty()
    }

    /// Applies a change after the earlier ones. `is_deleted`: a delete of the same transaction left
    /// the cell absent.
    pub(super) fn then(
        &mut self,
        change: Change,
        source: Source<'a>,
        is_deleted: bool,
    ) -> Result<(), Refusal> {
        let folded = match (self.change.take(), change) {
            (None, change) if is_deleted => (change.on_nothing(), source),
            (None, change) => (change, source),
            (Some((_, before)), Change::Put(value)) => {
                let at = before.at;
                (Change::Put(value), Source { at, ..source })
            }
            (Some((before, from)), change) => (before.then(change)?, from.then(source)),
        };
        self.change = Some(folded);
        Ok(())
    }
}

impl Change {
    fn on_nothing(self) -> Self {
        match self {
            Self::Put(value) | Self::Append(value) => Self::Put(value),
            Self::Increment(amount) => Self::Put(counter(amount)),
        }
    }

    fn then(self, later: Self) -> Result<Self, Refusal> {
        Ok(match (self, later) {
            (_, Self::Put(value)) => Self::Put(value),
            (Self::Put(value), Self::Append(suffix)) => Self::Put(value.then(suffix)),
            (Self::Append(value), Self::Append(suffix)) => Self::Append(value.then(suffix)),
            (Self::Put(value), Self::Increment(amount)) => {
                let value = value.into_bytes();
                let stored: [u8; 8] = value[..].try_into().map_err(|_| Refusal::Width(value.len()))?;
                let sum = i64::from_be_bytes(stored).checked_add(amount);
                Self::Put(counter(sum.ok_or(Refusal::Overflow)?))
            }
            (Self::Increment(first), Self::Increment(second)) => {
                Self::Increment(first.checked_add(second).ok_or(Refusal::Overflow)?)
            }
            (Self::Increment(_), Self::Append(_)) | (Self::Append(_), Self::Increment(_)) => {
                return Err(Refusal::IncrementAndAppend);
            }
        })
    }
}

fn counter(number: i64) -> Value {
    Value::from(Bytes::copy_from_slice(&number.to_be_bytes()))
}

impl Source<'_> {
    /// An increment or append keeps the cell's attributes, such as a TTL, unless it names others.
    fn then(mut self, later: Self) -> Self {
        if self.attributes.is_empty() {
            self.attributes = later.attributes;
        } else if !later.attributes.is_empty() && self.attributes != later.attributes {
            let attributes = self.attributes.to_mut();
            attributes.retain(|(name, _)| later.attributes.iter().all(|(other, _)| other != name));
            attributes.extend(later.attributes.into_owned());
        }
        self.durability = later.durability;
        self
    }
}

impl Value {
    fn then(mut self, suffix: Self) -> Self {
        if self.beginning.is_empty() && self.rest.is_empty() {
            return suffix;
        }
        self.rest.extend_from_slice(&suffix.beginning);
        self.rest.extend_from_slice(&suffix.rest);
        self
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.beginning;
        }
        let mut whole = BytesMut::with_capacity(self.beginning.len() + self.rest.len());
        whole.extend_from_slice(&self.beginning);
        whole.extend_from_slice(&self.rest);
        whole.freeze()
    }
}

impl From<Bytes> for Value {
    fn from(beginning: Bytes) -> Self {
        Self {
            beginning,
            rest: BytesMut::new(),
        }
    }
}
