//! Owners that acquire again as soon as they have released.

use std::time::Duration;

use crate::coordination::contest::{Contest, Terms};
use crate::{
    locks::{Rig, Sort},
    settings::Settings,
};

/// Much longer than a cycle, also on a busy machine.
const LEASE: Duration = Duration::from_secs(60);
/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(4 * 3_600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_held_beyond_its_bounds_by_owners_that_spin() {
    const TEST: &str = "coordination_spinning";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::OursAlone).await;
    let terms = Terms {
        owners: 6,
        lease: LEASE,
        wait: Duration::from_secs(30),
        dawdle: false,
    };
    let config = rig.cluster.config();
    let contest = Contest::start(&config, None, &rig.name, terms, |owner| settings.rng(owner)).await;
    contest.goes_on(Settings::cycles(1_000, 200_000), PATIENCE).await;
    contest.stop(TEST).await;
    rig.end().await;
}
