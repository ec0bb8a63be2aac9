//! Random numbers from the operating system, for values that must be unique across processes.
//!
//! A seeded generator is not enough: two copies of a virtual machine image continue with the same
//! seed. Pauses, and choices that only spread load, may use one.

/// Returns 128 random bits.
pub(crate) fn bits_128() -> u128 {
    u128::from_ne_bytes(bytes())
}

/// Returns 64 random bits.
pub(crate) fn bits_64() -> u64 {
    u64::from_ne_bytes(bytes())
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[cfg(test)]
    if replaced::fill(&mut bytes) {
        return bytes;
    }
    if let Err(error) = getrandom::fill(&mut bytes) {
        // The standard library does the same. Without random numbers, another process could
        // generate the same ones.
        panic!("the operating system gives no random numbers: {error}");
    }
    bytes
}

/// A replacement for the random source, for tests of one thread.
#[cfg(test)]
pub(crate) mod replaced {
    use std::cell::Cell;

    thread_local! {
        static BYTE: Cell<Option<u8>> = const { Cell::new(None) };
    }

    /// Runs a closure while every random byte has this value.
    pub(crate) fn by<T>(byte: u8, work: impl FnOnce() -> T) -> T {
        let before = BYTE.replace(Some(byte));
        let done = work();
        BYTE.set(before);
        done
    }

    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        let byte = BYTE.get();
        if let Some(byte) = byte {
            bytes.fill(byte);
        }
        byte.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_unless_a_test_replaces_them() {
        assert_ne!(bits_128(), bits_128());
        assert_ne!(bits_64(), bits_64());
        assert_eq!(replaced::by(3, bits_64), 0x0303_0303_0303_0303);
        assert_ne!(bits_64(), 0x0303_0303_0303_0303);
    }
}
