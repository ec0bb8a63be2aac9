//! What stands between a cluster and the table that is wanted.
//!
//! | file | what |
//! |---|---|
//! | `change` | changes, refusals, notes, and how they are told |
//! | `merge` | a table as it is, with what a file states |
//! | `difference` | what stands between two descriptors |
//! | `loss` | what a change loses |
//! | `refusal` | what can't be applied, and why |

mod change;
mod difference;
mod loss;
mod merge;
pub(super) mod refusal;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use bytes::Bytes;

pub use change::{Change, ChangeKind, PlanNote, Refusal};

use super::{
    audit::is_for_locks_or_latches,
    file::{TableFile, TableKind},
};
use crate::{
    client::{Connection, TableRegion},
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, PartitionRule, TableDescriptor, TableName, TableState},
};

/// What is to be done so that a table is as it is wanted. Reading it changes nothing; [`apply`](Self::apply) does it.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use hbase_txn::provision::{Plan, TableFile};
///
/// let file = TableFile::read("schemas/tables/by_prefix_length.toml".as_ref())?;
/// let plan = Plan::read(&connection, &file).await?;
/// for change in plan.changes() {
///     println!("{} {change}", change.sign());
/// }
/// plan.apply(&connection, &()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) goal: Goal,
    pub(super) found: Option<Found>,
    /// The table as it is to be.
    pub(super) wanted: TableDescriptor,
    changes: Vec<Change>,
    refusals: Vec<Refusal>,
    notes: Vec<PlanNote>,
    pub(super) data_loss_allowed: bool,
}

/// Where a plan leads.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// A table as a file describes it.
    File(TableFile),
    /// A table that exists, with another descriptor.
    Descriptor(TableDescriptor),
}

/// A table as it is.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) descriptor: TableDescriptor,
    pub(super) state: TableState,
    pub(super) regions: Vec<TableRegion>,
}

impl Plan {
    /// Looks at the cluster, and says what makes the table as the file describes it.
    ///
    /// # Errors
    ///
    /// What stops the master and `hbase:meta` from answering, with the [`place`](TableFile::place) in the file. What can't be
    /// applied is one of the [`refusals`](Self::refusals).
    pub async fn read(connection: &Connection, file: &TableFile) -> Result<Self> {
        let seen = async {
            let found = look(connection, file.name()).await?;
            let namespace = file.name().namespace();
            let exists = found.is_some() || connection.admin().namespace_exists(namespace).await?;
            Ok((found, exists))
        };
        let (found, namespace_exists) = seen
            .await
            .map_err(|error: Error| error.at_table(file.name()).within(file.place()))?;
        Ok(Self::to_file(file, found, namespace_exists))
    }

    /// Looks at a table that exists, and says what gives it this descriptor, which is meant as a whole: what it does
    /// not name goes.
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ErrorKind::TableNotFound), [`InvalidInput`](ErrorKind::InvalidInput) for a descriptor that no table can
    /// have, and what stops the master and `hbase:meta` from answering.
    pub async fn read_for(connection: &Connection, wanted: &TableDescriptor) -> Result<Self> {
        wanted.check().map_err(|error| error.at_table(&wanted.name))?;
        let found = look(connection, &wanted.name).await?;
        let found = found
            .ok_or_else(|| Error::new(ErrorKind::TableNotFound, "no such table").at_table(&wanted.name))?;
        Ok(Self::to_descriptor(wanted, found))
    }

    fn to_file(file: &TableFile, found: Option<Found>, namespace_exists: bool) -> Self {
        let mut plan = Self {
            goal: Goal::File(file.clone()),
            wanted: file.descriptor(),
            found,
            changes: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
            data_loss_allowed: false,
        };
        match &plan.found {
            Some(found) => {
                plan.wanted = merge::merged(&found.descriptor, file);
                plan.changes = with_losses(&found.descriptor, &plan.wanted);
                plan.notes.extend(notes_of(file, found));
                let cuts = refusal::boundaries(&plan.wanted, file.rule.as_ref(), &found.regions);
                match file.kind {
                    TableKind::Transactions => plan.refusals.extend(cuts),
                    TableKind::Locks | TableKind::Latches => plan.notes.extend(note_of_buckets(cuts)),
                }
            }
            None => {
                if !namespace_exists {
                    plan.lacks_namespace(file);
                }
                plan.changes.push(Change {
                    regions: Some(file.split_keys.len() + 1),
                    ..Change::new(file.name(), ChangeKind::CreateTable)
                });
                let nothing = TableDescriptor::new(file.name().clone());
                plan.changes
                    .extend(difference::difference(&nothing, &plan.wanted));
            }
        }
        plan
    }

    fn to_descriptor(wanted: &TableDescriptor, found: Found) -> Self {
        let changes = with_losses(&found.descriptor, wanted);
        let new_rule = changes.iter().any(|change| change.change == ChangeKind::SetRule);
        let rule = PartitionRule::from_descriptor(wanted).ok();
        let rule = rule.filter(|_| new_rule && !is_for_locks_or_latches(wanted));
        Self {
            goal: Goal::Descriptor(wanted.clone()),
            wanted: wanted.clone(),
            refusals: refusal::boundaries(wanted, rule.as_ref(), &found.regions),
            notes: note_of_state(&wanted.name, found.state).into_iter().collect(),
            found: Some(found),
            changes,
            data_loss_allowed: false,
        }
    }

    fn lacks_namespace(&mut self, file: &TableFile) {
        match file.create_namespace {
            true => self.changes.push(Change {
                name: Some(file.name().namespace().to_owned()),
                ..Change::new(file.name(), ChangeKind::CreateNamespace)
            }),
            false => self.refusals.push(refusal::namespace_missing(file.name())),
        }
    }

    /// Lets changes lose data.
    #[must_use]
    pub fn allow_data_loss(mut self) -> Self {
        self.data_loss_allowed = true;
        self
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.wanted.name
    }

    /// What is done, in this order; nothing where the table is as it is wanted.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Why the plan can't be applied; nothing where it can.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let losses = self.changes.iter().filter(|_| !self.data_loss_allowed);
        let losses = losses.filter_map(refusal::data_loss);
        let placed = |refusal| Refusal {
            file: self.place().map(str::to_owned),
            ..refusal
        };
        self.refusals.iter().cloned().chain(losses).map(placed).collect()
    }

    /// Where the file that is planned names its table.
    pub(super) fn place(&self) -> Option<&str> {
        match &self.goal {
            Goal::File(file) => Some(file.place()),
            Goal::Descriptor(_) => None,
        }
    }

    /// What is left as it is, and worth to be known.
    #[must_use]
    pub fn notes(&self) -> &[PlanNote] {
        &self.notes
    }

    /// How many regions are reopened one by one, so that the changes take effect.
    #[must_use]
    pub fn reopens(&self) -> usize {
        match &self.found {
            Some(found) if !self.changes.is_empty() && found.state == TableState::Enabled => {
                found.regions.len()
            }
            _ => 0,
        }
    }

    /// Whether the endpoint must answer on each region.
    pub(super) fn needs_endpoint(&self) -> bool {
        match &self.goal {
            Goal::File(file) => file.kind == TableKind::Transactions,
            Goal::Descriptor(wanted) => wanted.names_multi_row_mutation_endpoint(),
        }
    }

    /// The changes that are left to be done to a table that was changed.
    pub(super) fn unmet(&self, now: &TableDescriptor) -> Vec<Change> {
        let removed = |name: &Option<String>| {
            self.changes
                .iter()
                .any(|change| change.change == ChangeKind::RemoveAttribute && change.name == *name)
        };
        difference::difference(now, &self.wanted)
            .into_iter()
            // A server adds attributes of its own to a table that it makes.
            .filter(|left| left.change != ChangeKind::RemoveAttribute || removed(&left.name))
            .collect()
    }
}

