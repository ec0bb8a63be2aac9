//! Compressed blocks of cells.
//!
//! Client and server agree on the Java class of a codec of Hadoop's. Most codecs exist in several
//! classes, which need different libraries on the server. Not all classes of one codec have the
//! same format, so the class determines it.

#[cfg(feature = "compression")]
mod blocks;
mod error;
#[cfg(feature = "compression")]
mod formats;
#[cfg(feature = "compression")]
mod streams;

use bytes::Bytes;

pub(crate) use self::error::CompressionError;
#[cfg(feature = "compression")]
use self::formats::{CLASSES, Format};
use crate::error::{Error, Result};

/// The compression of the cells that client and servers send each other.
///
/// A server needs the library of the class. Each one has `GZIP` and `ZLIB`.
/// [`from_class`](Self::from_class) has the other classes that this client knows.
///
/// # Example
///
/// ```
/// use hbase_client::{Compression, Config};
///
/// # #[cfg(feature = "compression")] {
/// let config = Config::from_uri("hbase+rpc://127.0.0.1:16000").unwrap()
///     .with_compression(Some(Compression::GZIP));
/// assert_eq!(config.compression().unwrap().class(), "org.apache.hadoop.io.compress.GzipCodec");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    class: &'static str,
    format: Format,
}

/// No format is compiled in.
#[cfg(not(feature = "compression"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {}

#[cfg(not(feature = "compression"))]
impl Format {
    fn compress(self, _: &[u8]) -> Result<Vec<u8>, CompressionError> {
        match self {}
    }

    fn decompress(self, _: &[u8], _: usize) -> Result<Vec<u8>, CompressionError> {
        match self {}
    }
}

#[cfg(not(feature = "compression"))]
const CLASSES: [(&str, Format); 0] = [];

#[cfg(feature = "compression")]
#[cfg_attr(docsrs, doc(cfg(feature = "compression")))]
impl Compression {
    /// zlib: Hadoop's `DefaultCodec`. Each server has it.
    pub const ZLIB: Self = Self::known(0);
    /// gzip: Hadoop's `GzipCodec`. Each server has it.
    pub const GZIP: Self = Self::known(2);
    /// Snappy: Hadoop's `SnappyCodec`.
    pub const SNAPPY: Self = Self::known(3);
    /// LZ4: Hadoop's `Lz4Codec`.
    pub const LZ4: Self = Self::known(4);
    /// Zstandard: Hadoop's `ZStandardCodec`.
    pub const ZSTD: Self = Self::known(5);

    const fn known(index: usize) -> Self {
        let (class, format) = CLASSES[index];
        Self { class, format }
    }
}

impl Compression {
    /// Returns the compression of a Java class. This client knows the classes of
    ///
    /// | package | classes |
    /// |---|---|
    /// | `org.apache.hadoop.io.compress` | `DefaultCodec`, `DeflateCodec`, `GzipCodec`, `SnappyCodec`, `Lz4Codec`, `ZStandardCodec` |
    /// | `org.apache.hadoop.hbase.io.compress` | `ReusableStreamGzipCodec`, `aircompressor.SnappyCodec`, `aircompressor.Lz4Codec`, `aircompressor.ZstdCodec`, `xerial.SnappyCodec`, `lz4.Lz4Codec`, `zstd.ZstdCodec` |
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for any other class, and if the
    /// feature `compression` is not compiled in.
    pub fn from_class(class: &str) -> Result<Self> {
        if !cfg!(feature = "compression") {
            return Err(Error::invalid_config("this build can't compress cells")
                .with_hint("build it with the feature compression"));
        }
        let known = CLASSES.iter().find(|(known, _)| *known == class);
        let known = known.map(|&(class, format)| Self { class, format });
        known.ok_or_else(|| {
            let known: Vec<_> = CLASSES.iter().map(|(class, _)| *class).collect();
            Error::invalid_config(format!("unknown compressor {class:?}"))
                .with_hint(format!("use one of {}", known.join(", ")))
        })
    }

    /// Returns the Java class, which the server loads.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.class
    }

    /// Returns the compressions of all classes.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        CLASSES.iter().map(|&(class, format)| Self { class, format })
    }

    /// Compresses a block of cells.
    pub(crate) fn compress(self, cells: &[u8]) -> Result<Bytes, CompressionError> {
        self.format.compress(cells).map(Bytes::from)
    }

    /// Decompresses a block of cells of at most `limit` bytes.
    pub(crate) fn decompress(self, block: &[u8], limit: usize) -> Result<Bytes, CompressionError> {
        self.format.decompress(block, limit).map(Bytes::from)
    }
}

#[cfg(test)]
#[cfg(feature = "compression")]
mod tests;
