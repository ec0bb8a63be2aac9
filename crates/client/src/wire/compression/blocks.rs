//! Hadoop's framing of codecs that compress pieces of limited size (`BlockCompressorStream`).
//!
//! ```text
//! block: int32 length of the cells in it, chunks until it has this many
//! chunk: int32 length, compressed bytes
//! ```

use bytes::{Buf, BufMut};
use snap::raw;

use super::{
    error::CompressionError,
    streams::{corrupt, of_zstd, zstd},
};

/// A codec of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Snappy,
    Lz4,
    Zstd,
}

/// The number of bytes that are compressed into one chunk. A server decompresses a chunk into a
/// buffer of 256 KiB, unless it is set to less.
const CHUNK: usize = 64 << 10;

/// The most bytes that one byte of a chunk can stand for. Snappy copies at most 64 with three.
const SNAPPY_GAIN: usize = 22;
/// A byte extends the length of a match by 255 at most.
const LZ4_GAIN: usize = 255;

/// Compresses cells, a block of one chunk at a time.
pub(super) fn compress(cells: &[u8], codec: Codec) -> Result<Vec<u8>, CompressionError> {
    let mut snappy = raw::Encoder::new();
    let mut blocks = Vec::with_capacity(cells.len() / 2);
    for cells in cells.chunks(CHUNK) {
        let chunk = match codec {
            Codec::Snappy => snappy.compress_vec(cells).map_err(corrupt)?,
            Codec::Lz4 => lz4_flex::block::compress(cells),
            Codec::Zstd => zstd(cells),
        };
        let len = i32::try_from(chunk.len()).map_err(corrupt)?;
        // At most CHUNK, which fits.
        blocks.put_i32(cells.len() as i32);
        blocks.put_i32(len);
        blocks.put_slice(&chunk);
    }
    Ok(blocks)
}

/// Decompresses cells of at most `limit` bytes. The room grows with the compressed bytes, not with
/// the announced length alone.
pub(super) fn decompress(mut blocks: &[u8], codec: Codec, limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut cells = Vec::new();
    let mut filled = 0;
    while !blocks.is_empty() {
        let len = length(&mut blocks)?;
        if len == 0 {
            // Java writes such a block for no cells, and ends there when it reads it.
            match blocks.len() {
                0 => break,
                rest => return Err(CompressionError::Trailing(rest)),
            }
        }
        if len > limit - filled {
            return Err(CompressionError::TooLarge { limit });
        }
        let end = filled + len;
        while filled < end {
            let len = length(&mut blocks)?;
            let (chunk, rest) = blocks.split_at_checked(len).ok_or(CompressionError::Truncated)?;
            blocks = rest;
            let written = decompress_chunk(chunk, codec, &mut cells, filled, end)?;
            if written == 0 {
                return Err(CompressionError::Contradiction("a chunk has no cells"));
            }
            filled += written;
        }
    }
    cells.truncate(filled);
    Ok(cells)
}

/// Decompresses a chunk to `cells[filled..]`, at most up to `end`. Returns the number of bytes.
fn decompress_chunk(
    chunk: &[u8],
    codec: Codec,
    cells: &mut Vec<u8>,
    filled: usize,
    end: usize,
) -> Result<usize, CompressionError> {
    let left = end - filled;
    match codec {
        Codec::Snappy => {
            let len = raw::decompress_len(chunk).map_err(corrupt)?;
            if len > left || len > chunk.len().saturating_mul(SNAPPY_GAIN) {
                return Err(CompressionError::Contradiction(
                    "a chunk is longer than its block",
                ));
            }
            let mut snappy = raw::Decoder::new();
            snappy
                .decompress(chunk, room(cells, filled, len))
                .map_err(corrupt)
        }
        Codec::Lz4 => {
            let len = left.min(chunk.len().saturating_mul(LZ4_GAIN));
            lz4_flex::block::decompress_into(chunk, room(cells, filled, len)).map_err(corrupt)
        }
        Codec::Zstd => match of_zstd(chunk, left) {
            Ok(part) => {
                room(cells, filled, part.len()).copy_from_slice(&part);
                Ok(part.len())
            }
            Err(CompressionError::TooLarge { .. }) => Err(CompressionError::Contradiction(
                "a chunk is longer than its block",
            )),
            Err(error) => Err(error),
        },
    }
}

/// Returns `cells[filled..][..len]`, and lengthens them if they end earlier.
fn room(cells: &mut Vec<u8>, filled: usize, len: usize) -> &mut [u8] {
    if cells.len() < filled + len {
        cells.resize(filled + len, 0);
    }
    &mut cells[filled..filled + len]
}

fn length(blocks: &mut &[u8]) -> Result<usize, CompressionError> {
    let len = blocks.try_get_i32().map_err(|_| CompressionError::Truncated)?;
    usize::try_from(len).map_err(|_| CompressionError::Contradiction("a negative length"))
}
