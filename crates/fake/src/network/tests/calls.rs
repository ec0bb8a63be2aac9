use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{
    super::{faults::Call, faults::Latency},
    LONG, assert_cluster_id,
    client::{METHOD, request_header},
    connect, executions, is_silent, network,
};

const SECOND: Duration = Duration::from_secs(1);
/// The resolution of tokio's timer.
const TICK: Duration = Duration::from_millis(1);

fn seconds(from: u64, to: u64) -> std::ops::Range<Duration> {
    Duration::from_secs(from)..Duration::from_secs(to)
}

#[tokio::test(start_paused = true)]
async fn unknown_method_fails_its_call_only() {
    let network = network();
    let mut client = connect(&network).await;
    client.call_with(&request_header(1, "NoSuchMethod")).await;
    let answered = client.answer().await.unwrap();
    assert_eq!((answered.id, answered.class()), (1, "DoNotRetryIOException"));
    client.call(2).await;
    assert_cluster_id(client.answer().await, 2);
}

#[tokio::test(start_paused = true)]
async fn call_without_latency_takes_no_time() {
    let network = network();
    let mut client = connect(&network).await;
    let began = Instant::now();
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn latency_is_drawn_from_its_ranges() {
    let network = network();
    let mut client = connect(&network).await;
    network.set_latency(Latency {
        request: seconds(1, 2),
        queue: seconds(3, 3),
        answer: seconds(2, 4),
    });
    let began = Instant::now();
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    let took = began.elapsed();
    assert!((6 * SECOND..9 * SECOND + 3 * TICK).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn answers_overtake_each_other() {
    let network = network();
    network.fault(Call::Any.nth(1).delay_answer(SECOND));
    let mut client = connect(&network).await;
    client.call(1).await;
    client.call(2).await;
    assert_cluster_id(client.answer().await, 2);
    assert_cluster_id(client.answer().await, 1);
}

#[tokio::test(start_paused = true)]
async fn timeout_before_execution_drops_the_call() {
    let network = network();
    network.fault(Call::Any.delay_in_queue(2 * SECOND));
    let mut client = connect(&network).await;
    let mut header = request_header(1, METHOD);
    header.timeout = Some(1_000);
    client.call_with(&header).await;
    assert!(is_silent(&mut client).await);
    assert_eq!(executions(&network), 0);
    header.timeout = Some(3_000);
    client.call_with(&header).await;
    assert_cluster_id(client.answer().await, 1);
}

#[tokio::test(start_paused = true)]
async fn timeout_has_a_lower_limit_and_zero_is_none() {
    let network = network();
    network.fault(Call::Any.delay_in_queue(Duration::from_millis(15)));
    let mut client = connect(&network).await;
    let mut header = request_header(1, METHOD);
    for timeout in [0, 1] {
        header.timeout = Some(timeout);
        client.call_with(&header).await;
        assert_cluster_id(client.answer().await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_begins_at_the_arrival() {
    let network = network();
    network.fault(Call::Any.delay_request(2 * SECOND));
    let mut client = connect(&network).await;
    let mut header = request_header(1, METHOD);
    header.timeout = Some(1_000);
    client.call_with(&header).await;
    assert_cluster_id(client.answer().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_does_not_stop_its_calls() {
    let network = network();
    let fault = network.fault(Call::Any.delay_request(SECOND));
    let mut client = connect(&network).await;
    client.call(1).await;
    fault.wait_for(1).await;
    drop(client);
    assert_eq!(executions(&network), 0);
    tokio::time::advance(2 * SECOND).await;
    let executed = async {
        while executions(&network) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, executed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn trace_names_what_a_call_was() {
    let network = network();
    network.fault(Call::Any.nth(2).lose_answer());
    let mut client = connect(&network).await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    client.call(2).await;
    assert!(is_silent(&mut client).await);
    let dump = network.dump();
    assert!(
        dump.contains("#2 alice on connection 1 to server 0: GetClusterId [lose answer]"),
        "{dump}"
    );
    assert!(dump.contains("#1 answered"), "{dump}");
    assert!(dump.contains("#2 dropped: answer lost"), "{dump}");
    assert_eq!(network.calls(METHOD), 2);
    assert_eq!(network.calls("Get"), 0);
}

#[tokio::test(start_paused = true)]
async fn time_of_the_cluster_follows_the_paused_clock() {
    let network = network();
    let start = network.wall();
    tokio::time::advance(5 * SECOND).await;
    assert_eq!(network.wall() - start, 5_000);
}
