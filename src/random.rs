//! Random numbers for values that must be unique across processes, from the environment of a
//! connection.
//!
//! A seeded generator is not enough: two copies of a virtual machine image continue with the same
//! seed. Pauses, and choices that only spread load, may use one.

use hbase_client::Environment;

/// Returns 128 random bits.
pub(crate) fn bits_128(environment: &dyn Environment) -> u128 {
    u128::from_ne_bytes(bytes(environment))
}

/// Returns 64 random bits.
pub(crate) fn bits_64(environment: &dyn Environment) -> u64 {
    u64::from_ne_bytes(bytes(environment))
}

fn bytes<const N: usize>(environment: &dyn Environment) -> [u8; N] {
    let mut bytes = [0; N];
    environment.fill_random(&mut bytes);
    bytes
}

/// An environment whose time stands still, and whose random bytes are all 3.
#[cfg(test)]
pub(crate) mod fixed {
    use std::time::{Duration, SystemTime};

    use hbase_client::Environment;

    /// Its wall clock, in milliseconds since 1970.
    pub(crate) const WALL_CLOCK: u64 = 1_700_000_000_000;

    #[derive(Debug)]
    pub(crate) struct Fixed;

    impl Environment for Fixed {
        fn since_boot(&self) -> Duration {
            Duration::from_secs(3_600)
        }

        fn wall_clock(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_millis(WALL_CLOCK)
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(3);
        }
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::SystemEnvironment;

    use super::{fixed::Fixed, *};

    #[test]
    fn numbers_come_from_the_environment() {
        assert_eq!(bits_64(&Fixed), 0x0303_0303_0303_0303);
        assert_eq!(bits_128(&Fixed), u128::from_ne_bytes([3; 16]));
        assert_ne!(bits_128(&SystemEnvironment), bits_128(&SystemEnvironment));
    }
}
