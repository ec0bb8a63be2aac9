#[path = "../../examples/work_queue.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{sync::Arc, time::Duration};

use self::example::{checked, claim, enqueue, finish, run};
use crate::{Pattern, side_by_side, support::eventually, watched};

const JOBS: usize = 150;
const LEASE: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread")]
async fn each_job_is_done_once_while_workers_die_and_stall() {
    let pattern = Pattern::new("work_queue", run).await;
    let clients = Arc::new(pattern.clients().await);
    // Two tasks put each job.
    let put = side_by_side(2, |task| {
        let clients = Arc::clone(&clients);
        async move {
            let mut put = 0;
            for number in 0..JOBS {
                let job = format!("{number:06}");
                put += usize::from(enqueue(&clients[task], "load", &job, "work").await.unwrap());
            }
            put
        }
    });
    let work = side_by_side(10, |worker| {
        let clients = Arc::clone(&clients);
        async move {
            let client = &clients[worker % 4];
            let (mut done, mut late, mut died) = (0, 0, 0);
            while checked(client, "load").await.unwrap().1.len() < JOBS {
                let Some(claim) = claim(client, "load", LEASE).await.unwrap() else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                match fastrand::u8(..20) {
                    0..2 => {
                        died += 1;
                        continue;
                    }
                    2..4 => tokio::time::sleep(LEASE * 3 / 2).await,
                    _ => {}
                }
                let finished = finish(client, "load", &claim, format!("by {worker}")).await;
                if finished.unwrap() {
                    done += 1;
                } else {
                    late += 1;
                }
            }
            (done, late, died)
        }
    });
    let both = async { futures::join!(put, work) };
    let (put, ended) = watched(both, async || {
        checked(&clients[3], "load").await.unwrap();
    })
    .await;
    assert_eq!(
        put.iter().sum::<usize>(),
        JOBS,
        "each job was put by one of the two"
    );
    let done: usize = ended.iter().map(|worker| worker.0).sum();
    let (late, died) = ended
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.1, sum.1 + one.2));
    assert_eq!(done, JOBS, "late {late}, died {died}");
    assert!(died > 0, "nobody died");
    let (waiting, done) = checked(&clients[0], "load").await.unwrap();
    assert_eq!((waiting.len(), done.len()), (0, JOBS));
    assert!(!enqueue(&clients[0], "load", "000000", "work").await.unwrap());
}

#[tokio::test]
async fn oldest_free_job_is_first_and_expired_lease_ends_a_claim() {
    let pattern = Pattern::new("work_lease", run).await;
    let clients = pattern.clients().await;
    let (ann, bob) = (&clients[0], &clients[1]);
    for job in ["2", "1", "3"] {
        assert!(enqueue(ann, "small", job, format!("do {job}")).await.unwrap());
    }
    let first = claim(ann, "small", LEASE).await.unwrap().unwrap();
    assert_eq!((first.job.as_str(), &first.payload[..]), ("1", &b"do 1"[..]));
    let second = claim(bob, "small", Duration::from_secs(60))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(second.job, "2");
    assert!(finish(bob, "small", &second, "done").await.unwrap());
    assert!(!finish(bob, "small", &second, "done again").await.unwrap());
    let third = claim(bob, "small", Duration::from_secs(60))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(third.job, "3");
    let taken_over = eventually("the first lease is over", async || {
        claim(bob, "small", Duration::from_secs(60)).await.unwrap()
    })
    .await;
    assert_eq!(taken_over.job, "1");
    assert!(!finish(ann, "small", &first, "late").await.unwrap());
    assert!(finish(bob, "small", &taken_over, "in time").await.unwrap());
    let (waiting, done) = checked(ann, "small").await.unwrap();
    assert_eq!(
        (waiting, done),
        (vec!["3".to_owned()], vec!["1".to_owned(), "2".to_owned()])
    );
}
