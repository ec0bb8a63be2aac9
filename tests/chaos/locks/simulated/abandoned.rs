//! Lost answers and late requests: a lock that no caller has is released, and no caller gets a
//! wrong result.

use std::{sync::Arc, time::Duration};

use hbase_txn::{client::Connection, lock::LockManager};
use tokio::sync::Notify;

use crate::locks::{Rig, Sort, locks_of, request};
use crate::{
    cluster::until,
    proxy::{Action, Proxy},
    settings::Settings,
};

const SORTS: [Sort; 2] = [Sort::OursAlone, Sort::WithCompanions];
/// Much longer than these tests, so that a lock left behind can be distinguished from an expired
/// one.
const LEASE: Duration = Duration::from_secs(80);
/// The time limit for the release of a lock left behind.
const SOON: Duration = Duration::from_secs(20);

/// An owner behind a proxy, and one without it.
struct Two {
    rig: Rig,
    proxy: Proxy,
    behind: Connection,
    mine: LockManager,
    others: LockManager,
}

impl Two {
    async fn new(test: &str, settings: &Settings, sort: Sort) -> Self {
        let rig = Rig::new(test, settings, sort).await;
        let proxy = Proxy::new();
        let behind = rig.behind(&proxy).await;
        let two = Self {
            mine: locks_of(&behind, &rig.name).await,
            others: rig.locks().await,
            behind,
            proxy,
            rig,
        };
        two.comes_and_goes(&two.mine).await;
        two
    }

    async fn comes_and_goes(&self, locks: &LockManager) {
        let guard = request(locks, "left", LEASE).wait(SOON).acquire().await;
        assert!(guard.unwrap().release().await.unwrap().is_released());
    }

    async fn end(self) {
        self.behind.close().await;
        self.rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_or_late_acquire_leaves_no_lock_held() {
    const TEST: &str = "lock_unanswered";
    let settings = Settings::of(TEST);
    for sort in settings.variants(SORTS) {
        let two = Two::new(TEST, &settings, sort).await;
        for action in [
            Action::DropAnswer,
            Action::CutBeforeAnswer,
            // Later than the timeout of its caller.
            Action::Detour(Duration::from_secs(3)),
            Action::Detour(Duration::from_millis(10)),
        ] {
            two.proxy.once("Multi", action);
            let error = request(&two.mine, "left", LEASE).acquire().await.unwrap_err();
            assert!(error.is_outcome_unknown(), "{action:?}: {error}");
            if let Action::Detour(_) = action {
                until("late request", SOON, async || {
                    (two.proxy.under_way() == 0).then_some(())
                })
                .await;
            }
            two.comes_and_goes(&two.others).await;
            two.proxy.pass_all();
            two.comes_and_goes(&two.mine).await;
        }
        // The same for a call that is aborted.
        two.proxy
            .once("Multi", Action::DelayAnswer(Duration::from_secs(1)));
        let before = two.proxy.requests("Multi");
        let acquire = tokio::spawn(request(&two.mine, "left", LEASE).acquire());
        until("request on its way", SOON, async || {
            (two.proxy.requests("Multi") > before).then_some(())
        })
        .await;
        acquire.abort();
        assert!(acquire.await.unwrap_err().is_cancelled());
        two.comes_and_goes(&two.others).await;
        two.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_with_a_lost_answer_is_released_or_unknown() {
    const TEST: &str = "lock_release_unanswered";
    let settings = Settings::of(TEST);
    for sort in settings.variants(SORTS) {
        let two = Two::new(TEST, &settings, sort).await;
        // Without another owner in between, the cells left behind identify this owner.
        let guard = request(&two.mine, "left", LEASE).acquire().await.unwrap();
        two.proxy.once("Multi", Action::CutBeforeAnswer);
        assert!(guard.release().await.unwrap().is_released());
        // With another owner in between: the second request is delayed until that one has the lock.
        let guard = request(&two.mine, "left", LEASE).acquire().await.unwrap();
        let released = Arc::new(Notify::new());
        let (mut sent, heard) = (0, Arc::clone(&released));
        two.proxy.rule(move |request| {
            if request.method != "Multi" {
                return Action::Pass;
            }
            sent += 1;
            match sent {
                1 => Action::CutBeforeAnswer,
                _ => {
                    heard.notify_one();
                    Action::DelayRequest(Duration::from_secs(1))
                }
            }
        });
        let next = async {
            released.notified().await;
            request(&two.others, "left", LEASE).acquire().await.unwrap()
        };
        let (outcome, next) = tokio::join!(guard.release(), next);
        let error = outcome.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        two.proxy.pass_all();
        assert!(next.release().await.unwrap().is_released());
        two.end().await;
    }
}
