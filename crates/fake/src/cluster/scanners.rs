//! The scanners of a region server.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::region::Scanner;

/// The open scanners of a server.
#[derive(Debug)]
pub(super) struct Scanners {
    pub(super) open: BTreeMap<u64, Open>,
    pub(super) next: u64,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) region: Bytes,
    /// The opening of the region that the scanner belongs to.
    pub(super) opening: u64,
    pub(super) scanner: Scanner,
    pub(super) next_call: u64,
    pub(super) expires: u64,
}

impl Scanners {
    pub(super) fn new(start_code: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            next: start_code << 16,
        }
    }

    /// Returns the region of a scanner.
    pub(super) fn region(&self, scanner: u64) -> Option<Bytes> {
        self.open.get(&scanner).map(|open| open.region.clone())
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}
