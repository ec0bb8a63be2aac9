//! A 32-byte digest of a transaction's contents, which detects an id reused for other contents.

use std::borrow::Cow;

use bytes::Bytes;
use hbase_client::{
    Comparator, Comparison, Condition, Filter, Mutation,
    low_level::{BitOperation, Check, ComparatorKind, DeleteScope, FilterKind, MutationParts, MutationStamp},
};
use hmac_sha256::Hash;

/// The SHA-256 of a transaction's mutations and conditions, as the caller gave them.
///
/// The hashed encoding is private to this library and must not change: records outlive the process
/// that wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) struct Digest([u8; 32]);

impl Digest {
    /// The digest of contents that are not known.
    pub(in crate::txn) const ANY: Self = Self([0; 32]);
    /// The digest of every update: each attempt computes its contents again.
    pub(in crate::txn) const UPDATE: Self = Self([b'u'; 32]);

    /// Returns the digest of these contents; `deeds` describes what is done to each reserved row.
    pub(in crate::txn) fn of<'a>(
        mutations: &[Mutation],
        conditions: &[Condition],
        deeds: impl IntoIterator<Item = (Cow<'a, str>, &'a Bytes)>,
    ) -> Self {
        let mut form = Form(Hash::new());
        form.count(mutations.len());
        for mutation in mutations {
            form.mutation(mutation);
        }
        form.count(conditions.len());
        for condition in conditions {
            form.condition(condition);
        }
        // Without parts the encoding ends here, as it did before parts existed.
        for (deed, row) in deeds {
            form.bytes(deed.as_bytes());
            form.bytes(row);
        }
        Self(form.0.finalize())
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(in crate::txn) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns whether both can be digests of the same contents.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        self == other || *self == Self::ANY || *other == Self::ANY
    }
}

/// The hashed encoding. Each field has its length in front, so that different contents have
/// different encodings.
struct Form(Hash);

impl Form {
    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    fn timestamp(&mut self, timestamp: Option<u64>) {
        self.0.update(timestamp.unwrap_or(u64::MAX).to_be_bytes());
    }

    fn column(&mut self, family: &Bytes, qualifier: &Bytes) {
        self.bytes(family);
        self.bytes(qualifier);
    }

    fn mutation(&mut self, mutation: &Mutation) {
        self.bytes(mutation.row());
        match mutation {
            Mutation::Put(put) => {
                self.tag(b'p');
                self.timestamp(put.stamp());
                self.count(put.parts().len());
                for cell in put.parts() {
                    self.column(&cell.family, &cell.qualifier);
                    self.timestamp(cell.timestamp);
                    self.bytes(&cell.value);
                }
            }
            Mutation::Delete(delete) => {
                self.tag(b'd');
                self.timestamp(delete.stamp());
                self.count(delete.parts().len());
                for scope in delete.parts() {
                    self.scope(scope);
                }
            }
            Mutation::Increment(increment) => {
                self.tag(b'i');
                self.count(increment.parts().len());
                for counter in increment.parts() {
                    self.column(&counter.family, &counter.qualifier);
                    self.0.update(counter.amount.to_be_bytes());
                }
            }
            Mutation::Append(append) => {
                self.tag(b'a');
                self.count(append.parts().len());
                for cell in append.parts() {
                    self.column(&cell.family, &cell.qualifier);
                    self.bytes(&cell.value);
                }
            }
        }
        self.count(mutation.attributes().len());
        for (name, value) in mutation.attributes() {
            self.bytes(name.as_bytes());
            self.bytes(value);
        }
    }

    fn condition(&mut self, condition: &Condition) {
        self.bytes(condition.row());
        match Check::of(condition) {
            Check::Absent { family, qualifier } => {
                self.tag(b'a');
                self.column(family, qualifier);
            }
            Check::Present { family, qualifier } => {
                self.tag(b'p');
                self.column(family, qualifier);
            }
            Check::Compare {
                family,
                qualifier,
                comparison,
                value,
            } => {
                self.tag(b'c');
                self.column(family, qualifier);
                self.comparison(*comparison);
                self.bytes(value);
            }
            Check::BeginsWith {
                family,
                qualifier,
                prefix,
            } => {
                self.tag(b'b');
                self.column(family, qualifier);
                self.bytes(prefix);
            }
            Check::Matches(filter) => {
                self.tag(b'm');
                self.filter(filter);
            }
        }
    }

    /// Encodes each part of a filter. Its text is not enough: it truncates long values, and some
    /// different values have the same text.
    fn filter(&mut self, filter: &Filter) {
        match FilterKind::of(filter) {
            FilterKind::Family(comparison, comparator) => {
                self.tag(b'f');
                self.compared(*comparison, comparator);
            }
            FilterKind::Qualifier(comparison, comparator) => {
                self.tag(b'q');
                self.compared(*comparison, comparator);
            }
            FilterKind::Value(comparison, comparator) => {
                self.tag(b'v');
                self.compared(*comparison, comparator);
            }
            FilterKind::ColumnValue {
                family,
                qualifier,
                comparison,
                comparator,
            } => {
                self.tag(b'c');
                self.column(family, qualifier);
                self.compared(*comparison, comparator);
            }
            FilterKind::ColumnPrefix(prefix) => {
                self.tag(b'p');
                self.bytes(prefix);
            }
            FilterKind::All(filters) => {
                self.tag(b'&');
                self.filters(filters);
            }
            FilterKind::Any(filters) => {
                self.tag(b'|');
                self.filters(filters);
            }
        }
    }

