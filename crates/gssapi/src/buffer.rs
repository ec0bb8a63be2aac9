//! Bytes that the library allocated.

use std::{fmt, ops::Deref, slice};

use crate::{library::Library, sys::RawBuffer};

/// Bytes that the library allocated, and which it frees when this is dropped.
pub struct Buffer {
    library: &'static Library,
    raw: RawBuffer,
}

// SAFETY: the memory belongs to this value alone, and the library frees it on any thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared reference only reads the memory.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) const fn new(library: &'static Library) -> Self {
        Self {
            library,
            raw: RawBuffer::empty(),
        }
    }

    /// Returns the place for an output of the library. The library must have it only once.
    pub(crate) fn output(&mut self) -> *mut RawBuffer {
        &raw mut self.raw
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.raw.value.is_null() {
            return &[];
        }
        // SAFETY: the library has set the pointer to memory of this length, and frees it only when
        // this value is dropped.
        unsafe { slice::from_raw_parts(self.raw.value.cast(), self.raw.length) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or was set by the library, and nothing refers to it any more.
        unsafe { (self.library.gss_release_buffer)(&raw mut minor, &raw mut self.raw) };
    }
}

impl fmt::Debug for Buffer {
    /// Writes the length alone, because tokens and messages are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
