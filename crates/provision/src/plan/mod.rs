//! The changes that turn the table on a cluster into the wanted one.
//!
//! | file | contents |
//! |---|---|
//! | `change` | changes, refusals, notes, and their texts |
//! | `export` | writes a file that describes an existing table |
//! | `merge` | merges the statements of a file into an existing table |
//! | `difference` | the changes between two descriptors |
//! | `loss` | data loss by a change |
//! | `refusal` | the reasons why a plan can't be applied |

mod change;
mod difference;
mod export;
mod loss;
mod merge;
pub(super) mod refusal;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeSet};

use bytes::Bytes;
use hbase_admin::Admin;
use hbase_client::{
    BytesBinary, Connection, IntoTableName, TableDescriptor, TableName, TableRegion, TableState,
};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, PartitionRule, Result, TableDescriptorExt};

pub use change::{Change, ChangeKind, PlanNote, Refusal};
pub use export::{ExportedTable, export_table};

use super::{
    alteration::TableAlteration,
    audit::is_for_locks_or_latches,
    file::{TableFile, TableKind},
};

/// The name of the note on settings that the file does not state.
const LEFT_ALONE: &str = "left-alone";

/// The changes that give a table the wanted form. Reading a plan changes nothing;
/// [`apply`](Self::apply) applies the changes.
///
/// # Example
///
/// ```
/// use hbase_provision::{Plan, TableFile};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// let file = TableFile::parse(
///     "orders.toml",
///     r#"
///         table = "orders"
///         partition = { prefix_length = 3 }
///         family = [{ name = "f" }]
///     "#,
/// )?;
/// let plan = Plan::read(&connection, &file).await?;
/// for change in plan.changes() {
///     println!("{} {change}", change.sign());
/// }
/// plan.apply(&connection, &()).await?;
/// assert!(Plan::read(&connection, &file).await?.changes().is_empty());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) goal: Goal,
    pub(super) found: Option<Found>,
    /// The wanted table.
    pub(super) wanted: TableDescriptor,
    changes: Vec<Change>,
    refusals: Vec<Refusal>,
    notes: Vec<PlanNote>,
    allowed_losses: BTreeSet<String>,
    is_strict: bool,
    signature: Option<String>,
}

/// The target of a plan.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// A table as described by a file.
    File(TableFile),
    /// An existing table with another, complete descriptor.
    Descriptor,
    /// An existing table with changes of single settings.
    Alteration(Box<TableAlteration>),
}

/// An existing table.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) descriptor: TableDescriptor,
    pub(super) state: TableState,
    pub(super) regions: Vec<TableRegion>,
}

impl Plan {
    /// The attribute with the signature of a table's last change, set by [`sign`](Self::sign). Plans and exported
    /// files disregard it.
    pub const LAST_CHANGE: &str = "hbase-txn.last-change";

    /// Reads the cluster and plans the changes that give the table the form described by the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the master or `hbase:meta` does not answer; the error names the
    /// [`place`](TableFile::place) in the file. Changes that can't be applied are not errors but
    /// [`refusals`](Self::refusals).
    pub async fn read(connection: &Connection, file: &TableFile) -> Result<Self> {
        let seen = async {
            let found = look(connection, file.name()).await?;
            let namespace = file.name().namespace();
            let exists = found.is_some() || Admin::new(connection).namespace_exists(namespace).await?;
            Ok((found, exists))
        };
        let (found, namespace_exists) = seen
            .await
            .map_err(|error: Error| error.at_table(file.name()).within(file.place()))?;
        Ok(Self::to_file(file, found, namespace_exists))
    }

    /// Reads an existing table and plans the changes that give it this descriptor. The descriptor
    /// is complete: attributes and families that it does not name are removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the table does not exist
    /// ([`TableNotFound`](ClientErrorKind::TableNotFound)), if the descriptor is not valid for any
    /// table ([`InvalidInput`](ClientErrorKind::InvalidInput)), or if the master or `hbase:meta`
    /// does not answer.
    pub async fn read_for(connection: &Connection, wanted: &TableDescriptor) -> Result<Self> {
        wanted.check().map_err(|error| error.at_table(&wanted.name))?;
        let found = look_at_existing(connection, &wanted.name).await?;
        Ok(Self::to_descriptor(wanted, found))
    }

