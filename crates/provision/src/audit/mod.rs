//! Problems of a cluster and its tables with transactions, locks and latches.
//!
//! | file | contents |
//! |---|---|
//! | `finding` | [`Finding`]: a problem and its text |
//! | `name` | the names of findings |
//! | `cluster` | versions, servers, clocks, switches: problems that affect every table |
//! | `clocks` | differences between clocks of region servers |
//! | `kdc_clock` | the difference between the clock of this machine and that of Kerberos |
//! | `table` | all problems of one table |
//! | `rule` | its partition rule, and boundaries that violate it |
//! | `endpoint` | the answers of its regions |
//! | `settings` | its attributes and families |
//! | `load` | regions that are too large, or receive too many requests |
//! | `rights` | the user's permissions |
//! | `lock_table` `latch_table` | problems of lock tables and latch tables |
//! | `family` | settings of one family |

mod buckets;
mod clocks;
mod cluster;
mod endpoint;
mod family;
mod finding;
#[cfg(feature = "kerberos")]
mod kdc_clock;
mod latch_table;
mod load;
mod lock_table;
mod name;
mod rights;
mod rule;
mod settings;
mod table;

#[cfg(not(feature = "kerberos"))]
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, future::join3, stream};
use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{Connection, IntoTableName, ServerName, TableDescriptor, TableName, TableRegion};
use hbase_txn::{ClientErrorKind, Result};
use tokio::time::Instant;

pub use self::finding::{Finding, Severity};
use self::{
    cluster::Cluster,
    table::{Found, Purpose},
};
pub(super) use self::{name::Name, rule::cut_text, table::of_descriptor};

/// The number of tables that are audited concurrently.
const AT_ONCE: usize = 4;

/// The findings of a cluster and its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterAudit {
    /// The HBase version of the master.
    pub version: String,
    /// The live region servers.
    pub servers: Vec<ServerName>,
    /// The tables that were audited.
    pub tables: Vec<TableName>,
    /// The number of their regions. Those of enabled tables were queried.
    pub regions: usize,
    /// The number of tables that were skipped, because they are not for transactions, locks or
    /// latches.
    pub skipped: usize,
    /// The clock of this machine compared with that of the key distribution centre of Kerberos, for
    /// people: `clock within 0.9 s of the KDC's`, or why they were not compared. `None` for a client
    /// without Kerberos.
    pub kdc_clock: Option<String>,
    /// The findings: first those of the cluster, then those of its tables.
    pub findings: Vec<Finding>,
}

/// Whether a table is for locks or latches, which have no partitions.
pub(super) fn is_for_locks_or_latches(descriptor: &TableDescriptor, regions: &[TableRegion]) -> bool {
    lock_table::is_one(descriptor, regions) || latch_table::is_one(descriptor, regions)
}

/// Finds all problems of a table with transactions, locks and latches. Changes nothing.
///
/// A table without the endpoint, and with a rule of a single byte or, without a rule, the boundaries at each
/// byte that the Java libraries create, is checked as a lock table if `D` is its only family, and as a latch
/// table if its families are `C` or `C` and `S`.
///
/// Queries each region for the endpoint, and whether it honours conditions. The findings include
/// problems of the cluster that concern the table: the master's version, switches, clocks, servers
/// that are down. Servers do not report their versions to clients, so a server that is too old for
/// conditions is detected by the answers of its regions.
///
/// A client can't read two settings. A partition rule in the servers' own configuration is not used
/// unless it is verified. A server that sets `hbase.hregion.keyvalue.timestamp.slop.millisecs` may
/// refuse transactions with an id, because the timestamps of their records are ahead by the table's
/// replay window.
///
/// # Errors
///
/// Returns [`TableNotFound`](ClientErrorKind::TableNotFound) if the table does not exist, or an
/// error if the master or `hbase:meta` does not answer. A region that does not answer is a finding,
/// and so is any other check that fails.
pub async fn audit_table(connection: &Connection, name: impl IntoTableName) -> Result<Vec<Finding>> {
    let name = &name.into_table_name()?;
    let deadline = Instant::now() + connection.config().operation_timeout();
    let admin = Admin::new(connection);
    let found = match Found::read(&admin, name, deadline).await {
        Err(error) if error.kind() == ClientErrorKind::AccessDenied => {
            return Ok(vec![rights::unreadable(connection, name).await]);
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

/// Finds all problems of a cluster with transactions, locks and latches: problems of the cluster
/// itself, and of these tables, or, if `tables` is empty, of all tables for this purpose that the
/// user can see. Changes nothing.
///
/// A client with Kerberos compares its clock with that of a key distribution centre, which may log a
/// request for a ticket for a server that it does not have.
///
/// With several region servers this takes up to ten seconds, because their clocks are compared by
/// the reports that they send every few seconds.
///
/// # Errors
///
/// Returns the errors of [`audit_table`]. If `tables` is empty, a table that is deleted meanwhile
/// is skipped.
pub async fn audit_cluster(connection: &Connection, tables: &[TableName]) -> Result<ClusterAudit> {
    let deadline = Instant::now() + connection.config().operation_timeout();
    let admin = Admin::new(connection);
    let cluster = &Cluster::observe(&admin, deadline).await?;
    let asked_for = !tables.is_empty();
    let names = if asked_for {
        tables.to_vec()
    } else {
        admin.until(deadline).tables().await?
    };
    let audited = stream::iter(names)
        .map(async |name| -> Result<_> {
            let found = match Found::read(&admin, &name, deadline).await {
                Err(error) if error.kind() == ClientErrorKind::TableNotFound && !asked_for => {
                    return Ok(None);
                }
                Err(error) if error.kind() == ClientErrorKind::AccessDenied => {
                    let finding = rights::unreadable(connection, &name).await;
                    return Ok(Some((name, Some((vec![finding], 0)))));
                }
                Err(error) if error.kind() == ClientErrorKind::TableNotFound => return Err(error),
                Err(error) => {
                    let finding = table::incomplete(&name, "the table", &error);
                    return Ok(Some((name, Some((vec![finding], 0)))));
                }
                Ok(found) => found,
            };
            if !asked_for && !found.is_ours() {
                return Ok(Some((name, None)));
            }
            match found.findings(connection, cluster, deadline).await {
                Ok(findings) => Ok(Some((name, Some((findings, found.regions()))))),
                Err(error) if error.kind() == ClientErrorKind::TableNotFound && !asked_for => Ok(None),
                Err(error) => Err(error),
            }
        })
        .buffered(AT_ONCE)
        .try_collect::<Vec<_>>();
    #[cfg(feature = "kerberos")]
    let kdc_clock = kdc_clock::compare(connection, deadline);
    #[cfg(not(feature = "kerberos"))]
    let kdc_clock = ready(None::<(String, Option<Finding>)>);
    let clocks = clocks::compare(&admin, deadline);
    let (audited, clocks, kdc_clock) = join3(audited, clocks, kdc_clock).await;
    let (kdc_clock, distant) = kdc_clock.unzip();
    let audited = audited?;
    let mut audit = ClusterAudit {
        version: cluster.info.version.clone(),
        servers: cluster.info.live_servers.clone(),
        tables: Vec::new(),
        regions: 0,
        skipped: 0,
        kdc_clock,
        findings: cluster.findings(),
    };
    audit.findings.extend(distant.flatten());
    audit.findings.extend(clocks);
    for (name, findings) in audited.into_iter().flatten() {
        match findings {
            Some((findings, regions)) => {
                audit.tables.push(name);
                audit.regions += regions;
                audit.findings.extend(findings);
            }
            None => audit.skipped += 1,
        }
    }
    Ok(audit)
}
