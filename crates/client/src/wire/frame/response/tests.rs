use proptest::{collection::vec, prelude::*};

use super::super::server_side::*;
use crate::wire::frame::response::*;

fn decode(bytes: &[u8]) -> Result<Option<ResponseFrame>, FrameError> {
    ResponseDecoder::new(1 << 20).decode(&mut BytesMut::from(bytes))
}

fn fault(frame: ResponseFrame) -> RemoteFault {
    match frame.outcome {
        Err(AnswerError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

fn processed() -> pb::MutateRowsResponse {
    pb::MutateRowsResponse {
        processed: Some(true),
    }
}

#[test]
fn the_bytes_are_those_of_the_protocol() {
    let bytes = b"\x00\x00\x00\x0d\
        \x06\x08\x07\x1a\x02\x08\x03\
        \x02\x08\x01\
        abc";
    let frame = decode(bytes).unwrap().unwrap();
    assert_eq!(frame.call_id, 7);
    assert!(!frame.is_about_the_connection());
    let body = frame.outcome.unwrap();
    assert_eq!(body.parse::<pb::MutateRowsResponse>().unwrap(), processed());
    assert_eq!(body.cells.as_ref(), b"abc");
}

#[test]
fn message_and_cells_are_slices_of_the_buffer() {
    let mut buf = BytesMut::from(answer(1, &processed(), &[7; 5000]).as_ref());
    let range = buf.as_ptr_range();
    let frame = ResponseDecoder::default().decode(&mut buf).unwrap().unwrap();
    let body = frame.outcome.unwrap();
    assert!(range.contains(&body.message.as_ptr()) && range.contains(&body.cells.as_ptr()));
}

#[test]
fn an_exception_is_an_outcome_of_its_call() {
    let bytes = refusal(3, "java.io.IOException", "java.io.IOException: no\n\tat x");
    let frame = decode(&bytes).unwrap().unwrap();
    assert_eq!(frame.call_id, 3);
    assert_eq!(fault(frame).message, "no");
}

#[test]
fn minus_one_is_about_the_connection() {
    let bytes = b"\x00\x00\x00\x0b\x0a\x08\xff\xff\xff\xff\x0f\x12\x02\x28\x01";
    let frame = decode(bytes).unwrap().unwrap();
    assert!(frame.is_about_the_connection());
    assert!(fault(frame).do_not_retry);
}

#[test]
fn an_announced_length_is_not_allocated() {
    let mut decoder = ResponseDecoder::default();
    let mut buf = BytesMut::from(b"\x0c\x80\x00\x00rest".as_slice());
    for _ in 0..100 {
        assert_eq!(decoder.decode(&mut buf).unwrap(), None);
        assert!(buf.capacity() > buf.len() && buf.capacity() <= RESERVED_AT_ONCE + ROOM);
    }
    buf.extend_from_slice(&vec![0; 1 << 20]);
    assert_eq!(decoder.decode(&mut buf).unwrap(), None);
    assert!(buf.capacity() <= 4 << 20);
}

#[test]
fn an_empty_buffer_gets_room_to_read_into() {
    let mut buf = BytesMut::new();
    assert_eq!(ResponseDecoder::default().decode(&mut buf).unwrap(), None);
    assert!(buf.capacity() >= ROOM);
}

#[test]
fn too_large_answer_fails_its_call_and_is_skipped() {
    const LIMIT: usize = 100;
    let large = answer(7, &processed(), &vec![0; 1 << 20]);
    let small = answer(8, &processed(), b"abc");
    let bytes = [&large[..], &small[..]].concat();
    for chunk in [1, 5, 7, 4_096, bytes.len()] {
        let mut decoder = ResponseDecoder::new(LIMIT);
        let (mut buf, mut frames) = (BytesMut::new(), Vec::new());
        for chunk in bytes.chunks(chunk) {
            buf.extend_from_slice(chunk);
            while let Some(frame) = decoder.decode(&mut buf).unwrap() {
                frames.push(frame);
            }
            assert!(buf.len() < LIMIT + 4, "{} bytes were kept", buf.len());
        }
        let [first, second] = frames.try_into().unwrap();
        assert_eq!(first.call_id, 7);
        let len = large.len() - 4;
        assert_eq!(first.outcome, Err(AnswerError::TooLarge { len, limit: LIMIT }));
        assert_eq!((second.call_id, second.outcome.is_ok()), (8, true));
    }
}

#[test]
fn hostile_frames_are_refused_by_name() {
    for (bytes, wanted) in [
        (
            b"\xff\xff\xff\xff".as_slice(),
            "a frame of negative length was announced: -1",
        ),
        (
            b"\x80\x00\x00\x00",
            "a frame of negative length was announced: -2147483648",
        ),
        (
            b"HTTP/1.1 400 Bad Request",
            "a frame of 1213486160 bytes was announced, and 1048576 are the most",
        ),
        (
            b"\x15\x03\x03\x00\x02\x02\x46",
            "a frame of 352518912 bytes was announced",
        ),
        (
            b"\x7f\xff\xff\xff\x40\x08\x01",
            "a frame of 2147483647 bytes was announced",
        ),
        (
            b"\x7f\xff\xff\xff\x06\x08\xff\xff\xff\xff\x0f",
            "a frame of 2147483647 bytes was announced",
        ),
        (
            b"\x7f\xff\xff\xff\x02\x08\x80",
            "the response header can't be read",
        ),
        (b"\x00\x00\x00\x00", "the response header does not fit"),
        (b"\x00\x00\x00\x02\x05\x08", "the response header does not fit"),
        (
            b"\x00\x00\x00\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "the response header does not fit",
        ),
        (b"\x00\x00\x00\x01\x00", "the response does not say which call"),
        (b"\x00\x00\x00\x03\x02\x08\x01", "the response does not fit"),
        (b"\x00\x00\x00\x04\x02\x08\x01\x09", "the response does not fit"),
        (
            b"\x00\x00\x00\x08\x06\x08\x01\x1a\x02\x08\x63\x00",
            "the cell block does not fit",
        ),
        (
            b"\x00\x00\x00\x06\x02\x08\x01\x00zz",
            "2 bytes of the frame belong to nothing",
        ),
        (
            b"\x00\x00\x00\x03\x02\x0b\x01",
            "the response header can't be read",
        ),
    ] {
        let found = decode(bytes).unwrap_err().to_string();
        assert!(found.starts_with(wanted), "{bytes:x?}: {found}");
    }
}

#[derive(Clone, Debug)]
struct Sent {
    call_id: u32,
    value: Vec<u8>,
    cells: Vec<u8>,
    fails: bool,
}

fn sent() -> impl Strategy<Value = Sent> {
    (
        any::<u32>(),
        vec(any::<u8>(), 0..300),
        vec(any::<u8>(), 0..300),
        any::<bool>(),
    )
        .prop_map(|(call_id, value, cells, fails)| Sent {
            call_id,
            value,
            cells,
            fails,
        })
}

proptest! {
    #[test]
    fn frames_come_back_however_the_stream_is_cut(frames in vec(sent(), 0..8), cuts in vec(1..200_usize, 1..20)) {
        let mut stream = Vec::new();
        for sent in &frames {
            let message = pb::NameBytesPair { name: "n".into(), value: Some(sent.value.clone().into()) };
            stream.extend_from_slice(&if sent.fails {
                refusal(sent.call_id, "a.B", "a.B: no")
            } else {
                answer(sent.call_id, &message, &sent.cells)
            });
        }
        let mut decoder = ResponseDecoder::default();
        let (mut buf, mut found, mut rest) = (BytesMut::new(), Vec::new(), stream.as_slice());
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            rest = after;
            buf.extend_from_slice(piece);
            while let Some(frame) = decoder.decode(&mut buf).unwrap() {
                found.push(frame);
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(buf.is_empty());
        prop_assert_eq!(found.len(), frames.len());
        for (found, sent) in found.into_iter().zip(frames) {
            prop_assert_eq!(found.call_id, sent.call_id);
            match found.outcome {
                Ok(body) => {
                    prop_assert!(!sent.fails);
                    prop_assert_eq!(body.parse::<pb::NameBytesPair>().unwrap().value.unwrap(), sent.value);
                    prop_assert_eq!(body.cells, sent.cells);
                }
                Err(AnswerError::Fault(fault)) => {
                    prop_assert!(sent.fails && fault.class == "a.B" && fault.message == "no");
                }
                Err(AnswerError::TooLarge { .. }) => prop_assert!(false, "no frame is too large"),
            }
        }
    }
}