    /// Reads an existing table and plans changes of single settings. [`apply`](Self::apply) computes them
    /// again on the table as it is then, so that changes of others are kept.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_for`](Self::read_for), and
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) if an attribute is set on a family that the table
    /// does not have.
    pub async fn read_alteration(
        connection: &Connection,
        table: impl IntoTableName,
        alteration: &TableAlteration,
    ) -> Result<Self> {
        let found = look_at_existing(connection, &table.into_table_name()?).await?;
        let wanted = alteration.of(&found.descriptor)?;
        wanted.check().map_err(|error| error.at_table(&wanted.name))?;
        Ok(Self {
            goal: Goal::Alteration(Box::new(alteration.clone())),
            ..Self::to_descriptor(&wanted, found)
        })
    }

    /// Plans again for the table as it is now.
    ///
    /// # Errors
    ///
    /// Returns an error if a change is refused, or was not planned before.
    pub(super) async fn renew(&mut self, connection: &Connection) -> Result<()> {
        let mut now = match &self.goal {
            Goal::File(file) => Self::read(connection, file).await?,
            Goal::Descriptor => Self::read_for(connection, &self.wanted).await?,
            Goal::Alteration(alteration) => {
                Self::read_alteration(connection, &self.wanted.name, alteration).await?
            }
        };
        if let Some(other) = now.changes.iter().find(|change| !self.changes.contains(change)) {
            let what = format!(
                "the table was changed since it was planned, and another change is needed now: {} {other}",
                other.sign()
            );
            return Err(Error::new(ErrorKind::Conflict, what).with_hint("plan again"));
        }
        if self.is_strict {
            now = now.strict();
        }
        now.allowed_losses = std::mem::take(&mut self.allowed_losses);
        now.signature = self.signature.take();
        *self = now;
        refusal::error(self.table(), &self.refusals()).map_or(Ok(()), Err)
    }

    fn to_file(file: &TableFile, found: Option<Found>, namespace_exists: bool) -> Self {
        let mut plan = Self {
            goal: Goal::File(file.clone()),
            wanted: file.descriptor(),
            found,
            changes: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
            allowed_losses: BTreeSet::new(),
            is_strict: false,
            signature: None,
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
                let nothing = TableDescriptor::from(file.name().clone());
                plan.changes
                    .extend(difference::difference(&nothing, &plan.wanted));
            }
        }
        plan
    }

    fn to_descriptor(wanted: &TableDescriptor, found: Found) -> Self {
        let wanted = &unsigned(wanted.clone());
        let changes = with_losses(&found.descriptor, wanted);
        let new_rule = changes.iter().any(|change| change.change == ChangeKind::SetRule);
        let rule = PartitionRule::from_descriptor(wanted).ok();
        let rule = rule.filter(|_| new_rule && !is_for_locks_or_latches(wanted, &found.regions));
        Self {
            goal: Goal::Descriptor,
            wanted: wanted.clone(),
            refusals: refusal::boundaries(wanted, rule.as_ref(), &found.regions),
            notes: note_of_state(&wanted.name, found.state).into_iter().collect(),
            found: Some(found),
            changes,
            allowed_losses: BTreeSet::new(),
            is_strict: false,
            signature: None,
        }
    }

    fn lacks_namespace(&mut self, file: &TableFile) {
        if file.create_namespace {
            self.changes.push(Change {
                name: Some(file.name().namespace().to_owned()),
                ..Change::new(file.name(), ChangeKind::CreateNamespace)
            });
        } else {
            self.refusals.push(refusal::namespace_missing(file.name()));
        }
    }

    /// Allows a change that loses data, by its [name](Change::loss).
    #[must_use]
    pub fn allow_data_loss(mut self, loss: impl Into<String>) -> Self {
        self.allowed_losses.insert(loss.into());
        self
    }

    /// Refuses the plan if the table has settings that the file does not state: attributes of the table or of its
    /// families, or a family's `CONFIGURATION`, whose values are not HBase's defaults. Without this they are a
    /// note. Region boundaries and other tables are not compared.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        if let (Goal::File(file), Some(found)) = (&self.goal, &self.found) {
            let left = merge::left_alone(&found.descriptor, file);
            let refused = left
                .iter()
                .map(|setting| refusal::not_in_file(file.name(), setting));
            self.refusals.extend(refused);
            self.notes.retain(|note| note.note != LEFT_ALONE);
        }
        self
    }

    /// Sets a signature, such as time and user. An application that creates or changes the table stores it as the
    /// table's attribute [`LAST_CHANGE`](Self::LAST_CHANGE); one without a signature removes an earlier one, which
    /// is not of the last change any more.
    #[must_use]
    pub fn sign(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }

    /// Returns the table as the application sends it.
    pub(super) fn signed(&self) -> Cow<'_, TableDescriptor> {
        match &self.signature {
            Some(signature) => {
                let wanted = self.wanted.clone();
                Cow::Owned(wanted.with_attribute(Self::LAST_CHANGE, signature.clone()))
            }
            None => Cow::Borrowed(&self.wanted),
        }
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.wanted.name
    }

    /// Returns the changes; empty if the table has the wanted form.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the reasons why the plan can't be applied; empty if it can be applied.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let losses = self.changes.iter().filter_map(|change| {
            let loss = change.loss()?;
            (!self.allowed_losses.contains(&loss)).then(|| refusal::data_loss(change, &loss))
        });
        let placed = |refusal| Refusal {
            file: self.place().map(str::to_owned),
            ..refusal
        };
        self.refusals.iter().cloned().chain(losses).map(placed).collect()
    }

    /// Returns the position of the table's name in the file.
    pub(super) fn place(&self) -> Option<&str> {
        match &self.goal {
            Goal::File(file) => Some(file.place()),
            Goal::Descriptor | Goal::Alteration(_) => None,
        }
    }

    /// Returns notes on settings that stay unchanged.
    #[must_use]
    pub fn notes(&self) -> &[PlanNote] {
        &self.notes
    }

    /// Returns the number of regions that are reopened to apply the changes: all at once, unless the
    /// master's `hbase.reopen.table.regions.progressive.batch.size.max` (2.6 and later) limits them.
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
            Goal::Descriptor | Goal::Alteration(_) => self.wanted.names_multi_row_mutation_endpoint(),
        }
    }

    /// Returns the changes that are still missing after an application.
    pub(super) fn unmet(&self, now: &TableDescriptor) -> Vec<Change> {
        let removed = |name: &Option<String>| {
            self.changes
                .iter()
                .any(|change| change.change == ChangeKind::RemoveAttribute && change.name == *name)
        };
        difference::difference(now, &self.wanted)
            .into_iter()
            // A server adds attributes of its own to a table that it creates.
            .filter(|left| left.change != ChangeKind::RemoveAttribute || removed(&left.name))
            .collect()
    }
}

