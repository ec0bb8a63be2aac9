//! Entry points for the fuzz targets in `fuzz/`; not part of the API.

/// A fuzz target.
pub type Target = fn(&[u8]);

/// The targets of this build, by name.
pub const TARGETS: &[(&str, Target)] = &[
    #[cfg(feature = "tls")]
    ("key_store", key_store),
];

/// A key store or trust store, with a password and without one, which leaves it unchecked.
#[cfg(feature = "tls")]
pub fn key_store(data: &[u8]) {
    for password in ["changeit", ""] {
        crate::tls::read_all(data, password);
    }
}
