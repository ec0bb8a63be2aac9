//! Random numbers of the operating system: for everything that must differ from what any other
//! process ever makes.
//!
//! A generator with a seed of its own won't do: two images of one virtual machine go on with the
//! same seed. Pauses, and choices that only spread load, may have one.

/// 128 random bits.
pub(crate) fn bits_128() -> u128 {
    u128::from_ne_bytes(bytes())
}

/// 64 random bits.
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
        // As the standard library does. What is not random would be another process's too.
        panic!("the operating system gives no random numbers: {error}");
    }
    bytes
}

/// Another source, for tests of one thread.
#[cfg(test)]
pub(crate) mod replaced {
    use std::cell::Cell;

    thread_local! {
        static BYTE: Cell<Option<u8>> = const { Cell::new(None) };
    }

    /// Does something while all random bytes are this one.
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
