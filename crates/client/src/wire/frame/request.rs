//! The encoding of requests.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::FrameError;
use crate::wire::{convert, pb};

/// An encoded request: `head` and then `cells`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestFrame {
    /// Length, header and parameter.
    pub(crate) head: Bytes,
    /// The block of cells as it was passed; often empty.
    pub(crate) cells: Bytes,
}

#[cfg(test)]
impl RequestFrame {
    /// Returns the number of bytes to write.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.cells.len()
    }
}

/// The optional parts of a request's header.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestOptions<'a> {
    /// The server drops the call without any answer after it, so the caller needs a timer of its
    /// own.
    pub(crate) timeout: Duration,
    pub(crate) priority: Option<u32>,
    /// The trace that the server continues.
    pub(crate) trace_info: Option<pb::RpctInfo>,
    /// Names and values that coprocessors of the server can read.
    pub(crate) attributes: &'a [(String, Bytes)],
}

/// Encodes a call. Without cells (`cells` empty) the header has no cell block. Returns an error if
/// the request would be longer than `limit`.
pub(crate) fn encode_request(
    call_id: u32,
    method: &'static str,
    param: &impl Message,
    cells: Bytes,
    options: RequestOptions<'_>,
    limit: usize,
) -> Result<RequestFrame, FrameError> {
    // A server reads lengths as signed 32-bit numbers.
    let limit = limit.min(i32::MAX as usize);
    let too_large = |len| FrameError::RequestTooLarge { len, limit };
    let cells_len = u32::try_from(cells.len()).map_err(|_| too_large(cells.len()))?;

    let header = pb::RequestHeader {
        call_id: Some(call_id),
        method_name: Some(method.to_owned()),
        request_param: Some(true),
        cell_block_meta: (cells_len > 0).then_some(pb::CellBlockMeta {
            length: Some(cells_len),
        }),
        priority: options.priority,
        timeout: Some(milliseconds(options.timeout)),
        trace_info: options.trace_info,
        attribute: convert::header_attributes(options.attributes),
    };
    let delimited = |len| prost::length_delimiter_len(len) + len;
    let len = delimited(header.encoded_len())
        .saturating_add(delimited(param.encoded_len()))
        .saturating_add(cells.len());
    let announced = u32::try_from(len)
        .ok()
        .filter(|_| len <= limit)
        .ok_or_else(|| too_large(len))?;

    let mut head = BytesMut::with_capacity(4 + len - cells.len());
    head.put_u32(announced);
    // Neither fails, because a `BytesMut` grows.
    header
        .encode_length_delimited(&mut head)
        .map_err(|_| too_large(len))?;
    param
        .encode_length_delimited(&mut head)
        .map_err(|_| too_large(len))?;
    Ok(RequestFrame {
        head: head.freeze(),
        cells,
    })
}

