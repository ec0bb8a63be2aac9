use hbase_protocol as pb;
use prost::Message;
use rstest::rstest;

use super::{
    super::frame::NO_CALL,
    assert_cluster_id,
    client::{connection_header, frame, request, request_header},
    connect, is_silent, network, stream,
};

#[tokio::test(start_paused = true)]
async fn requests_may_follow_the_header_in_one_write() {
    let network = network();
    let mut client = stream(&network).await;
    let mut bytes = b"HBas\x00\x50".to_vec();
    bytes.extend(frame(&[&connection_header("alice").encode_to_vec()]));
    bytes.extend(request(&request_header(5, "GetClusterId")));
    bytes.extend(request(&request_header(6, "GetClusterId")));
    client.send(bytes).await;
    assert_cluster_id(client.answer().await, 5);
    assert_cluster_id(client.answer().await, 6);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_header_is_not_answered() {
    let network = network();
    assert!(is_silent(&mut connect(&network).await).await);
}

#[tokio::test(start_paused = true)]
async fn regist_is_answered_with_the_cluster_id_and_closes() {
    let network = network();
    let mut client = stream(&network).await;
    client.send(b"Regist").await;
    let answered = client.answer().await.unwrap();
    assert_eq!(answered.id, NO_CALL);
    let answer = pb::GetConnectionRegistryResponse::decode(&answered.message[..]).unwrap();
    assert_ne!(answer.cluster_id, "");
    assert!(client.answer().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn securi_is_answered_and_another_preamble_follows() {
    let network = network();
    let mut client = stream(&network).await;
    client.send(b"Securi").await;
    let answered = client.answer().await.unwrap();
    assert_eq!(
        (answered.id, answered.class()),
        (NO_CALL, "SecurityNotEnabledException")
    );
    client.open("alice").await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
}

#[rstest]
#[case::magic(
    b"GET / ",
    "FatalConnectionException",
    "Expected HEADER=HBas but received HEADER=GET "
)]
#[case::unknown(b"Regis!", "FatalConnectionException", "Expected HEADER=")]
#[case::version(b"HBas\x01\x50", "WrongVersionException", "serverVersion=0, clientVersion=1")]
#[case::method(
    b"HBas\x00\x07",
    "BadAuthException",
    "serverVersion=0, clientVersion=0, authMethod=7"
)]
#[case::kerberos(b"HBas\x00\x51", "FatalConnectionException", "hbase-fake does not model")]
#[tokio::test(start_paused = true)]
async fn bad_preambles_are_fatal(#[case] preamble: &[u8], #[case] class: &str, #[case] text: &str) {
    let network = network();
    let mut client = stream(&network).await;
    client.send(preamble).await;
    let answered = client.answer().await.unwrap();
    assert_eq!((answered.id, answered.class()), (NO_CALL, class));
    assert!(answered.text().starts_with(text), "{}", answered.text());
    assert_eq!(answered.exception.unwrap().do_not_retry, Some(true));
    assert!(client.answer().await.is_none());
}

#[rstest]
#[case::unknown_service(|header: &mut pb::ConnectionHeader| header.service_name = Some("Bad".to_owned()))]
#[case::no_service(|header: &mut pb::ConnectionHeader| header.service_name = None)]
#[case::service_of_masters(|header: &mut pb::ConnectionHeader| header.service_name = Some("MasterService".to_owned()))]
#[case::unknown_codec(|header: &mut pb::ConnectionHeader| header.cell_block_codec_class = Some("Bad".to_owned()))]
#[tokio::test(start_paused = true)]
async fn headers_that_hbase_rejects_close_without_an_answer(#[case] change: fn(&mut pb::ConnectionHeader)) {
    let network = network();
    let mut client = stream(&network).await;
    let mut header = connection_header("alice");
    change(&mut header);
    client.open_with(&header).await;
    assert!(client.answer().await.is_none());
    assert_eq!(network.refusals(), [""; 0]);
}

#[rstest]
#[case::codec(|header: &mut pb::ConnectionHeader| header.cell_block_codec_class = Some("org.apache.hadoop.hbase.codec.CellCodec".to_owned()))]
#[case::compressor(|header: &mut pb::ConnectionHeader| header.cell_block_compressor_class = Some("gz".to_owned()))]
#[case::cipher(|header: &mut pb::ConnectionHeader| header.rpc_crypto_cipher_transformation = Some("AES".to_owned()))]
#[case::no_user(|header: &mut pb::ConnectionHeader| header.user_info = None)]
#[case::real_user(|header: &mut pb::ConnectionHeader| header.user_info.as_mut().unwrap().real_user = Some("root".to_owned()))]
#[case::no_version(|header: &mut pb::ConnectionHeader| header.version_info = None)]
#[case::old_version(|header: &mut pb::ConnectionHeader| header.version_info.as_mut().unwrap().version_major = Some(1))]
#[tokio::test(start_paused = true)]
async fn headers_that_are_not_modelled_are_refused(#[case] change: fn(&mut pb::ConnectionHeader)) {
    let network = network();
    let mut client = stream(&network).await;
    let mut header = connection_header("alice");
    change(&mut header);
    client.open_with(&header).await;
    let answered = client.answer().await.unwrap();
    assert_eq!(
        (answered.id, answered.class()),
        (NO_CALL, "FatalConnectionException")
    );
    assert!(client.answer().await.is_none());
    assert_eq!(network.refusals(), [answered.text()]);
}

#[tokio::test(start_paused = true)]
async fn unknown_field_of_the_connection_header_is_refused() {
    let network = network();
    let mut client = stream(&network).await;
    client.send(b"HBas\x00\x50").await;
    let header = connection_header("alice").encode_to_vec();
    // Field 15, a varint.
    client.send(frame(&[&header, b"\x78\x01"])).await;
    assert!(client.answer().await.unwrap().text().contains("ConnectionHeader"));
}

#[tokio::test(start_paused = true)]
async fn a_version_without_numbers_is_read_from_its_text() {
    let network = network();
    let mut client = stream(&network).await;
    let mut header = connection_header("alice");
    let version = header.version_info.as_mut().unwrap();
    version.version_major = None;
    client.open_with(&header).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
}
