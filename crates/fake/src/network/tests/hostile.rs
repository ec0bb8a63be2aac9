use std::time::Duration;

use hbase_protocol as pb;
use proptest::prelude::*;
use prost::Message;
use rstest::rstest;
use tokio::time::timeout;

use super::{
    super::frame::{self, MAX_REQUEST},
    assert_cluster_id,
    client::{METHOD, connection_header, frame, request, request_header},
    connect, is_silent, network, stream,
};

#[tokio::test(start_paused = true)]
async fn truncated_frame_ends_with_the_client() {
    let network = network();
    let mut client = connect(&network).await;
    let call = request(&request_header(1, METHOD));
    client.send(&call[..call.len() - 1]).await;
    assert!(is_silent(&mut client).await);
    drop(client);
    tokio::task::yield_now().await;
    assert_eq!(network.calls(METHOD), 0);
    assert!(
        network.dump().contains("closed: client hung up"),
        "{}",
        network.dump()
    );
}

#[rstest]
#[case::negative_length(vec![0xff, 0xff, 0xff, 0xff])]
#[case::empty_frame(frame(&[]))]
#[case::header_longer_than_the_frame(frame(&[b"\x7f", b"abc"]))]
#[case::garbage_header(frame(&[b"\x03\xff\xff\xff", b"abc"]))]
#[case::endless_varint(frame(&[&[0xff; 11]]))]
#[case::too_big_with_garbage([&(1u32 << 30).to_be_bytes()[..], &[0xff; 11]].concat())]
#[case::too_big_with_a_huge_header([&(1u32 << 30).to_be_bytes()[..], b"\x80\x80\x80\x80\x01"].concat())]
#[tokio::test(start_paused = true)]
async fn unreadable_requests_close_the_connection(#[case] bytes: Vec<u8>) {
    let network = network();
    let mut client = connect(&network).await;
    client.send(bytes).await;
    assert!(
        timeout(Duration::from_secs(1), client.answer())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn garbage_as_connection_header_closes_the_connection() {
    let network = network();
    let mut client = stream(&network).await;
    client.send(b"HBas\x00\x50").await;
    client.send(frame(&[b"garbage"])).await;
    assert!(client.answer().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn request_over_the_limit_is_answered_by_its_header_and_closes() {
    let network = network();
    let mut client = connect(&network).await;
    let length = u32::try_from(MAX_REQUEST + 1).unwrap();
    client.send(length.to_be_bytes()).await;
    let header = request_header(9, METHOD).encode_length_delimited_to_vec();
    client.send(&header[..5]).await;
    assert!(is_silent(&mut client).await);
    client.send(&header[5..]).await;
    let answered = client.answer().await.unwrap();
    assert_eq!((answered.id, answered.class()), (9, "RequestTooBigException"));
    assert_eq!(answered.exception.unwrap().do_not_retry, Some(true));
    assert!(client.answer().await.is_none());
}

#[rstest]
#[case::no_parameter(|header: &mut pb::RequestHeader| header.request_param = None, &[0], "DoNotRetryIOException")]
#[case::parameter_longer_than_the_frame(|_: &mut _| (), b"\x05abc", "InvalidProtocolBufferException")]
#[case::nothing_after_the_header(|_: &mut _| (), b"", "InvalidProtocolBufferException")]
#[case::cells_longer_than_the_frame(
    |header: &mut pb::RequestHeader| header.cell_block_meta = Some(pb::CellBlockMeta { length: Some(u32::MAX) }),
    b"\x00abc",
    "IllegalArgumentException"
)]
#[tokio::test(start_paused = true)]
async fn bad_parts_fail_their_call_only(
    #[case] change: fn(&mut pb::RequestHeader),
    #[case] rest: &[u8],
    #[case] class: &str,
) {
    let network = network();
    let mut client = connect(&network).await;
    let mut header = request_header(3, METHOD);
    change(&mut header);
    client
        .send(frame(&[&header.encode_length_delimited_to_vec(), rest]))
        .await;
    let answered = client.answer().await.unwrap();
    assert_eq!((answered.id, answered.class()), (3, class));
    client.call(4).await;
    assert_cluster_id(client.answer().await, 4);
    assert_eq!(network.refusals(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_request_are_refused() {
    let network = network();
    let mut client = connect(&network).await;
    let header = request_header(3, METHOD).encode_length_delimited_to_vec();
    client.send(frame(&[&header, b"\x00abc"])).await;
    let answered = client.answer().await.unwrap();
    assert_eq!(answered.class(), "DoNotRetryIOException");
    assert_eq!(network.refusals().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_field_of_the_request_header_is_refused() {
    let network = network();
    let mut client = connect(&network).await;
    let mut header = request_header(3, METHOD).encode_to_vec();
    header.extend(b"\x78\x01");
    let length = [u8::try_from(header.len()).unwrap()];
    client.send(frame(&[&length, &header, &[0]])).await;
    let answered = client.answer().await.unwrap();
    assert!(answered.text().contains("RequestHeader"), "{}", answered.text());
}

#[tokio::test(start_paused = true)]
async fn cell_block_needs_a_codec() {
    let network = network();
    let mut client = stream(&network).await;
    let mut header = connection_header("alice");
    header.cell_block_codec_class = None;
    client.open_with(&header).await;
    let mut header = request_header(3, METHOD);
    header.cell_block_meta = Some(pb::CellBlockMeta { length: Some(1) });
    client
        .send(frame(&[&header.encode_length_delimited_to_vec(), b"\x00x"]))
        .await;
    assert!(client.answer().await.unwrap().text().contains("codec"));
}

#[tokio::test(start_paused = true)]
async fn trace_context_priority_and_attributes_are_accepted() {
    let network = network();
    let mut client = connect(&network).await;
    let mut header = request_header(3, METHOD);
    header.priority = Some(200);
    header.attribute.push(pb::NameBytesPair::default());
    let contexts = ["traceparent", "tracestate", "baggage"].map(|name| (name.to_owned(), "1".to_owned()));
    header.trace_info = Some(pb::RpctInfo {
        headers: contexts.into(),
        ..Default::default()
    });
    client.call_with(&header).await;
    assert_cluster_id(client.answer().await, 3);
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_few_bytes_carry_everything() {
    let network = network();
    network.set_chunks(Some((1, 3)));
    let mut client = connect(&network).await;
    for id in 0..5 {
        client.call(id).await;
        assert_cluster_id(client.answer().await, id);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_cut_and_read_without_a_panic(bytes: Vec<u8>) {
        let mut input = frame(&[&bytes]).as_slice().into();
        if let frame::Piece::Frame(frame) = frame::cut(&mut input) {
            let _ = frame::request(frame.clone(), false);
            let _ = super::super::opening::header(&frame);
        }
        let mut input = bytes.as_slice().into();
        let _ = frame::cut(&mut input);
    }
}