/// Returns whole milliseconds: at least 1, because 0 would mean no deadline, and at most the
/// largest signed number, because a server reads a negative one as none.
fn milliseconds(timeout: Duration) -> u32 {
    let most = i32::MAX as u32;
    u32::try_from(timeout.as_millis()).map_or(most, |millis| millis.clamp(1, most))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::MAX_FRAME, super::server_side::decode_request, *};

    const MINUTE: RequestOptions<'static> = RequestOptions {
        timeout: Duration::from_secs(60),
        priority: None,
        trace_info: None,
        attributes: &[],
    };

    fn get(region: &'static str, row: &'static str) -> pb::GetRequest {
        pb::GetRequest {
            region: pb::RegionSpecifier {
                r#type: pb::region_specifier::RegionSpecifierType::RegionName.into(),
                value: region.into(),
            },
            get: pb::Get {
                row: row.into(),
                ..Default::default()
            },
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let frame = encode_request(7, "Get", &get("t", "r"), Bytes::new(), MINUTE, MAX_FRAME).unwrap();
        let wanted = [
            // 1 + 13 + 1 + 12 bytes follow
            b"\x00\x00\x00\x1b".as_slice(),
            // header: 1 call_id 7, 3 method_name, 4 request_param, 7 timeout 60000
            b"\x0d\x08\x07\x1a\x03Get\x20\x01\x38\xe0\xd4\x03",
            // parameter: 1 region { 1 type 1, 2 value }, 2 get { 1 row }
            b"\x0c\x0a\x05\x08\x01\x12\x01t\x12\x03\x0a\x01r",
        ]
        .concat();
        assert_eq!(frame.head, wanted);
        assert!(frame.cells.is_empty());
        assert_eq!(frame.len(), 31);
    }

    #[test]
    fn cells_are_announced_and_not_copied() {
        let cells = Bytes::from(vec![7; 1000]);
        let frame = encode_request(
            1,
            "Multi",
            &pb::MultiRequest::default(),
            cells.clone(),
            RequestOptions {
                priority: Some(200),
                ..MINUTE
            },
            MAX_FRAME,
        )
        .unwrap();
        assert_eq!(frame.cells.as_ptr(), cells.as_ptr());
        let (header, param, found) = decode_request(&frame);
        assert_eq!(header.cell_block_meta.unwrap().length(), 1000);
        assert_eq!(header.priority, Some(200));
        assert_eq!((param.len(), found), (0, cells));
    }

    #[test]
    fn a_request_may_be_as_long_as_the_limit_and_no_longer() {
        let get = get("t", "r");
        let request = |limit| encode_request(7, "Get", &get, Bytes::from_static(b"cells"), MINUTE, limit);
        let len = request(MAX_FRAME).unwrap().len() - 4;
        assert!(request(len).is_ok());
        match request(len - 1) {
            Err(FrameError::RequestTooLarge { len: found, limit }) => {
                assert_eq!((found, limit), (len, len - 1));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_time_out_is_never_sent_as_none() {
        assert_eq!(milliseconds(Duration::ZERO), 1);
        assert_eq!(milliseconds(Duration::from_micros(10)), 1);
        assert_eq!(milliseconds(MINUTE.timeout), 60_000);
        assert_eq!(milliseconds(Duration::from_secs(3_000_000)), i32::MAX as u32);
        assert_eq!(milliseconds(Duration::MAX), i32::MAX as u32);
    }

    proptest! {
        #[test]
        fn a_server_reads_what_was_written(
            call_id: u32,
            value: Vec<u8>,
            cells: Vec<u8>,
            priority: Option<u32>,
            timeout in 1..100_000_u32,
            traced: bool,
            attributes: Vec<(String, Vec<u8>)>,
        ) {
            let attributes: Vec<_> = attributes.into_iter().map(|(name, value)| (name, Bytes::from(value))).collect();
            let trace = traced.then(|| pb::RpctInfo {
                headers: [("traceparent".to_owned(), "00-1-2-01".to_owned())].into(),
                ..Default::default()
            });
            let param = pb::NameBytesPair { name: "name".into(), value: Some(value.into()) };
            let frame = encode_request(
                call_id,
                "Multi",
                &param,
                cells.clone().into(),
                RequestOptions {
                    timeout: Duration::from_millis(timeout.into()),
                    priority,
                    trace_info: trace.clone(),
                    attributes: &attributes,
                },
                MAX_FRAME,
            )
            .unwrap();
            let (header, found, block) = decode_request(&frame);
            prop_assert_eq!(header.call_id, Some(call_id));
            prop_assert_eq!(header.method_name.as_deref(), Some("Multi"));
            prop_assert_eq!(header.request_param, Some(true));
            prop_assert_eq!(header.priority, priority);
            prop_assert_eq!(header.timeout, Some(timeout));
            prop_assert_eq!(header.trace_info, trace);
            let sent = header.attribute.into_iter().map(|pair| (pair.name, pair.value.unwrap()));
            prop_assert_eq!(sent.collect::<Vec<_>>(), attributes);
            prop_assert_eq!(pb::NameBytesPair::decode(found).unwrap(), param);
            prop_assert_eq!(block, cells);
        }
    }
}
