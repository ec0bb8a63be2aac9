#[path = "../../examples/time_buckets.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rstest::rstest;

use self::example::{Added, add, close, hour_of, run, summary};
use crate::{Pattern, side_by_side, watched};

#[tokio::test(flavor = "multi_thread")]
async fn closed_buckets_summary_is_final_and_matches_its_events() {
    let pattern = Pattern::new("time_buckets", run).await;
    let clients = Arc::new(pattern.clients().await);
    let hours = ["1999123122", "1999123123"];
    let closing = Arc::clone(&clients);
    let work = async {
        let producers = side_by_side(12, |task| {
            let clients = Arc::clone(&clients);
            async move {
                let (client, mut accepted) = (&clients[task % 4], [(0, 0); 2]);
                for number in 0..30 {
                    let (hour, size) = (number % 2, fastrand::u32(1..100));
                    let event = format!("{task}-{number}");
                    let added = add(client, hours[hour], &event, size).await.unwrap();
                    assert_ne!(added, Added::Before);
                    if added == Added::Now {
                        accepted[hour].0 += 1;
                        accepted[hour].1 += i64::from(size);
                        // Sent again, as after a lost answer, also if the bucket is closed by now.
                        let again = add(&clients[(task + 1) % 4], hours[hour], &event, size).await;
                        assert_eq!(again.unwrap(), Added::Before);
                    }
                }
                accepted
            }
        });
        let closer = async {
            while summary(&closing[1], hours[0]).await.unwrap().events < 60 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            close(&closing[1], hours[0]).await.unwrap()
        };
        futures::join!(producers, closer)
    };
    let (accepted, closed) = watched(work, async || {
        for hour in hours {
            summary(&clients[0], hour).await.unwrap();
        }
    })
    .await;
    let sum = |hour: usize| {
        accepted
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one[hour].0, sum.1 + one[hour].1))
    };
    assert!(closed.closed && (60..180).contains(&closed.events), "{closed:?}");
    assert_eq!(
        (closed.events, closed.size),
        sum(0),
        "all that were accepted, and no others"
    );
    assert_eq!(summary(&clients[2], hours[0]).await.unwrap(), closed);
    assert_eq!(close(&clients[2], hours[0]).await.unwrap(), closed);
    let open = summary(&clients[2], hours[1]).await.unwrap();
    assert_eq!((open.events, open.size, open.closed), (180, sum(1).1, false));
}

#[rstest]
#[case(0, "1970010100")]
#[case(951_825_599, "2000022911")]
#[case(951_868_800, "2000030100")]
#[case(4_107_542_399, "2100022823")]
#[case(1_795_320_000, "2026112204")]
fn the_bucket_of_a_time_is_its_hour(#[case] seconds: u64, #[case] expected: &str) {
    assert_eq!(
        hour_of(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        expected
    );
}
