//! What is not as transactions, locks and latches need it.
//!
//! | file | what |
//! |---|---|
//! | `finding` | [`Finding`]: what an audit finds, and how it is told |
//! | `name` | the names of findings |
//! | `cluster` | versions, servers, clocks, switches: what concerns every table |
//! | `table` | everything about one table |
//! | `rule` | whether it states a partition rule, and its boundaries follow it |
//! | `endpoint` | what its regions answer |
//! | `settings` | its attributes and families |
//! | `load` | regions that are too large, or asked too much |
//! | `rights` | what the user may do |
//! | `lock_table` `latch_table` | what would stop a lock or a latch in one, or let it down |
//! | `family` | settings of a family, as findings name them |

mod cluster;
mod endpoint;
mod family;
mod finding;
mod latch_table;
mod load;
mod lock_table;
mod name;
mod rights;
mod rule;
mod settings;
mod table;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

pub use self::finding::{Finding, Grade};
use self::{
    cluster::Cluster,
    table::{Found, Purpose},
};
pub(super) use self::{
    lock_table::is_one as is_lock_table, name::Name, rule::cut_text, table::of_descriptor,
};
use crate::{
    client::Connection,
    error::{ErrorKind, Result},
    model::{ServerName, TableDescriptor, TableName},
};

/// Tables that are audited at a time.
const AT_ONCE: usize = 4;

/// What was found of a cluster and its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterAudit {
    /// HBase's version: the master's.
    pub version: String,
    /// The region servers that are up.
    pub servers: Vec<ServerName>,
    /// The tables that were audited.
    pub tables: Vec<TableName>,
    /// How many tables were left out, because nothing says that they are for transactions, locks or latches.
    pub left_out: usize,
    /// What was found: of the cluster first, then of its tables.
    pub findings: Vec<Finding>,
}

/// Whether a table is one for locks or latches, which have no partitions.
pub(super) fn is_for_locks_or_latches(descriptor: &TableDescriptor) -> bool {
    lock_table::is_one(descriptor) || latch_table::is_one(descriptor)
}

/// Finds everything that would stop a transaction, a lock or a latch on a table. Changes nothing.
///
/// A table without the endpoint and with no rule but one of a single byte is a lock table with the family `D` alone, and a
/// latch table with `C` alone or `C` and `S`: it is checked for what would stop its locks or latches, or let them down.
///
/// Each region is asked for the endpoint, and whether it honours conditions. What the cluster as a whole does to the table is
/// among the findings: the master's version, switches, clocks, servers that are down. Servers tell no client their versions: one
/// that is too old for conditions is found by what its regions answer.
///
/// Not seen from here: a rule in the servers' own configuration, on which nothing relies that is not proven; and
/// `hbase.hregion.keyvalue.timestamp.slop.millisecs`: a server that sets it may refuse transactions with an id, because
/// their records are stamped ahead by the table's replay window.
///
/// # Errors
///
/// [`TableNotFound`](ErrorKind::TableNotFound), and what stops the master and `hbase:meta` from answering. That a region does
/// not answer is a finding, and so is what else can't be looked at.
pub async fn audit_table(connection: &Connection, name: &TableName) -> Result<Vec<Finding>> {
    let deadline = Instant::now() + connection.config().operation_timeout();
    let admin = connection.admin();
    let found = match Found::read(&admin, name, deadline).await {
        Err(error) if error.kind() == ErrorKind::AccessDenied => {
            return Ok(vec![rights::unreadable(connection, name)]);
        }
        found => found?,
    };
    let cluster = Cluster::observe(&admin, deadline).await?;
    let mut findings = found.findings(connection, &cluster, deadline).await?;
    match found.purpose() {
        Purpose::Transactions => findings.extend(cluster.findings()),
        Purpose::Locks | Purpose::Latches => findings.extend(cluster.dead_servers()),
    }
    Ok(findings)
}

/// Finds everything that would stop a transaction, a lock or a latch on a cluster: of the cluster itself, and of these
/// tables, or of all that seem to be for that and that the user may see. Changes nothing.
///
/// # Errors
///
/// As [`audit_table`]. A table that goes away meanwhile is left out.
pub async fn audit_cluster(connection: &Connection, tables: &[TableName]) -> Result<ClusterAudit> {
    let deadline = Instant::now() + connection.config().operation_timeout();
    let admin = connection.admin();
    let cluster = &Cluster::observe(&admin, deadline).await?;
    let asked_for = !tables.is_empty();
    let names = match asked_for {
        true => tables.to_vec(),
        false => admin.until(deadline).tables().await?,
    };
    let audited: Vec<_> = stream::iter(names)
        .map(async |name| -> Result<_> {
            let found = match Found::read(&admin, &name, deadline).await {
                Err(error) if error.kind() == ErrorKind::TableNotFound && !asked_for => return Ok(None),
                Err(error) if error.kind() == ErrorKind::AccessDenied => {
                    let finding = rights::unreadable(connection, &name);
                    return Ok(Some((name, Some(vec![finding]))));
                }
                Err(error) if error.kind() == ErrorKind::TableNotFound => return Err(error),
                Err(error) => {
                    let finding = table::incomplete(&name, "the table", &error);
                    return Ok(Some((name, Some(vec![finding]))));
                }
                Ok(found) => found,
            };
            if !asked_for && !found.is_ours() {
                return Ok(Some((name, None)));
            }
            match found.findings(connection, cluster, deadline).await {
                Ok(findings) => Ok(Some((name, Some(findings)))),
                Err(error) if error.kind() == ErrorKind::TableNotFound && !asked_for => Ok(None),
                Err(error) => Err(error),
            }
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let mut audit = ClusterAudit {
        version: cluster.info.version.clone(),
        servers: cluster.info.live_servers.clone(),
        tables: Vec::new(),
        left_out: 0,
        findings: cluster.findings(),
    };
    for (name, findings) in audited.into_iter().flatten() {
        match findings {
            Some(findings) => {
                audit.tables.push(name);
                audit.findings.extend(findings);
            }
            None => audit.left_out += 1,
        }
    }
    Ok(audit)
}