/// Reads the existing table, or returns `None`. Waits for procedures of the master, because a table
/// in transition has no descriptor to compare.
async fn look(connection: &Connection, table: &TableName) -> Result<Option<Found>> {
    let admin = Admin::new(connection);
    admin.await_table_procedures(table).await?;
    let seen = async {
        Ok(Found {
            descriptor: unsigned(admin.descriptor(table).await?),
            state: admin.state(table).await?,
            regions: admin.regions(table).await?,
        })
    };
    match seen.await {
        Ok(found) => found.descriptor.check_features().map(|()| Some(found)),
        Err(error) if Error::kind(&error) == ClientErrorKind::TableNotFound => Ok(None),
        Err(error) => Err(error.at_operation("looking at the table")),
    }
}

fn unsigned(mut table: TableDescriptor) -> TableDescriptor {
    table.attributes.remove(Plan::LAST_CHANGE.as_bytes());
    table
}

async fn look_at_existing(connection: &Connection, table: &TableName) -> Result<Found> {
    let found = look(connection, table).await?;
    found.ok_or_else(|| Error::new(ClientErrorKind::TableNotFound, "no such table").at_table(table))
}

fn with_losses(found: &TableDescriptor, wanted: &TableDescriptor) -> Vec<Change> {
    let mut changes = difference::difference(found, wanted);
    for change in &mut changes {
        change.loses = loss::of(change, found, wanted);
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
        let left: Vec<_> = left.into_iter().map(|setting| setting.what).collect();
        let what = format!("not in the file, left alone: {}", left.join(", "));
        notes.push(note(LEFT_ALONE, what));
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
            "{} of the file's {} split keys are not region boundaries, the first is {}; the regions of an existing table stay \
             as they are",
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
            "the table is {state}: changes take effect when it is enabled, and can't be verified before"
        ),
    })
}

/// A lock or latch is located by its rows and does not need an undivided bucket.
fn note_of_buckets(cuts: Vec<Refusal>) -> Option<PlanNote> {
    let first = cuts.first()?;
    Some(PlanNote {
        table: first.table.clone(),
        note: "boundary-inside-bucket",
        what: format!(
            "{} region boundaries are inside a bucket, the first is {}; an audit of the table finds those that split a lock",
            cuts.len(),
            first.boundary.as_deref().unwrap_or_default()
        ),
    })
}
