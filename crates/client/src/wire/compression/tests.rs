use proptest::{collection::vec, prelude::*};
use rstest::rstest;

use crate::wire::compression::*;

const LIMIT: usize = 1 << 20;
const SNAPPY: &str = "org.apache.hadoop.io.compress.SnappyCodec";
const LZ4: &str = "org.apache.hadoop.io.compress.Lz4Codec";
const ZSTD: &str = "org.apache.hadoop.io.compress.ZStandardCodec";
const GZIP: &str = "org.apache.hadoop.io.compress.GzipCodec";
const ZLIB: &str = "org.apache.hadoop.io.compress.DefaultCodec";

fn of(class: &str) -> Compression {
    Compression::from_class(class).unwrap()
}

/// Returns cells that are compressible in parts.
fn cells(len: usize) -> Vec<u8> {
    let mut cells = vec![0; len];
    let mut rng = fastrand::Rng::with_seed(len as u64);
    for part in cells.chunks_mut(100) {
        if rng.bool() {
            rng.fill(part);
        } else {
            part.fill(rng.u8(..));
        }
    }
    cells
}

#[test]
fn each_class_reads_what_it_wrote() {
    for compression in Compression::all() {
        for len in [1, 27, 1_000, 65_535, 65_536, 65_537, 300_000] {
            let cells = cells(len);
            let block = compression.compress(&cells).unwrap();
            assert_eq!(
                compression.decompress(&block, LIMIT).unwrap(),
                cells,
                "{compression:?} {len}"
            );
            if len > 1_000 {
                assert!(
                    block.len() < len * 3 / 4,
                    "{compression:?}: {} of {len}",
                    block.len()
                );
            }
        }
    }
}

#[test]
fn constants_are_the_classes_of_hadoop() {
    for (compression, class) in [
        (Compression::ZLIB, ZLIB),
        (Compression::GZIP, GZIP),
        (Compression::SNAPPY, SNAPPY),
        (Compression::LZ4, LZ4),
        (Compression::ZSTD, ZSTD),
    ] {
        assert_eq!(compression.class(), class);
        assert_eq!(of(class), compression);
    }
}

#[test]
fn unknown_class_is_refused_with_the_known_ones() {
    let error = Compression::from_class("org.example.Codec").unwrap_err();
    assert!(error.to_string().contains("org.example.Codec"), "{error}");
    assert!(error.hint().unwrap().contains(GZIP), "{error}");
}

#[rstest]
#[case::literal_of_snappy(SNAPPY, b"\0\0\0\x05\0\0\0\x07\x05\x10hello", b"hello")]
#[case::two_chunks_of_a_block(SNAPPY, b"\0\0\0\x03\0\0\0\x04\x02\x04ab\0\0\0\x03\x01\x00c", b"abc")]
#[case::two_blocks(LZ4, b"\0\0\0\x01\0\0\0\x02\x10a\0\0\0\x02\0\0\0\x03\x20bc", b"abc")]
#[case::no_cells_of_java(LZ4, b"\0\0\0\0", b"")]
fn blocks_of_java_are_read(#[case] class: &str, #[case] block: &[u8], #[case] cells: &[u8]) {
    assert_eq!(of(class).decompress(block, LIMIT).unwrap(), cells);
}

