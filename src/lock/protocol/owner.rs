//! The value of the owner column: the holder of a lock row, or a record of the released one.

use std::{fmt, str::FromStr, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_client::Environment;

use crate::{
    error::{Error, Result},
    random,
};

const FREE: u8 = 0;
const HELD: u8 = 1;
/// Follows the TTL of a row that was released through a gateway.
const UNCONDITIONALLY: u8 = 2;
/// The longest name of a holder, in bytes.
pub(crate) const MAX_HOLDER: usize = 256;

/// The token of one hold of a lock: 128 random bits of the operating system, new for each attempt.
///
/// Any process that has the token can release the lock. Its text is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockToken(u128);

impl LockToken {
    pub(crate) fn unique(environment: &dyn Environment) -> Self {
        Self(random::bits_128(environment))
    }

    pub(in crate::lock) fn of_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(in crate::lock) fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockToken({self})")
    }
}

impl FromStr for LockToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::invalid(format!(
                "{text:?} is not a lock token, which has 32 hexadecimal digits"
            )));
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|error| Error::invalid("not a lock token").with_source(error))
    }
}

/// The value of an owner cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The row is held.
    Held(HeldBy),
    /// The row was released. The cells that say so live for `ttl` after their timestamp, as long as
    /// any cell under them.
    Free { ttl: Millis },
    /// The same, through a gateway, whose writes have no condition: a late copy of the release
    /// overwrites cells of its timestamp, whatever they are by then.
    FreedUnconditionally { ttl: Millis },
}

/// The holder of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldBy {
    pub(crate) token: LockToken,
    /// Counts the values written for this token: no two of them are equal.
    pub(crate) renewal: u64,
    /// The cell TTL: marker and owner cell expire this long after their timestamp.
    pub(crate) ttl: Millis,
    /// The lease of the request or of the last renewal. The TTL is longer after a renewal, because
    /// it counts from the same timestamp.
    pub(crate) lease: Millis,
    /// A name for humans.
    pub(crate) holder: String,
    /// The TTL in the `Free` value that this one was appended to, or that was cleared from under
    /// it, counted from that cell's own timestamp. It stays at the head of the value.
    pub(crate) over: Option<Millis>,
}

/// A time in milliseconds, HBase's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(pub(crate) u64);

impl Millis {
    /// Converts to whole milliseconds, rounded down.
    pub(crate) fn floor(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Converts to whole milliseconds, rounded up.
    pub(crate) fn ceil(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

impl HeldBy {
    /// Returns the prefix of all owner cells of this hold, and of no other hold.
    pub(crate) fn beginning(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(26);
        self.put_beginning(&mut value);
        value.freeze()
    }

    fn put_beginning(&self, value: &mut BytesMut) {
        if let Some(ttl) = self.over {
            put_free(value, ttl);
        }
        value.put_u8(HELD);
        value.put_u128(self.token.0);
    }
}

fn put_free(value: &mut BytesMut, ttl: Millis) {
    value.put_u8(FREE);
    value.put_u64(ttl.0);
}

impl Owner {
    pub(crate) fn encode(&self) -> Bytes {
        match self {
            Self::Free { ttl } => {
                let mut value = BytesMut::with_capacity(9);
                put_free(&mut value, *ttl);
                value.freeze()
            }
            Self::FreedUnconditionally { ttl } => {
                let mut value = BytesMut::with_capacity(10);
                put_free(&mut value, *ttl);
                value.put_u8(UNCONDITIONALLY);
                value.freeze()
            }
            Self::Held(held) => {
                let mut value = BytesMut::with_capacity(50 + held.holder.len());
                held.put_beginning(&mut value);
                value.put_u64(held.renewal);
                value.put_u64(held.ttl.0);
                value.put_u64(held.lease.0);
                value.put_slice(held.holder.as_bytes());
                value.freeze()
            }
        }
    }

    /// Decodes a value. Returns `None` if another program wrote it.
    pub(crate) fn decode(mut value: &[u8]) -> Option<Self> {
        let (mut kind, mut over) = (value.try_get_u8().ok()?, None);
        if kind == FREE {
            let ttl = Millis(value.try_get_u64().ok()?);
            if value.is_empty() {
                return Some(Self::Free { ttl });
            }
            (kind, over) = (value.get_u8(), Some(ttl));
        }
        match kind {
            UNCONDITIONALLY if value.is_empty() => over.map(|ttl| Self::FreedUnconditionally { ttl }),
            HELD => {
                let token = LockToken(value.try_get_u128().ok()?);
                let renewal = value.try_get_u64().ok()?;
                let ttl = Millis(value.try_get_u64().ok()?);
                let lease = Millis(value.try_get_u64().ok()?);
                let holder = std::str::from_utf8(value).ok()?;
                (holder.len() <= MAX_HOLDER).then(|| {
                    Self::Held(HeldBy {
                        token,
                        renewal,
                        ttl,
                        lease,
                        holder: holder.to_owned(),
                        over,
                    })
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::SystemEnvironment;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_owner_decodes(token: u128, renewal: u64, ttl: u64, lease: u64, over: u64, holder in "\\PC{0,60}") {
            let held = HeldBy {
                token: LockToken(token),
                renewal,
                ttl: Millis(ttl),
                lease: Millis(lease),
                holder,
                over: None,
            };
            let free = Owner::Free { ttl: Millis(over) };
            prop_assert_eq!(Owner::decode(&free.encode()), Some(free.clone()));
            let freed = Owner::FreedUnconditionally { ttl: Millis(over) };
            prop_assert_eq!(Owner::decode(&freed.encode()), Some(freed));
            let alone = Owner::Held(held.clone()).encode();
            prop_assert!(alone.starts_with(&held.beginning()));
            prop_assert_eq!(Owner::decode(&alone), Some(Owner::Held(held.clone())));
            // The server's result if one is appended to the other.
            let appended = [free.encode(), alone].concat();
            let held = HeldBy { over: Some(Millis(over)), ..held };
            prop_assert!(appended.starts_with(&held.beginning()));
            prop_assert_eq!(&Owner::Held(held.clone()).encode()[..], &appended[..]);
            prop_assert_eq!(Owner::decode(&appended), Some(Owner::Held(held)));
        }

        #[test]
        fn foreign_owner_values_decode_or_are_ignored(value: Vec<u8>) {
            if let Some(owner) = Owner::decode(&value) {
                prop_assert_eq!(owner.encode(), value);
            }
        }

        #[test]
        fn a_token_is_its_text(token: u128) {
            let token = LockToken(token);
            prop_assert_eq!(token.to_string().parse::<LockToken>().unwrap(), token);
        }
    }

    /// The generator for pauses has a seed of 64 bits, which two images of one machine share.
    #[test]
    fn tokens_do_not_come_from_a_seed() {
        let token = || {
            fastrand::seed(7);
            LockToken::unique(&SystemEnvironment)
        };
        assert_ne!(token(), token());
    }

    #[test]
    fn invalid_tokens_are_refused() {
        for text in ["", "12", &"g".repeat(32), &"+".repeat(32), &"1".repeat(33)] {
            text.parse::<LockToken>().unwrap_err();
        }
    }
}
