//! Fencing numbers rise, regardless of the events between two acquisitions.

use std::time::Duration;

use super::{
    Rig, Sort,
    java::{JavaOwner, row},
    request,
};
use crate::{cluster::PATIENCE, regions::Shuffler, settings::Settings};

const LEASE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_numbers_rise_over_releases_deletes_and_moves() {
    const TEST: &str = "lock_fencing";
    let settings = Settings::of(TEST);
    for sort in settings.variants([Sort::OursAlone, Sort::WithCompanions]) {
        let rig = Rig::new(TEST, &settings, sort).await;
        let mut rng = settings.rng(1);
        let mut shuffler = Shuffler::new(&rig.connection, &rig.name, settings.rng(77));
        let owners = [rig.locks().await, rig.locks().await];
        let java = JavaOwner::new(&rig.connection, &rig.name, "fenced");
        let acquisitions = 1_000 * u64::from(settings.rounds) / 2;
        let (mut last, mut deleted, mut expired) = (0, 0, Vec::new());
        for number in 0..acquisitions {
            let lease = if rng.u8(..50) == 0 { SHORT } else { LEASE };
            let owner = rng.choice(&owners).unwrap();
            let guard = request(owner, "fenced", lease).wait(PATIENCE).acquire().await;
            let guard = guard.unwrap();
            assert!(guard.fencing() > last, "{} behind {last}", guard.fencing());
            last = guard.fencing();
            if lease == SHORT {
                guard.lost().await;
                // Dropped later, because a dropped guard is released.
                expired.push(guard);
            } else if rng.u8(..4) == 0 {
                java.release().await;
                deleted += 1;
                // The holder of a companion row still has that, and releases it.
                assert!(!guard.release().await.unwrap().is_released());
            } else {
                assert!(guard.release().await.unwrap().is_released());
            }
            if number % 100 == 99 {
                shuffler.move_region_of(&row("fenced")).await;
            }
        }
        println!(
            "{TEST}: {sort:?}: {acquisitions} acquisitions, {deleted} row deletes, {} expiries, {} moves",
            expired.len(),
            shuffler.done.moved
        );
        assert!(deleted > 0 && !expired.is_empty());
        assert_eq!(shuffler.done.moved as u64, acquisitions / 100);
        drop(expired);
        rig.end().await;
    }
}
