//! The cells of a barrier.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac_sha256::Hash;

use super::arrival::{Arrival, BarrierOutcome, BarrierPhase, MAX_PARTIES};
use crate::latch::note::Note;

/// The column of the state.
pub(super) const BARRIER: Bytes = Bytes::from_static(b"b");
/// The column of the arrivals.
pub(super) const ARRIVALS: Bytes = Bytes::from_static(b"g");
/// The form of the state of a barrier.
const SINGLE: u8 = 1;
/// The form of the state of a double barrier.
const DOUBLE: u8 = 2;
/// How many ended generations are remembered.
const REMEMBERED: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Distinguishes barriers of one name that were created one after the other.
    pub(super) barrier: u64,
    /// Whether each generation that users see has two generations here, its phases: generation n is
    /// entered in 2n - 1, and left in 2n.
    pub(super) is_double: bool,
    pub(super) parties: u32,
    /// How long a generation may take, in milliseconds.
    pub(super) time: u64,
    pub(super) generation: u64,
    /// Whether a party has arrived in it.
    pub(super) is_filling: bool,
    /// Which earlier generations opened; the lowest bit is the last generation.
    pub(super) opened: u64,
    pub(super) note: Note,
}

impl State {
    pub(super) fn encode(&self) -> Bytes {
        let note = self.note.encode();
        let mut value = BytesMut::with_capacity(38 + note.len());
        value.put_u8(if self.is_double { DOUBLE } else { SINGLE });
        value.put_u64(self.barrier);
        value.put_u32(self.parties);
        value.put_u64(self.time);
        value.put_u64(self.generation);
        value.put_u8(u8::from(self.is_filling));
        value.put_u64(self.opened);
        value.put_slice(&note);
        value.freeze()
    }

    /// Returns `None` for a value that no version of this library writes.
    pub(super) fn decode(mut value: &[u8]) -> Option<Self> {
        let is_double = match value.try_get_u8().ok()? {
            SINGLE => false,
            DOUBLE => true,
            _ => return None,
        };
        Some(Self {
            is_double,
            barrier: value.try_get_u64().ok()?,
            parties: value.try_get_u32().ok().filter(|parties| *parties > 0)?,
            time: value.try_get_u64().ok()?,
            generation: value.try_get_u64().ok()?,
            is_filling: match value.try_get_u8().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            opened: value.try_get_u64().ok()?,
            note: Note::decode(value)?,
        })
    }

    /// Returns an arrival in the current generation.
    pub(super) fn arrival(&self) -> Arrival {
        Arrival {
            barrier: self.barrier,
            generation: self.generation,
        }
    }

    /// Returns the phase of a double barrier.
    pub(super) fn phase(&self) -> Option<BarrierPhase> {
        self.is_double.then(|| self.arrival().phase())
    }

    /// Returns the number of a generation as users count.
    pub(super) fn number(&self, generation: u64) -> u64 {
        if self.is_double {
            generation.div_ceil(2)
        } else {
            generation
        }
    }

    /// Returns the state after the end of its generation. If a phase of entering breaks, the phase of
    /// leaving is over too, as broken.
    pub(super) fn after(self, opened: bool) -> Self {
        let skips = !opened && self.phase() == Some(BarrierPhase::Entering);
        let ended = if skips { 2 } else { 1 };
        Self {
            generation: self.generation.saturating_add(ended),
            is_filling: false,
            opened: self.opened << ended | u64::from(opened),
            ..self
        }
    }

    /// Returns how a generation ended. `None` if it has not, or is not remembered.
    pub(super) fn ended(&self, generation: u64) -> Option<BarrierOutcome> {
        let since = self.generation.checked_sub(generation)?.checked_sub(1)?;
        (since < REMEMBERED).then(|| match self.opened >> since & 1 {
            1 => BarrierOutcome::Opened,
            _ => BarrierOutcome::Broken,
        })
    }
}

/// The participants that have arrived in one generation of one barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrivals {
    pub(super) barrier: u64,
    pub(super) generation: u64,
    pub(super) names: Vec<Name>,
    /// While a double barrier is left: the participants that have entered and not left.
    pub(super) inside: Vec<Name>,
}

/// Identifies a participant: the first bytes of its name's digest.
pub(super) type Name = [u8; 16];

pub(super) fn name(participant: &str) -> Name {
    let digest = Hash::hash(participant.as_bytes());
    std::array::from_fn(|index| digest[index])
}

impl Arrivals {
    pub(super) fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(18 + 16 * (self.names.len() + self.inside.len()));
        value.put_u64(self.barrier);
        value.put_u64(self.generation);
        for name in self.names.iter().chain(&self.inside) {
            value.put_slice(name);
        }
        if !self.inside.is_empty() {
            value.put_u16(u16::try_from(self.inside.len()).unwrap_or(u16::MAX));
        }
        value.freeze()
    }

    pub(super) fn decode(mut value: &[u8]) -> Option<Self> {
        let (barrier, generation) = (value.try_get_u64().ok()?, value.try_get_u64().ok()?);
        let (names, rest) = value.as_chunks();
        let inside = match rest {
            [] => 0,
            [high, low] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => return None,
        };
        let (arrived, inside) = names.split_at_checked(names.len().checked_sub(inside)?)?;
        (names.len() <= MAX_PARTIES as usize).then(|| Self {
            barrier,
            generation,
            names: arrived.to_vec(),
            inside: inside.to_vec(),
        })
    }
}
