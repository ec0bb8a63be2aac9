//! The formats of the classes.

use super::{
    blocks::{self, Codec},
    error::CompressionError,
    streams,
};

/// The bytes that a codec makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Zlib,
    Gzip,
    Zstd,
    /// Blocks of chunks of a codec.
    Blocks(Codec),
}

/// The known classes of Hadoop and HBase.
pub(super) const CLASSES: [(&str, Format); 13] = [
    ("org.apache.hadoop.io.compress.DefaultCodec", Format::Zlib),
    ("org.apache.hadoop.io.compress.DeflateCodec", Format::Zlib),
    ("org.apache.hadoop.io.compress.GzipCodec", Format::Gzip),
    ("org.apache.hadoop.io.compress.SnappyCodec", SNAPPY),
    ("org.apache.hadoop.io.compress.Lz4Codec", LZ4),
    ("org.apache.hadoop.io.compress.ZStandardCodec", Format::Zstd),
    (
        "org.apache.hadoop.hbase.io.compress.ReusableStreamGzipCodec",
        Format::Gzip,
    ),
    (
        "org.apache.hadoop.hbase.io.compress.aircompressor.SnappyCodec",
        SNAPPY,
    ),
    ("org.apache.hadoop.hbase.io.compress.aircompressor.Lz4Codec", LZ4),
    (
        "org.apache.hadoop.hbase.io.compress.aircompressor.ZstdCodec",
        ZSTD,
    ),
    ("org.apache.hadoop.hbase.io.compress.xerial.SnappyCodec", SNAPPY),
    ("org.apache.hadoop.hbase.io.compress.lz4.Lz4Codec", LZ4),
    ("org.apache.hadoop.hbase.io.compress.zstd.ZstdCodec", ZSTD),
];

const SNAPPY: Format = Format::Blocks(Codec::Snappy);
const LZ4: Format = Format::Blocks(Codec::Lz4);
const ZSTD: Format = Format::Blocks(Codec::Zstd);

impl Format {
    pub(super) fn compress(self, cells: &[u8]) -> Result<Vec<u8>, CompressionError> {
        match self {
            Self::Zlib => streams::zlib(cells),
            Self::Gzip => streams::gzip(cells),
            Self::Zstd => Ok(streams::zstd(cells)),
            Self::Blocks(codec) => blocks::compress(cells, codec),
        }
    }

    pub(super) fn decompress(self, block: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
        match self {
            Self::Zlib => streams::of_zlib(block, limit),
            Self::Gzip => streams::of_gzip(block, limit),
            Self::Zstd => streams::of_zstd(block, limit),
            Self::Blocks(codec) => blocks::decompress(block, codec, limit),
        }
    }
}
