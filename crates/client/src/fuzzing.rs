//! All decoders of input from peers, files and users, with one entry point each. The fuzz targets
//! in `fuzz/` call these, and so do the tests, with the files of `fuzz/corpus/`. Not part of the
//! API.

use bytes::{Bytes, BytesMut};
#[cfg(feature = "fuzzing")]
pub use hbase_security::fuzzing::*;
#[cfg(feature = "fuzzing")]
pub use hbase_zookeeper::fuzzing::zookeeper_frame;
use prost::Message;

use crate::{
    cluster::parse_meta_row,
    config::{Config, ConnectionUri},
    model::parse_bytes_binary,
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        compression::Compression,
        convert,
        frame::{RemoteFault, ResponseDecoder},
        magic::decode_stored,
        multi::MutationsResponse,
        pb,
        znode::decode_znode,
    },
};

/// Small, so that a frame above the limit is found soon.
const LIMIT: usize = 1 << 16;

/// A stream of responses. The first byte determines the size of the pieces in which it arrives.
pub fn response_stream(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else {
        return;
    };
    let mut decoder = ResponseDecoder::new(LIMIT);
    let mut buf = BytesMut::new();
    for piece in stream.chunks(usize::from(*piece) + 1) {
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(frame)) => {
                    if let Ok(body) = frame.outcome {
                        cells(body.cells);
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(
            buf.capacity() <= 4 * (stream.len() + LIMIT),
            "allocated by announcement"
        );
    }
}

/// A block of cells.
pub fn cell_block(data: &[u8]) {
    cells(Bytes::copy_from_slice(data));
}

fn cells(block: Bytes) {
    let len = block.len();
    for codec in [Codec::KeyValue, Codec::KeyValueWithTags] {
        let mut read = 0;
        for cell in CellBlockDecoder::new(block.clone(), codec) {
            let Ok(cell) = cell else { break };
            read += cell.size();
            assert!(read < len, "more was read than there is");
        }
    }
}

/// A compressed block of cells. The first byte determines its compression.
pub fn compressed_block(data: &[u8]) {
    let Some((which, block)) = data.split_first() else {
        return;
    };
    let Some(compression) = Compression::all().nth(usize::from(*which)) else {
        return;
    };
    if let Ok(read) = compression.decompress(block, LIMIT) {
        assert!(read.len() <= LIMIT, "more was read than is accepted");
        let block = compression.compress(&read);
        let again = block.and_then(|block| compression.decompress(&block, LIMIT));
        assert_eq!(again, Ok(read), "not the same when read again");
    }
}

/// The data of a znode.
pub fn znode(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let _ = decode_znode::<pb::MetaRegionServer>(data.clone());
    let _ = decode_znode::<pb::Master>(data.clone());
    let _ = decode_znode::<pb::ClusterId>(data);
}

/// The exception of a response header, and of one action of a `Multi`.
pub fn exception(data: &[u8]) {
    if let Ok(exception) = pb::ExceptionResponse::decode(data) {
        let fault = RemoteFault::from(exception);
        assert!(fault.trace.contains(&fault.message));
    }
    if let Ok(pair) = pb::NameBytesPair::decode(data) {
        let fault = RemoteFault::of_action(&pair);
        assert!(fault.trace.contains(&fault.message));
    }
}

/// A `regioninfo` of `hbase:meta`.
pub fn region_info(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    if let Ok(region) = decode_stored::<pb::RegionInfo>(data.clone()) {
        let _ = convert::region_info(data, region);
    }
}

/// A row of `hbase:meta`, and the replicas that it names.
pub fn meta_row(data: &[u8]) {
    let Ok(result) = pb::Result::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut no_block = CellBlockDecoder::new(Bytes::new(), Codec::KeyValue);
    let row = convert::row(result, &mut no_block).ok().flatten();
    if let Some(Ok(Some(region))) = row.map(parse_meta_row) {
        let location = region.location(tokio::time::Instant::now());
        assert_eq!(location.is_some(), region.server.is_some());
        for replica in location.iter().flat_map(|location| location.replicas()) {
            assert_ne!(replica.region.name, region.region.name);
        }
    }
}

/// Descriptors of tables, as the master sends them.
pub fn descriptors(data: &[u8]) {
    if let Ok(schema) = pb::TableSchema::decode(Bytes::copy_from_slice(data))
        && let Ok(descriptor) = convert::table_descriptor(schema)
    {
        let again = convert::table_descriptor(convert::table_schema(&descriptor));
        assert_eq!(again.ok(), Some(descriptor));
    }
}

/// An answer to `Scan`.
pub fn scan_response(data: &[u8]) {
    message::<pb::ScanResponse>(data);
    // The message, and the block of cells after it.
    let at = data.first().map_or(0, |at| data.len().min(1 + usize::from(*at)));
    let (answer, block) = data.split_at(at);
    if let Ok(mut answer) = pb::ScanResponse::decode(answer.get(1..).unwrap_or_default()) {
        let block = CellBlockDecoder::new(Bytes::copy_from_slice(block), Codec::KeyValueWithTags);
        let _ = convert::scanned_rows(&mut answer, block);
    }
}

/// An `hbase-site.xml`.
pub fn hbase_site(data: &[u8]) {
    if let Ok(xml) = std::str::from_utf8(data) {
        let _ = Config::from_hbase_site(xml);
    }
}

/// A connection URI. A valid one is written so that it parses to the same value.
pub fn connection_uri(data: &[u8]) {
    if let Ok(Ok(address)) = std::str::from_utf8(data).map(str::parse::<ConnectionUri>) {
        assert_eq!(address.to_string().parse::<ConnectionUri>().ok(), Some(address));
    }
}

/// Bytes in a user's notation.
pub fn bytes_binary(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = parse_bytes_binary(text);
    }
}