#[rstest]
#[case::claims_4_gib(SNAPPY, b"\xff\xff\xff\xff\0\0\0\x02\x01\x00", "a negative length")]
#[case::claims_2_gib(LZ4, b"\x7f\xff\xff\xff\0\0\0\x02\x10a", "more than 1048576 bytes")]
#[case::chunk_of_4_gib(LZ4, b"\0\0\0\x01\xff\xff\xff\xff\x10a", "a negative length")]
#[case::chunk_of_2_gib(LZ4, b"\0\0\0\x01\x7f\xff\xff\xff\x10a", "end too early")]
#[case::chunk_of_nothing(LZ4, b"\0\0\0\x01\0\0\0\0\0\0\0\x02\x10a", "not compressed as agreed")]
#[case::chunk_of_no_snappy(SNAPPY, b"\0\0\0\x01\0\0\0\0", "not compressed as agreed")]
#[case::chunk_without_cells(SNAPPY, b"\0\0\0\x01\0\0\0\x01\0", "a chunk has no cells")]
#[case::chunk_that_claims_1_gib(
    SNAPPY,
    b"\0\x0f\xff\xff\0\0\0\x07\x80\x80\x80\x80\x04\x00a",
    "a chunk is longer than its block"
)]
#[case::chunk_that_claims_more_than_it_can_have(
    SNAPPY,
    b"\0\x0f\xff\xff\0\0\0\x05\x80\x80\x10\x00a",
    "a chunk is longer than its block"
)]
#[case::chunk_longer_than_its_block(
    SNAPPY,
    b"\0\0\0\x01\0\0\0\x04\x02\x04ab",
    "a chunk is longer than its block"
)]
#[case::lz4_longer_than_its_block(LZ4, b"\0\0\0\x01\0\0\0\x03\x20ab", "not compressed as agreed")]
#[case::block_without_chunks(SNAPPY, b"\0\0\0\x05", "end too early")]
#[case::cells_after_no_cells(LZ4, b"\0\0\0\0\0\0\0\x01\0\0\0\x02\x10a", "10 bytes follow")]
#[case::other_format(ZLIB, b"\0\0\0\x05\0\0\0\x07\x05\x10hello", "not compressed as agreed")]
#[case::other_stream(GZIP, b"\x78\x01\x03\0\0\0\0\x01\0\0\0\0", "not compressed as agreed")]
#[case::no_magic_of_zstd(ZSTD, b"\0\0\0\x05\0\0\0\x07\x05\x10hello", "not compressed as agreed")]
#[case::window_of_gibibytes(ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", "not compressed as agreed")]
fn hostile_block_is_refused(#[case] class: &str, #[case] block: &[u8], #[case] why: &str) {
    let error = of(class).decompress(block, LIMIT).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn truncated_and_trailing_bytes_are_refused() {
    for compression in Compression::all() {
        let block = compression.compress(&cells(700)).unwrap();
        for len in 1..block.len() {
            let error = compression.decompress(&block[..len], LIMIT).unwrap_err();
            assert!(
                matches!(error, CompressionError::Truncated | CompressionError::Corrupt(_)),
                "{compression:?} {len}: {error}"
            );
        }
        for more in [&b"\0"[..], b"\0\0\0", b"\x01\x02\x03\x04\x05"] {
            let longer = [&block[..], more].concat();
            compression.decompress(&longer, LIMIT).unwrap_err();
        }
    }
}

#[test]
fn bomb_ends_at_the_limit() {
    let zeros = vec![0; 4 << 20];
    for compression in Compression::all() {
        let bomb = compression.compress(&zeros).unwrap();
        assert_eq!(
            compression.decompress(&bomb, LIMIT),
            Err(CompressionError::TooLarge { limit: LIMIT }),
            "{compression:?}"
        );
        let exact = compression.compress(&zeros[..LIMIT]).unwrap();
        assert_eq!(compression.decompress(&exact, LIMIT).unwrap(), zeros[..LIMIT]);
        assert_eq!(
            compression.decompress(&exact, LIMIT - 1),
            Err(CompressionError::TooLarge { limit: LIMIT - 1 }),
            "{compression:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_cells_are_read_again(cells in vec(0u8..4, 1..3_000)) {
        for compression in Compression::all() {
            let block = compression.compress(&cells).unwrap();
            prop_assert_eq!(&compression.decompress(&block, LIMIT).unwrap()[..], &cells[..]);
        }
    }

    #[test]
    fn changed_byte_is_an_error_or_other_cells_within_the_limit(at: usize, byte: u8) {
        for compression in Compression::all() {
            let mut block = compression.compress(&cells(900)).unwrap().to_vec();
            let at = at % block.len();
            block[at] = byte;
            if let Ok(cells) = compression.decompress(&block, LIMIT) {
                prop_assert!(cells.len() <= LIMIT);
            }
        }
    }
}
