use std::time::Duration;

use prost::Message;
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    super::faults::{Latency, RandomDraws, RandomFaults},
    LONG,
    client::{METHOD, RawClient, connection_header, frame, request, request_header},
    dial, executions, network_with_seed,
};

/// Runs calls under random faults. Returns the hash of the trace, and the trace.
async fn run(seed: u64) -> (u64, String) {
    let network = network_with_seed(seed);
    network.set_latency(Latency {
        request: Duration::ZERO..Duration::from_millis(20),
        queue: Duration::ZERO..Duration::from_millis(20),
        answer: Duration::ZERO..Duration::from_millis(20),
    });
    network.set_chunks(Some((1, 100)));
    let faults = RandomFaults {
        lose_request: 0.05,
        lose_answer: 0.05,
        delay_request: 0.05,
        delay_in_queue: 0.05,
        delay_answer: 0.05,
        answer_twice: 0.05,
        deliver_twice: 0.05,
        cut_answer: 0.05,
        close_before: 0.05,
        close_after: 0.05,
        wrong_call_id: 0.05,
        fail_before: 0.05,
        fail_after: 0.05,
        mute: 0.05,
        refuse_dial: 0.2,
        delay_dial: 0.2,
        lose_dial: 0.1,
        ..RandomFaults::default()
    };
    network.set_random_faults(Some(RandomDraws::new(faults, seed, None)));
    let mut id = 0;
    for _ in 0..20 {
        let Ok(Ok(stream)) = timeout(LONG, dial(&network, 0)).await else {
            continue;
        };
        let mut client = RawClient::new(stream);
        let mut bytes = b"HBas\x00\x50".to_vec();
        bytes.extend(frame(&[&connection_header("alice").encode_to_vec()]));
        for _ in 0..10 {
            id += 1;
            bytes.extend(request(&request_header(id, METHOD)));
        }
        // The server may close the connection before it has read all.
        let _ = client.stream.write_all(&bytes).await;
        while let Ok(Some(_)) = timeout(LONG, client.answer()).await {}
    }
    assert!(executions(&network) > 20, "{}", network.dump());
    (network.trace_hash(), network.dump())
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_trace() {
    let (hash, trace) = run(1).await;
    let (again, second) = run(1).await;
    assert_eq!(trace, second);
    assert_eq!(hash, again);
    assert_ne!(run(2).await.0, hash);
}

#[tokio::test(start_paused = true)]
async fn each_random_fault_happens() {
    let mut traces = String::new();
    for seed in 0..10 {
        traces += &run(seed).await.1;
    }
    for fault in [
        "[lose request]",
        "[lose answer]",
        "[delay request",
        "[delay in queue",
        "[delay answer",
        "[answer twice",
        "[mute the connection]",
        ": lost",
        "[deliver twice",
        "[cut answer]",
        "[close before",
        "[close after",
        "[wrong call id]",
        "IOException before",
        "IOException after",
        "refused",
    ] {
        assert!(traces.contains(fault), "{fault}");
    }
}
