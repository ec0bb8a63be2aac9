//! The limit of a scan's rows.

/// The number of rows that may still be returned; `None` for any number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(pub(super) Option<u64>);

impl Limit {
    /// Counts a row. Returns whether the limit allows it.
    pub(super) fn count(&mut self) -> bool {
        match &mut self.0 {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    pub(super) const fn is_none(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn is_reached(self) -> bool {
        self.0 == Some(0)
    }
}
