//! What must hold before a step of a repair.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use futures::try_join;
use hbase_admin::Admin;
use hbase_client::{RegionInfo, TableDescriptor, TableName, low_level::Pauses};
use hbase_txn::{ClientErrorKind, Error, Result};
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Refuses a repair while splits or merges are switched off.
pub(super) async fn refuse_if_switched_off(admin: &Admin, descriptor: &TableDescriptor) -> Result<()> {
    let (splits, merges) = try_join!(admin.is_split_enabled(), admin.is_merge_enabled())?;
    for (on, attribute, name) in [
        (splits, "SPLIT_ENABLED", "splits"),
        (merges, "MERGE_ENABLED", "merges"),
    ] {
        let value = descriptor.attribute(attribute);
        let off_for = match on {
            _ if value.is_some_and(|value| value.eq_ignore_ascii_case("false")) => "the table",
            true => continue,
            false => "the whole cluster",
        };
        let what = format!("{name} are switched off for {off_for}");
        return Err(Error::new(ClientErrorKind::SwitchedOff, what).with_hint("switch them on first"));
    }
    Ok(())
}

/// Waits for the regions of the table that are in transition now. Returns an error if one of them stays in
/// transition until the deadline.
pub(super) async fn await_transitions(admin: &Admin, table: &TableName, deadline: Instant) -> Result<()> {
    let mut pauses = Pauses::growing(FIRST_PAUSE, MAX_PAUSE);
    // The names of those that were in transition each time.
    let mut left: Option<BTreeSet<Bytes>> = None;
    loop {
        let mut found = admin.cluster_info().await?.regions_in_transition;
        found.retain(|transition| {
            let RegionInfo { table: of, name, .. } = &transition.region;
            of == table && left.as_ref().is_none_or(|left| left.contains(name))
        });
        let Some(first) = found.first() else {
            return Ok(());
        };
        if !pauses.wait_before(deadline).await {
            let regions = match found.len() {
                1 => "a region of the table stays".to_owned(),
                number => format!("{number} regions of the table stay"),
            };
            let what = format!(
                "{regions} in transition: {} is {}",
                first.region.encoded_text(),
                first.state
            );
            let hint = "nothing was merged or split; the master's page and log say what holds them up, hbase hbck -h \
                        names what reassigns a region";
            return Err(Error::new(ClientErrorKind::DeadlineExceeded, what).with_hint(hint));
        }
        left = Some(found.into_iter().map(|found| found.region.name).collect());
    }
}