/// An answer to `Multi`.
pub fn multi_response(data: &[u8]) {
    message::<pb::MultiResponse>(data);
    message::<MutationsResponse>(data);
}

/// An answer to `ExecService`, and the answer to `MutateRows` inside it.
pub fn mutate_rows_response(data: &[u8]) {
    message::<pb::MutateRowsResponse>(data);
    if let Ok(response) = pb::CoprocessorServiceResponse::decode(data) {
        message::<pb::MutateRowsResponse>(response.value.value());
    }
}

/// Checks that a valid message is encoded so that it decodes to the same value.
fn message<M: Message + Default + PartialEq>(data: &[u8]) {
    if let Ok(read) = M::decode(Bytes::copy_from_slice(data)) {
        let again = M::decode(read.encode_to_vec().as_slice());
        assert!(
            again.is_ok_and(|again| again == read),
            "not the same when read again"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    type Target = fn(&[u8]);

    #[cfg(feature = "fuzzing")]
    const OF_SECURITY: &[(&str, Target)] = hbase_security::fuzzing::TARGETS;
    #[cfg(not(feature = "fuzzing"))]
    const OF_SECURITY: &[(&str, Target)] = &[];

    fn targets() -> impl Iterator<Item = &'static (&'static str, Target)> {
        TARGETS.iter().chain(OF_SECURITY)
    }

    const TARGETS: &[(&str, Target)] = &[
        ("response_stream", response_stream),
        ("cell_block", cell_block),
        ("compressed_block", compressed_block),
        ("znode", znode),
        #[cfg(feature = "fuzzing")]
        ("zookeeper_frame", zookeeper_frame),
        ("exception", exception),
        ("region_info", region_info),
        ("meta_row", meta_row),
        ("descriptors", descriptors),
        ("scan_response", scan_response),
        ("multi_response", multi_response),
        ("mutate_rows_response", mutate_rows_response),
        ("hbase_site", hbase_site),
        ("connection_uri", connection_uri),
        ("bytes_binary", bytes_binary),
    ];

    #[test]
    fn the_corpus_is_read_or_refused_without_a_panic() {
        let fuzz = Path::new(env!("REPOSITORY")).join("fuzz");
        for (name, target) in targets() {
            assert!(
                fuzz.join("fuzz_targets")
                    .join(name)
                    .with_extension("rs")
                    .is_file(),
                "no fuzz target {name}"
            );
            let folder = fuzz.join("corpus").join(name);
            let mut files = 0;
            for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            {
                target(&fs::read(entry.unwrap().path()).unwrap());
                files += 1;
            }
            assert!(files > 0, "{} is empty", folder.display());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(data in vec(any::<u8>(), 0..500)) {
            for (_, target) in targets() {
                target(&data);
            }
        }
    }
}
