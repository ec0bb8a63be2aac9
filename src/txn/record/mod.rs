//! The record of a transaction in the table, which makes its outcome known.
//!
//! A record is one cell in its own row, in the partition of the transaction and in the family
//! reserved for records. The row consists of the partition's prefix (including the delimiter, if
//! the rule has one), reserved bytes ([`Partition::reserved_row`]), `r`, and the id. The value,
//! with all numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format: 1 |
//! | 1 | state: `C` committed, `A` aborted |
//! | 4 | epoch: the number of times the id was aborted |
//! | 8 | the commit or fence that wrote it; each can tell its own record from an earlier one of the same id |
//! | 32 | SHA-256 digest of the transaction's contents; zeros if the contents are not known |
//! | 8, or none | when the id was last settled as not applied, in milliseconds since 1970; only of an aborted one |
//!
//! `digest` computes the digest. `settle` determines an outcome from a record, with I/O; `settlements` are
//! those that this process made.

pub(super) mod digest;
pub(super) mod settle;
pub(super) mod settlements;

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use hbase_client::{BytesBinary, Cell, Environment, IntoBytes, SystemEnvironment, TableDescriptor};

use self::digest::Digest;
use super::{proof::servers::millis, reserved_rows::reserved_row};
use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    random,
    table_descriptor::TableDescriptorExt,
};

/// The prefix of generated ids.
const OWN: &str = "txn-";
/// The number of digits of the creation time in a generated id.
const TIME_DIGITS: usize = 12;
/// The number of digits after the time.
const NUMBER_DIGITS: usize = 32;
const FORMAT: u8 = 1;
const LENGTH: usize = 1 + 1 + 4 + 8 + 32;
/// The length of the time of a settlement.
const TIME_LENGTH: usize = 8;
/// The column of a record.
pub(super) const QUALIFIER: Bytes = Bytes::from_static(b"r");
pub(super) const FAMILY: Bytes = Bytes::from_static(TableDescriptor::RECORD_FAMILY.as_bytes());

/// The id under which a transaction is recorded, unique in its partition: 1 to 64 bytes.
///
/// For example a request id that is the same when the request is sent again. An id identifies one
/// list of mutations and conditions, in their order: with other contents it is refused, even after
/// a rejection. This holds for the table's replay window, 24 hours by default.
///
/// # Example
///
/// ```
/// use hbase_txn::TransactionId;
///
/// let id = TransactionId::new("order-4711")?;
/// assert_eq!(id.to_string(), "order-4711");
/// assert!(TransactionId::new("").is_err());
/// # Ok::<(), hbase_txn::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TransactionId(Bytes);

impl TransactionId {
    /// The maximum length of an id, in bytes.
    pub const MAX_LENGTH: usize = 64;

    /// Creates an id from the caller's bytes.
    ///
    /// Do not create ids in the exact form of [`unique`](Self::unique) (`txn-`, 12 hexadecimal
    /// digits, `-`, 32 hexadecimal digits, all lower case): the first digits are read as the
    /// creation time, and an id that looks older than the table's replay window can't be settled.
    /// All other forms, including those that begin with `txn-`, carry no time.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) if the id is empty or longer than 64
    /// bytes.
    pub fn new(id: impl IntoBytes) -> Result<Self> {
        let id = id.into_bytes();
        match id.len() {
            0 => Err(Error::invalid("an empty transaction id")),
            1..=Self::MAX_LENGTH => Ok(Self(id)),
            length => Err(Error::invalid(format!(
                "a transaction id of {length} bytes; the longest has {}",
                Self::MAX_LENGTH
            ))),
        }
    }

    /// Generates a unique id. It contains its creation time, so that an id older than the table's
    /// replay window is recognised without a record. It may be stored and passed to
    /// [`new`](Self::new) later.
    #[must_use]
    pub fn unique() -> Self {
        Self::unique_in(&SystemEnvironment)
    }

    /// Generates a unique id, as [`unique`](Self::unique) does, from the wall clock and the random
    /// numbers of a [connection's environment](crate::client::Connection::environment).
    #[must_use]
    pub fn unique_in(environment: &dyn Environment) -> Self {
        let now = millis(environment.wall_clock());
        let number = random::bits_128(environment);
        Self(format!("{OWN}{now:0TIME_DIGITS$x}-{number:0NUMBER_DIGITS$x}").into())
    }

