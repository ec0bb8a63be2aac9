//! The latches and barriers of a table.

use std::collections::BTreeSet;

use hbase_client::{BytesBinary, Row, Scan};

use super::{
    barrier::{self, BarrierInfo, BarrierObservation},
    layout::{self, COUNTS, Cells, STATE},
    manager::LatchManager,
    name::LatchName,
    observation::LatchObservation,
    state::{LatchInfo, LatchState},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::Level,
};

/// The maximum number of listed latches.
const MOST: usize = 1_000_000;

/// A latch of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedLatch {
    /// Its client and id. `None` for a key that is not a valid name.
    pub name: Option<LatchName>,
    /// Its farm. `None` for a latch of all farms.
    pub farm: Option<String>,
    /// Its state.
    pub info: LatchInfo,
}

/// A barrier of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedBarrier {
    /// Its client and id. `None` for a key that is not a valid name.
    pub name: Option<LatchName>,
    /// Its state.
    pub info: BarrierInfo,
}

impl LatchManager {
    /// Lists the latches of the table, of all clients and farms, in the order of their rows. Expired
    /// latches are listed for as long as it is recorded that they have expired.
    ///
    /// The counts of Java clients do not show whether they belong to one latch of all farms or to a
    /// latch of each farm; they are listed as the latter.
    ///
    /// The list is not a snapshot: the table is scanned, and each latch is as it was when the scan
    /// passed it.
    ///
    /// # Errors
    ///
    /// Returns the errors of the scan, [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that
    /// another program wrote, and [`LimitExceeded`](ClientErrorKind::LimitExceeded) for more than a
    /// million latches.
    pub async fn list(&self) -> Result<Vec<ListedLatch>> {
        let scan = if self.has_state_family() {
            Scan::new().family(COUNTS).family(STATE)
        } else {
            Scan::new().family(COUNTS)
        };
        self.list_rows(scan, |row, found| {
            for (level, farm) in latches_of(row) {
                found.extend(self.latch_of(row, level, farm)?);
            }
            Ok(())
        })
        .await
    }

    /// Lists the barriers of the table, of all clients, in the order of their rows. A table without
    /// the state family has none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`list`](Self::list).
    pub async fn list_barriers(&self) -> Result<Vec<ListedBarrier>> {
        if !self.has_state_family() {
            return Ok(Vec::new());
        }
        self.list_rows(barrier::scan(), |row, found| {
            let (name, key) = named(row);
            let info = BarrierInfo::of(&key, &BarrierObservation::of(Some(row))?);
            found.extend(info.map(|info| ListedBarrier { name, info }));
            Ok(())
        })
        .await
    }

    async fn list_rows<T>(
        &self,
        scan: Scan,
        mut read: impl FnMut(&Row, &mut Vec<T>) -> Result<()>,
    ) -> Result<Vec<T>> {
        let (mut found, mut scanner) = (Vec::new(), self.shared.table.scan(scan)?);
        while let Some(row) = scanner.next().await? {
            read(&row, &mut found)
                .map_err(|error| error.at_row(&BytesBinary(row.key())).at_table(self.table()))?;
            if found.len() > MOST {
                return Err(Error::new(
                    ClientErrorKind::LimitExceeded,
                    format!("the table has more than {MOST} latches"),
                )
                .at_table(self.table())
                .with_hint("show single latches"));
            }
        }
        Ok(found)
    }

    /// Decodes one latch of a row. Returns `None` if it was deleted.
    fn latch_of(&self, row: &Row, level: Level, farm: &str) -> Result<Option<ListedLatch>> {
        let cells = Cells::new(row.key().clone(), level, farm, self.has_state_family());
        let is_own = |family: &[u8], qualifier: &[u8]| {
            if family == COUNTS {
                level == Level::Xdc || qualifier == cells.own
            } else {
                cells.note.as_ref().is_some_and(|note| qualifier == note)
            }
        };
        let own = row
            .cells()
            .iter()
            .filter(|cell| is_own(&cell.family, &cell.qualifier));
        let own = Row::new(row.key().clone(), own.cloned().collect());
        let (name, key) = named(row);
        let info = LatchObservation::of(&cells, Some(&own))?.info(&key, level)?;
        let farm = (level == Level::Dc).then(|| farm.to_owned());
        Ok((info.state != LatchState::Absent).then_some(ListedLatch { name, farm, info }))
    }
}

/// Returns the name of a row, and its key.
fn named(row: &Row) -> (Option<LatchName>, String) {
    let name = LatchName::of_row(row.key());
    let key = match &name {
        Some(name) => name.key().to_owned(),
        None => BytesBinary(row.key().get(1..).unwrap_or_default()).to_string(),
    };
    (name, key)
}

/// Returns the latches that may be in a row, with their farms: those with a note, and the counts
/// that belong to none.
fn latches_of(row: &Row) -> Vec<(Level, &str)> {
    let (mut counted, mut noted) = (BTreeSet::new(), BTreeSet::new());
    for cell in row.cells() {
        let (farms, farm) = if cell.family == COUNTS {
            (&mut counted, layout::farm(&cell.qualifier))
        } else {
            (&mut noted, layout::farm_of_note(&cell.qualifier))
        };
        farms.extend(farm.and_then(|farm| std::str::from_utf8(farm).ok()));
    }
    let of_all_farms = noted.remove("");
    let mut latches = Vec::new();
    if of_all_farms {
        latches.push((Level::Xdc, ""));
    } else {
        noted.extend(counted);
    }
    latches.extend(noted.into_iter().map(|farm| (Level::Dc, farm)));
    latches
}
