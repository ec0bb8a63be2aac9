#[path = "../../examples/unique_index.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::sync::Arc;

use self::example::{EmailSet, checked_users, run, set_email};
use crate::{Pattern, side_by_side, watched};

#[tokio::test(flavor = "multi_thread")]
async fn users_and_index_match_under_contention_for_few_emails() {
    let pattern = Pattern::new("unique_index", run).await;
    let clients = Arc::new(pattern.clients().await);
    let work = side_by_side(12, |task| {
        let clients = Arc::clone(&clients);
        async move {
            // Two tasks for each user, so that a user changes between a task's read and its commit.
            let (client, user) = (&clients[task % 4], format!("user{}", task / 2));
            let (mut set, mut taken) = (0, 0);
            for _ in 0..25 {
                let email = format!("mail{}", fastrand::u8(..8));
                match set_email(client, "load", &user, &email).await.unwrap() {
                    EmailSet::Done => set += 1,
                    EmailSet::TakenBy(other) => {
                        assert_ne!(other, user, "nobody is in one's own way");
                        taken += 1;
                    }
                }
            }
            (set, taken)
        }
    });
    let ended = watched(work, async || {
        checked_users(&clients[0], "load").await.unwrap();
    })
    .await;
    let (set, taken) = ended
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(set > 20 && taken > 20, "{set} set, {taken} taken");
    // Eight e-mails, six users: in the end each user has one.
    assert_eq!(checked_users(&clients[0], "load").await.unwrap().len(), 6);
}
