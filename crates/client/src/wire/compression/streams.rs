//! Codecs whose bytes are one stream: zlib, gzip, Zstandard.

use std::io::{self, Read, Write};

use flate2::{Decompress, FlushDecompress, Status, bufread::GzDecoder, write};
use ruzstd::{
    decoding::StreamingDecoder,
    encoding::{CompressionLevel, compress_to_vec},
};

use super::error::CompressionError;

/// The room for decompressed bytes to begin with, and the least that is added.
const ROOM: usize = 16 << 10;

/// The window that each decoder of Zstandard should accept (RFC 8878, 3.1.1.1.2), even if the cells
/// are shorter. A larger one is accepted if they may be as long.
const WINDOW: usize = 8 << 20;

/// A network is faster than a higher level.
const LEVEL: flate2::Compression = flate2::Compression::fast();

pub(super) fn zlib(cells: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let mut stream = write::ZlibEncoder::new(Vec::new(), LEVEL);
    stream.write_all(cells).map_err(corrupt)?;
    stream.finish().map_err(corrupt)
}

pub(super) fn gzip(cells: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let mut stream = write::GzEncoder::new(Vec::new(), LEVEL);
    stream.write_all(cells).map_err(corrupt)?;
    stream.finish().map_err(corrupt)
}

pub(super) fn zstd(cells: &[u8]) -> Vec<u8> {
    compress_to_vec(cells, CompressionLevel::Fastest)
}

/// Not by `ZlibDecoder`, which reports the end of a truncated stream as that of a whole one.
pub(super) fn of_zlib(block: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut stream = Decompress::new(true);
    let read = |stream: &Decompress| usize::try_from(stream.total_in()).unwrap_or(block.len());
    let mut cells = Vec::new();
    loop {
        if cells.len() > limit {
            return Err(CompressionError::TooLarge { limit });
        }
        if cells.len() == cells.capacity() {
            let room = cells.len().max(ROOM).min(limit - cells.len() + 1);
            cells.reserve_exact(room);
        }
        let status = stream
            .decompress_vec(&block[read(&stream)..], &mut cells, FlushDecompress::None)
            .map_err(corrupt)?;
        let rest = block.len() - read(&stream);
        match status {
            Status::StreamEnd if rest > 0 => return Err(CompressionError::Trailing(rest)),
            Status::StreamEnd if cells.len() > limit => {}
            Status::StreamEnd => return Ok(cells),
            Status::Ok | Status::BufError if cells.len() < cells.capacity() => {
                return Err(CompressionError::Truncated);
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

pub(super) fn of_gzip(block: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut stream = GzDecoder::new(block);
    let cells = read_all(&mut stream, limit)?;
    nothing_after(stream.into_inner()).map(|()| cells)
}

pub(super) fn of_zstd(mut block: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let window = limit.max(WINDOW) as u64;
    let stream = StreamingDecoder::new_with_max_window_size(&mut block, window);
    let cells = read_all(stream.map_err(corrupt)?, limit)?;
    nothing_after(block).map(|()| cells)
}

/// Reads a stream of at most `limit` bytes to its end.
fn read_all(stream: impl Read, limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut cells = Vec::new();
    let most = (limit as u64).saturating_add(1);
    match stream.take(most).read_to_end(&mut cells) {
        Ok(read) if read > limit => Err(CompressionError::TooLarge { limit }),
        Ok(_) => Ok(cells),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CompressionError::Truncated),
        Err(error) => Err(corrupt(error)),
    }
}

fn nothing_after(rest: &[u8]) -> Result<(), CompressionError> {
    match rest.len() {
        0 => Ok(()),
        len => Err(CompressionError::Trailing(len)),
    }
}

pub(super) fn corrupt(error: impl ToString) -> CompressionError {
    CompressionError::Corrupt(error.to_string().into())
}
