use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use rstest::rstest;
use tokio::time::{Instant, timeout};

use super::{
    super::faults::{Call, Dial, Fault, ReceivedCall},
    LONG, assert_cluster_id,
    client::METHOD,
    connect, dial, executions, is_silent, network, with_fault,
};

const SECOND: Duration = Duration::from_secs(1);

#[rstest]
#[case::lost_request(Call::Any.lose_request(), 0)]
#[case::lost_answer(Call::Any.lose_answer(), 1)]
#[tokio::test(start_paused = true)]
async fn lost_messages_are_never_answered(#[case] fault: Fault, #[case] executed: usize) {
    let (network, _, mut client) = with_fault(fault.times(1)).await;
    client.call(1).await;
    assert!(is_silent(&mut client).await);
    assert_eq!(executions(&network), executed);
    client.call(2).await;
    assert_cluster_id(client.answer().await, 2);
}

#[rstest]
#[case::request(Call::Any.delay_request(SECOND))]
#[case::queue(Call::Any.delay_in_queue(SECOND))]
#[case::answer(Call::Any.delay_answer(SECOND))]
#[tokio::test(start_paused = true)]
async fn delays_are_added_to_the_call(#[case] fault: Fault) {
    let (_network, _, mut client) = with_fault(fault).await;
    let began = Instant::now();
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[rstest]
#[case::at_once(Duration::ZERO)]
#[case::later(SECOND)]
#[tokio::test(start_paused = true)]
async fn call_delivered_twice_is_executed_twice_and_answered_once(#[case] later: Duration) {
    let (network, _, mut client) = with_fault(Call::Any.deliver_twice(later)).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    assert!(is_silent(&mut client).await);
    assert_eq!(executions(&network), 2);
}

#[tokio::test(start_paused = true)]
async fn call_answered_twice_is_executed_once() {
    let (network, _, mut client) = with_fault(Call::Any.answer_twice(SECOND).times(1)).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    assert_cluster_id(client.answer().await, 1);
    assert_eq!(executions(&network), 1);
}

#[tokio::test(start_paused = true)]
async fn muted_connection_is_silent_and_others_are_not() {
    let (network, _, mut client) = with_fault(Call::Any.nth(2).mute()).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    for id in 2..4 {
        client.call(id).await;
        assert!(is_silent(&mut client).await);
    }
    assert_eq!(executions(&network), 1);
    let mut other = connect(&network).await;
    other.call(4).await;
    assert_cluster_id(other.answer().await, 4);
}

#[tokio::test(start_paused = true)]
async fn cut_answer_ends_in_the_middle() {
    let (network, _, mut client) = with_fault(Call::Any.nth(2).cut_answer()).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    client.call(2).await;
    let rest = client.rest().await;
    let announced = u32::from_be_bytes(*rest.first_chunk().unwrap());
    assert!((1..announced).contains(&u32::try_from(rest.len()).unwrap()));
    assert_eq!(executions(&network), 2);
}

#[rstest]
#[case::before(Call::Any.close_before(), 0)]
#[case::after(Call::Any.close_after(), 1)]
#[tokio::test(start_paused = true)]
async fn closed_connections_answer_nothing(#[case] fault: Fault, #[case] executed: usize) {
    let (network, _, mut client) = with_fault(fault).await;
    client.call(1).await;
    assert_eq!(client.rest().await, b"");
    assert_eq!(executions(&network), executed);
}

#[tokio::test(start_paused = true)]
async fn wrong_call_id_is_that_of_no_call() {
    let (_network, _, mut client) = with_fault(Call::Any.wrong_call_id().times(1)).await;
    client.call(1).await;
    assert_ne!(client.answer().await.unwrap().id, 1);
    client.call(2).await;
    assert_cluster_id(client.answer().await, 2);
}

#[rstest]
#[case::before(Call::Any.fail_before("NotServingRegionException", "elsewhere"), 0)]
#[case::after(Call::Any.fail_after("NotServingRegionException", "elsewhere"), 1)]
#[tokio::test(start_paused = true)]
async fn exceptions_replace_the_answer(#[case] fault: Fault, #[case] executed: usize) {
    let (network, _, mut client) = with_fault(fault).await;
    client.call(1).await;
    let exception = client.answer().await.unwrap().exception.unwrap();
    assert_eq!(
        exception.exception_class_name(),
        "org.apache.hadoop.hbase.NotServingRegionException"
    );
    assert_eq!(
        exception.stack_trace(),
        "org.apache.hadoop.hbase.NotServingRegionException: elsewhere\n"
    );
    assert_eq!(exception.do_not_retry, Some(false));
    assert_eq!(executions(&network), executed);
}

#[tokio::test(start_paused = true)]
async fn overloaded_servers_say_so() {
    let fault = Call::Any.fail_before("org.apache.hadoop.hbase.CallQueueTooBigException", "full");
    let (_network, _, mut client) = with_fault(fault).await;
    client.call(1).await;
    let exception = client.answer().await.unwrap().exception.unwrap();
    assert_eq!(exception.server_overloaded, Some(true));
}

#[rstest]
#[case::request(Call::Any.hold_request(), 0)]
#[case::answer(Call::Any.hold_answer(), 1)]
#[tokio::test(start_paused = true)]
async fn held_calls_wait_for_their_release(#[case] fault: Fault, #[case] executed: usize) {
    let (network, held, mut client) = with_fault(fault).await;
    client.call(1).await;
    held.wait_for(1).await;
    assert!(is_silent(&mut client).await);
    assert_eq!(executions(&network), executed);
    held.release();
    assert_cluster_id(client.answer().await, 1);
    // The fault has ended.
    client.call(2).await;
    assert_cluster_id(client.answer().await, 2);
    assert_eq!(held.happened(), 1);
}

#[tokio::test(start_paused = true)]
async fn first_fault_that_selects_a_call_happens() {
    let (network, _, mut client) = with_fault(Call::named("Get").lose_request()).await;
    network.fault(
        Call::named(METHOD)
            .fail_before("java.io.IOException", "first")
            .times(1),
    );
    network.fault(Call::Any.fail_before("java.io.IOException", "second").times(2));
    let mut texts = Vec::new();
    for id in 0..4 {
        client.call(id).await;
        let answered = client.answer().await.unwrap();
        texts.push(answered.text().trim().rsplit(' ').next().unwrap().to_owned());
    }
    assert_eq!(texts, ["first", "second", "second", ""]);
    assert_eq!(network.unused_faults(), ["Get: lose request: never happened"]);
}

#[tokio::test(start_paused = true)]
async fn dials_are_refused_delayed_and_lost() {
    let network = network();
    network.fault(Dial::to(1).refuse().times(1));
    network.fault(Dial::any().delay(SECOND).times(1));
    network.fault(Dial::any().lose().times(1));
    let refused = dial(&network, 1).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let began = Instant::now();
    dial(&network, 1).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 1);
    assert!(timeout(LONG, dial(&network, 0)).await.is_err());
    let mut client = connect(&network).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    assert_eq!(network.unused_faults(), [""; 0]);
}

