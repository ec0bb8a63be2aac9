//! Why a block is not read.

/// Why cells cannot be decompressed, or compressed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(feature = "compression"),
    expect(dead_code, reason = "only formats make errors")
)]
pub(crate) enum CompressionError {
    #[error("the compressed cells end too early")]
    Truncated,
    #[error("{0} bytes follow the compressed cells")]
    Trailing(usize),
    #[error("the cells have more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the lengths of compressed cells contradict each other: {0}")]
    Contradiction(&'static str),
    #[error("the cells are not compressed as agreed: {0}")]
    Corrupt(Box<str>),
}