    fn filters(&mut self, filters: &[Filter]) {
        self.count(filters.len());
        for filter in filters {
            self.filter(filter);
        }
    }

    fn compared(&mut self, comparison: Comparison, comparator: &Comparator) {
        self.comparison(comparison);
        match ComparatorKind::of(comparator) {
            ComparatorKind::Binary(bytes) => {
                self.tag(b'b');
                self.bytes(bytes);
            }
            ComparatorKind::Prefix(bytes) => {
                self.tag(b'p');
                self.bytes(bytes);
            }
            ComparatorKind::Long(value) => {
                self.tag(b'l');
                self.0.update(value.to_be_bytes());
            }
            ComparatorKind::Bits(operation, mask) => {
                self.tag(match operation {
                    BitOperation::And => b'&',
                    BitOperation::Or => b'|',
                    BitOperation::Xor => b'^',
                });
                self.bytes(mask);
            }
            ComparatorKind::Null => self.tag(b'n'),
            ComparatorKind::Substring(text) => {
                self.tag(b's');
                self.bytes(text.as_bytes());
            }
            ComparatorKind::Component { offset, bytes } => {
                self.tag(b'c');
                self.0.update(offset.to_be_bytes());
                self.bytes(bytes);
            }
        }
    }

    fn comparison(&mut self, comparison: Comparison) {
        self.tag(match comparison {
            Comparison::Equal => b'=',
            Comparison::NotEqual => b'!',
            Comparison::Less => b'<',
            Comparison::LessOrEqual => b'[',
            Comparison::Greater => b'>',
            Comparison::GreaterOrEqual => b']',
        });
    }

    fn scope(&mut self, scope: &DeleteScope) {
        match scope {
            DeleteScope::Family(family) => {
                self.tag(b'f');
                self.bytes(family);
            }
            DeleteScope::FamilyVersion { family, timestamp } => {
                self.tag(b'w');
                self.bytes(family);
                self.timestamp(Some(*timestamp));
            }
            DeleteScope::Column { family, qualifier } => {
                self.tag(b'c');
                self.column(family, qualifier);
            }
            DeleteScope::Version {
                family,
                qualifier,
                timestamp,
            } => {
                self.tag(b'v');
                self.column(family, qualifier);
                self.timestamp(Some(*timestamp));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use rstest::rstest;

    use super::*;
    use hbase_client::{Append, Delete, Increment, Put};

    fn filtered(filters: &[Filter]) -> usize {
        let digest =
            |filter: &Filter| *Digest::of(&[], &[Condition::matches("r", filter.clone())], []).as_bytes();
        filters.iter().map(digest).collect::<HashSet<_>>().len()
    }

    #[rstest]
    #[case::behind_what_is_shown([0_u8, 1].map(|end| Comparator::binary([&[b'v'; 64][..], &[end]].concat())))]
    #[case::looks_like_a_prefix([Comparator::binary("v*"), Comparator::prefix("v")])]
    #[case::looks_like_a_number([Comparator::binary("5L"), Comparator::long(5)])]
    #[case::looks_like_bits([Comparator::binary("bits & v"), Comparator::bit_and("v")])]
    #[case::looks_like_null([Comparator::binary("null"), Comparator::null()])]
    #[case::looks_like_a_substring([Comparator::binary("*v*"), Comparator::substring("v")])]
    #[case::looks_like_a_component([Comparator::binary("v at 1"), Comparator::component(1, "v")])]
    fn different_values_that_display_alike_have_other_digests(#[case] values: [Comparator; 2]) {
        let by_value = values
            .clone()
            .map(|value| Filter::value(Comparison::Equal, value));
        let by_column = values.map(|value| Filter::column_value("f", "q", Comparison::Equal, value));
        assert_eq!(filtered(&[by_value, by_column].concat()), 4);
    }

    #[test]
    fn a_digest_has_this_form_for_ever() {
        let mutations = [
            Put::new("r").cell("f", "q", "v").cell_at("f", "q", 7, "w").into(),
            Delete::new("r").timestamp(9).into(),
            Delete::new("s")
                .family("f")
                .column("f", "q")
                .version("f", "q", 7)
                .into(),
            Increment::new("t").column("f", "n", -1).into(),
            Append::new("u")
                .cell("f", "q", "v")
                .ttl(Duration::from_secs(1))
                .into(),
        ];
        let filter = Filter::any([
            Filter::column_prefix("p"),
            Filter::column_value("f", "q", Comparison::Less, Comparator::long(5)),
        ]);
        let conditions = [
            Condition::absent("r", "f", "q").label("the label is no content"),
            Condition::present("r", "f", "q"),
            Condition::compare("r", "f", "q", Comparison::GreaterOrEqual, "v"),
            Condition::matches("r", filter),
        ];
        let digest = Digest::of(&mutations, &conditions, []);
        let hex: String = digest
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "3be46cecdd019ea66a58156dbc752d1784ad1adaacb47ad8f76c26720ec8ef5e"
        );
    }

    #[test]
    fn different_filters_that_display_alike_have_other_digests() {
        let equal = |value: &'static str| Filter::qualifier(Comparison::Equal, Comparator::binary(value));
        assert_eq!(
            filtered(&[
                Filter::column_prefix("p"),
                Filter::qualifier(Comparison::Equal, Comparator::prefix("p")),
                Filter::all([equal("a"), equal("b")]),
                Filter::any([equal("a"), equal("b")]),
                Filter::all([equal("a and qualifier = b")]),
                Filter::any([equal("a and qualifier = b")]),
                Filter::all([Filter::all([equal("a")]), equal("b")]),
            ]),
            7
        );
    }
}