fn received() -> ReceivedCall {
    ReceivedCall {
        number: 1,
        connection: 1,
        user: "alice".into(),
        server: 1,
        method: "MutateRows".to_owned(),
        table: Some("accounts".to_owned()),
        region: None,
        rows: vec![Bytes::from("a"), Bytes::from("b")],
        parameter: Bytes::new(),
        cells: Bytes::new(),
        priority: 0,
        timeout: None,
        attributes: BTreeMap::new(),
        connection_attributes: BTreeMap::new(),
        trace: BTreeMap::new(),
    }
}

#[rstest]
#[case::any(Call::Any, true)]
#[case::method(Call::MutateRows, true)]
#[case::other_method(Call::Get, false)]
#[case::table(Call::MutateRows.on("accounts"), true)]
#[case::other_table(Call::MutateRows.on("orders"), false)]
#[case::server(Call::Any.at(1), true)]
#[case::other_server(Call::Any.at(0), false)]
#[case::user(Call::Any.by("alice"), true)]
#[case::other_user(Call::Any.by("bob"), false)]
#[case::row(Call::Any.row("b"), true)]
#[case::other_row(Call::Any.row("c"), false)]
#[case::predicate(Call::Any.when(|call| call.rows.len() == 2), true)]
#[case::other_predicate(Call::Any.when(|call| call.rows.is_empty()), false)]
#[case::first(Call::Any.nth(1), true)]
#[case::second(Call::Any.nth(2), false)]
fn selections_compare_each_part(#[case] call: Call, #[case] selects: bool) {
    assert_eq!(call.selects(&received(), &mut 0), selects);
}

#[test]
fn a_selection_is_named_by_its_parts() {
    let call = Call::Get
        .on("t")
        .row(b"\x00a")
        .at(1)
        .by("bob")
        .when(|_| true)
        .nth(3);
    assert_eq!(
        call.delay_request(SECOND).to_string(),
        "Get on t of row \\x00a at server 1 by bob with a predicate, number 3: delay request by 1s"
    );
}