/// The table as it is now; none where there is none. What the master has begun is waited for: half-way, a table looks
/// like no table that anybody wanted.
async fn look(connection: &Connection, table: &TableName) -> Result<Option<Found>> {
    let admin = connection.admin();
    admin.await_table_procedures(table).await?;
    let seen = async {
        Ok(Found {
            descriptor: admin.descriptor(table).await?,
            state: admin.state(table).await?,
            regions: admin.regions(table).await?,
        })
    };
    match seen.await {
        Ok(found) => Ok(Some(found)),
        Err(error) if Error::kind(&error) == ErrorKind::TableNotFound => Ok(None),
        Err(error) => Err(error.at_operation("looking at the table")),
    }
}

fn with_losses(found: &TableDescriptor, wanted: &TableDescriptor) -> Vec<Change> {
    let mut changes = difference::difference(found, wanted);
    for change in &mut changes {
        change.loses = loss::of(change, found);
    }
    changes
}

fn notes_of(file: &TableFile, found: &Found) -> Vec<PlanNote> {
    let note = |note, what| PlanNote {
        table: file.name().to_string(),
        note,
        what,
    };
    let mut notes: Vec<_> = note_of_state(file.name(), found.state).into_iter().collect();
    let left = merge::left_alone(&found.descriptor, file);
    if !left.is_empty() {
        notes.push(note(
            "left-alone",
            format!("not in the file, left alone: {}", left.join(", ")),
        ));
    }
    let boundaries: BTreeSet<&Bytes> = found
        .regions
        .iter()
        .map(|region| &region.region.start_key)
        .collect();
    let missing: Vec<_> = file
        .split_keys
        .iter()
        .filter(|key| !boundaries.contains(key))
        .collect();
    if let Some(first) = missing.first() {
        let what = format!(
            "{} of the file's {} split keys begin no region, {} first; the regions of a table that exists stay as they are",
            missing.len(),
            file.split_keys.len(),
            BytesBinary(first)
        );
        notes.push(note("splits-differ", what));
    }
    notes
}

fn note_of_state(table: &TableName, state: TableState) -> Option<PlanNote> {
    let disabled = matches!(state, TableState::Disabled | TableState::Disabling);
    disabled.then(|| PlanNote {
        table: table.to_string(),
        note: "table-disabled",
        what: format!(
            "the table is {state}: changes take effect when it is enabled, and nothing can be proven before"
        ),
    })
}

/// A lock or a latch is where its rows are, and needs no whole bucket.
fn note_of_buckets(cuts: Vec<Refusal>) -> Option<PlanNote> {
    let first = cuts.first()?;
    Some(PlanNote {
        table: first.table.clone(),
        note: "boundary-inside-bucket",
        what: format!(
            "{} region boundaries lie inside a bucket, {} first; hbase-txn table check says whether one cuts a lock",
            cuts.len(),
            first.boundary.as_deref().unwrap_or_default()
        ),
    })
}