    /// Returns the creation time in milliseconds since 1970 if the id has the exact form of
    /// [`unique`](Self::unique): `txn-`, 12 hexadecimal digits, `-`, 32 hexadecimal digits, all
    /// lower case.
    pub(super) fn made_at(&self) -> Option<u64> {
        let (time, rest) = self
            .0
            .strip_prefix(OWN.as_bytes())?
            .split_at_checked(TIME_DIGITS)?;
        let number = rest.strip_prefix(b"-")?;
        let is_hex = |digits: &[u8]| {
            let mut digits = digits.iter();
            digits.all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        if number.len() != NUMBER_DIGITS || !is_hex(time) || !is_hex(number) {
            return None;
        }
        u64::from_str_radix(std::str::from_utf8(time).ok()?, 16).ok()
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl IntoBytes for TransactionId {
    fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl IntoBytes for &TransactionId {
    fn into_bytes(self) -> Bytes {
        self.0.clone()
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BytesBinary(&self.0).fmt(f)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionId({self})")
    }
}

/// A request to record a transaction.
#[derive(Clone, Debug)]
pub(super) struct RecordRequest {
    pub(super) id: TransactionId,
    /// Whether another commit, by any process, may have used the id before.
    pub(super) of_caller: bool,
    /// Whether the contents are the same in every attempt.
    pub(super) fixed_contents: bool,
}

impl RecordRequest {
    pub(super) fn of_caller(id: TransactionId) -> Self {
        Self {
            id,
            of_caller: true,
            fixed_contents: true,
        }
    }

    pub(super) fn own(environment: &dyn Environment) -> Self {
        Self {
            id: TransactionId::unique_in(environment),
            of_caller: false,
            fixed_contents: true,
        }
    }
}

/// Returns the row of a record.
///
/// # Errors
///
/// Returns the errors of [`reserved_row`].
pub(super) fn record_row(partition: &Partition, id: &TransactionId) -> Result<Bytes> {
    let mut name = BytesMut::with_capacity(1 + id.0.len());
    name.put_u8(b'r');
    name.put_slice(&id.0);
    reserved_row(partition, &name, "a record")
}

/// The outcome that a record states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The transaction was applied.
    Committed,
    /// No attempt had been applied when this was written.
    Aborted,
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) epoch: u32,
    /// The commit or fence that wrote it.
    pub(super) writer: u64,
    pub(super) digest: Digest,
    /// When a caller was last told that the transaction is not applied, in milliseconds since 1970.
    /// Later aborts keep it: commits that began earlier must not go on. `None` if only commits wrote
    /// aborts, or it is committed.
    pub(super) settled_at: Option<u64>,
}

impl Record {
    pub(super) fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(LENGTH + TIME_LENGTH);
        value.put_u8(FORMAT);
        value.put_u8(match self.state {
            State::Committed => b'C',
            State::Aborted => b'A',
        });
        value.put_u32(self.epoch);
        value.put_u64(self.writer);
        value.put_slice(self.digest.as_bytes());
        if let Some(time) = self.settled_at {
            value.put_u64(time);
        }
        value.freeze()
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// Returns [`Protocol`](ClientErrorKind::Protocol) if this version can't read the record:
    /// nothing may be concluded from it.
    pub(super) fn decode(value: &[u8]) -> Result<Self> {
        let parse = || {
            let (&[FORMAT, state], rest) = value.split_first_chunk::<2>()? else {
                return None;
            };
            let (epoch, rest) = rest.split_first_chunk::<4>()?;
            let (writer, rest) = rest.split_first_chunk::<8>()?;
            let (digest, time) = rest.split_first_chunk::<32>()?;
            let state = match state {
                b'C' => State::Committed,
                b'A' => State::Aborted,
                _ => return None,
            };
            Some(Self {
                state,
                epoch: u32::from_be_bytes(*epoch),
                writer: u64::from_be_bytes(*writer),
                digest: Digest::from_bytes(*digest),
                settled_at: match (time, state) {
                    ([], _) => None,
                    (time, State::Aborted) => Some(u64::from_be_bytes(time.try_into().ok()?)),
                    (_, State::Committed) => return None,
                },
            })
        };
        parse().ok_or_else(|| {
            Error::new(
                ClientErrorKind::Protocol,
                format!(
                    "a transaction's record that this version can't read, of {} bytes",
                    value.len()
                ),
            )
            .with_hint("a newer version of this package, or something else, writes the record family")
        })
    }
}

/// A record as read from the table.
#[derive(Clone, Debug)]
pub(super) struct SeenRecord {
    pub(super) record: Record,
    /// The value in the table. The next attempt is sent under the condition that it is unchanged.
    pub(super) value: Bytes,
    pub(super) timestamp: u64,
}

impl SeenRecord {
    pub(super) fn is_committed(&self) -> bool {
        self.record.state == State::Committed
    }

    pub(super) fn of(cell: &Cell) -> Result<Self> {
        Ok(Self {
            record: Record::decode(&cell.value)?,
            // A copy, so that the whole response frame is not kept.
            value: Bytes::copy_from_slice(&cell.value),
            timestamp: cell.timestamp,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::{
        partition::PartitionRule,
        random::fixed::{Fixed, WALL_CLOCK},
    };

    fn record(state: State) -> Record {
        Record {
            state,
            epoch: 7,
            writer: 0x0102_0304_0506_0708,
            digest: Digest::from_bytes([0xAB; 32]),
            settled_at: None,
        }
    }

    #[test]
    fn a_record_has_this_form_for_ever() {
        let expected = [
            &[1, b'C', 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8][..],
            &[0xAB; 32][..],
        ]
        .concat();
        assert_eq!(record(State::Committed).encode(), expected);
        assert_eq!(record(State::Aborted).encode()[1], b'A');
        let settled = Record {
            settled_at: Some(0x0102_0304_0506_0708),
            ..record(State::Aborted)
        };
        assert_eq!(settled.encode()[46..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[rstest]
    #[case(State::Committed, None)]
    #[case(State::Aborted, None)]
    #[case(State::Aborted, Some(7))]
    fn encoded_record_decodes(#[case] state: State, #[case] settled_at: Option<u64>) {
        let record = Record {
            settled_at,
            ..record(state)
        };
        assert_eq!(Record::decode(&record.encode()).unwrap(), record);
    }

    proptest! {
        #[test]
        fn unknown_record_formats_prove_nothing(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }

    #[rstest]
    #[case(PartitionRule::prefix_length(3).unwrap(), "xxx", b"xxx\xff_txn\xffrid")]
    #[case(PartitionRule::delimiter("/").unwrap(), "cust42", b"cust42/\xff_txn\xffrid")]
    fn the_row_follows_from_partition_and_id(
        #[case] rule: PartitionRule,
        #[case] prefix: &'static str,
        #[case] expected: &[u8],
    ) {
        let partition = rule.partition(prefix).unwrap();
        let row = record_row(&partition, &TransactionId::new("id").unwrap()).unwrap();
        assert_eq!(row, expected);
        assert_eq!(rule.partition_of(&row), partition);
    }

    #[test]
    fn a_row_that_is_a_partition_of_its_own_has_no_record() {
        let rule = PartitionRule::prefix_length(3).unwrap();
        let partition = rule.partition_of("xx");
        assert!(record_row(&partition, &TransactionId::unique()).is_err());
    }

    #[test]
    fn generated_id_comes_from_the_environment() {
        let id = TransactionId::unique_in(&Fixed);
        assert_eq!(id.made_at(), Some(WALL_CLOCK));
        assert_eq!(id, TransactionId::unique_in(&Fixed));
    }

    #[test]
    fn ids_are_bounded_and_own_ones_are_unique() {
        assert!(TransactionId::new(vec![0; 64]).is_ok());
        assert!(TransactionId::new(vec![0; 65]).is_err());
        let ids: Vec<_> = (0..1_000).map(|_| TransactionId::unique()).collect();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 1_000);
        for id in ids {
            assert!(TransactionId::new(id.as_bytes().to_vec()).is_ok());
            assert!(
                millis(std::time::SystemTime::now()).abs_diff(id.made_at().unwrap()) < 60_000,
                "{id}"
            );
        }
    }

    #[rstest]
    #[case("order-1")]
    #[case("txn-2024-0001")]
    #[case("txn-550e8400-e29b-41d4-a716-446655440000")]
    #[case("txn-")]
    #[case("txn-0123456789ab")]
    // One digit less, one more, upper case, a sign, another separator.
    #[case("txn-0123456789a-0123456789abcdef0123456789abcdef")]
    #[case("txn-0123456789ab-0123456789abcdef0123456789abcde")]
    #[case("txn-0123456789ab-0123456789abcdef0123456789abcdef0")]
    #[case("txn-0123456789AB-0123456789abcdef0123456789abcdef")]
    #[case("txn-+123456789ab-0123456789abcdef0123456789abcdef")]
    #[case("txn-0123456789ab_0123456789abcdef0123456789abcdef")]
    fn only_the_form_of_unique_ids_carries_a_time(#[case] id: &'static str) {
        assert_eq!(TransactionId::new(id).unwrap().made_at(), None);
        let unique = TransactionId::new("txn-0123456789ab-0123456789abcdef0123456789abcdef").unwrap();
        assert_eq!(unique.made_at(), Some(0x0123_4567_89ab));
    }
}
