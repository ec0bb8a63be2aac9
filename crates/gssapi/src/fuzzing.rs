//! Entry points for the fuzz targets in `fuzz/`; not part of the API.

use crate::{error::Error, keytab::principals, library::Library, sys::Word};

/// The two statuses of a call, of four bytes each.
///
/// # Panics
///
/// Panics if the error does not show them.
pub fn status(data: &[u8]) {
    let Some((major, rest)) = data.split_first_chunk() else {
        return;
    };
    let Some((minor, _)) = rest.split_first_chunk() else {
        return;
    };
    let Ok(library) = Library::get() else {
        return;
    };
    let (major, minor) = (Word::from_be_bytes(*major), Word::from_be_bytes(*minor));
    let shown = Error::of_status(library, "cannot test", major, minor).to_string();
    assert!(
        shown.contains(&format!("(0x{major:08x}, {})", minor.cast_signed())),
        "{shown}"
    );
}

/// A keytab.
///
/// # Panics
///
/// Panics if it has more principals than bytes.
pub fn keytab(data: &[u8]) {
    if let Ok(principals) = principals(data) {
        assert!(principals.len() <= data.len(), "more principals than bytes");
    }
}
