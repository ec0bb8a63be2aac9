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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hbase_client::SystemEnvironment;

    use super::*;

    /// Every random byte is 3.
    #[derive(Debug)]
    struct Threes;

    impl Environment for Threes {
        fn since_boot(&self) -> Duration {
            SystemEnvironment.since_boot()
        }

        fn wall_clock(&self) -> SystemTime {
            SystemEnvironment.wall_clock()
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(3);
        }
    }

    #[test]
    fn numbers_come_from_the_environment() {
        assert_eq!(bits_64(&Threes), 0x0303_0303_0303_0303);
        assert_eq!(bits_128(&Threes), u128::from_ne_bytes([3; 16]));
        assert_ne!(bits_128(&SystemEnvironment), bits_128(&SystemEnvironment));
    }
}
