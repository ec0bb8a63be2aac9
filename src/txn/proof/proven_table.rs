//! A table and the facts that opening it has proven.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use hbase_client::{Environment, Table, TableName};

use super::{region_floor::RegionFloors, rule_watch::RuleWatch, servers::Servers, terms::Terms};
use crate::{
    partition::Partition,
    txn::{record::settlements::SeenSettlements, reserved_rows::CLOCK},
};

/// A table opened for transactions. Cheap to clone.
#[derive(Clone)]
pub(in crate::txn) struct ProvenTable {
    table: Table,
    proof: Arc<Proof>,
}

/// The facts that opening the table has proven, and the state that keeps them valid.
struct Proof {
    terms: Terms,
    watch: RuleWatch,
    servers: Servers,
    floors: RegionFloors,
    settlements: SeenSettlements,
}

impl ProvenTable {
    pub(in crate::txn) fn new(table: Table, terms: Terms, watch: RuleWatch) -> Self {
        let servers = Servers::new(Arc::clone(table.connection().environment()));
        Self {
            table,
            proof: Arc::new(Proof {
                terms,
                watch,
                servers,
                floors: RegionFloors::default(),
                settlements: SeenSettlements::default(),
            }),
        }
    }

    /// Returns the same table with other settings for its calls.
    pub(in crate::txn) fn map_table(self, map: impl FnOnce(Table) -> Table) -> Self {
        Self {
            table: map(self.table),
            proof: self.proof,
        }
    }

    pub(in crate::txn) fn table(&self) -> &Table {
        &self.table
    }

    pub(in crate::txn) fn environment(&self) -> &Arc<dyn Environment> {
        self.table.connection().environment()
    }

    pub(in crate::txn) fn name(&self) -> &TableName {
        self.table.name()
    }

    pub(in crate::txn) fn terms(&self) -> &Terms {
        &self.proof.terms
    }

    pub(in crate::txn) fn watch(&self) -> &RuleWatch {
        &self.proof.watch
    }

    pub(in crate::txn) fn servers(&self) -> &Servers {
        &self.proof.servers
    }

    pub(super) fn floors(&self) -> &RegionFloors {
        &self.proof.floors
    }

    /// Returns whether clocks can be compared with the server of a partition.
    pub(in crate::txn) fn compares_clocks(&self, partition: &Partition) -> bool {
        self.terms().replay_window.is_some() && partition.reserved_row(CLOCK).is_some()
    }

    /// Returns the settlements of transactions that this client has seen.
    pub(in crate::txn) fn settlements(&self) -> &SeenSettlements {
        &self.proof.settlements
    }

    /// Returns a weak reference, for a task that must not keep the table open.
    pub(in crate::txn) fn downgrade(&self) -> WeakTable {
        WeakTable {
            table: self.table.clone(),
            proof: Arc::downgrade(&self.proof),
        }
    }
}

impl fmt::Debug for ProvenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProvenTable").field(self.name()).finish()
    }
}

/// A weak reference to an open table.
pub(in crate::txn) struct WeakTable {
    table: Table,
    proof: Weak<Proof>,
}

impl WeakTable {
    pub(in crate::txn) fn upgrade(self) -> Option<ProvenTable> {
        let proof = self.proof.upgrade()?;
        let table = self.table;
        Some(ProvenTable { table, proof })
    }
}
