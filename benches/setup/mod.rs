//! Shared by the benches: a cluster, a table that is dropped, and figures.

#![allow(dead_code, reason = "every bench has this module, and uses a part of it")]

use std::{error, fmt, time::Duration};

use hbase_local::{ClusterStatus, LocalCluster};
use hbase_txn::{
    PartitionRule, TableDescriptorExt,
    admin::Admin,
    client::{Config, Connection, FamilyDescriptor, TableDescriptor, TableName},
};

/// The name of a local cluster.
pub(crate) const CLUSTER: &str = "HBASE_TXN_BENCH_CLUSTER";

/// The variable with the folder of a client's configuration.
pub(crate) const CONF_DIR: &str = "HBASE_CONF_DIR";

pub(crate) type Failure = Box<dyn error::Error + Send + Sync>;

/// A table on the cluster of the bench: partitions by the first three bytes, the family `f`, and
/// the family of records.
pub(crate) struct Bench {
    pub(crate) connection: Connection,
    pub(crate) table: TableName,
}

impl Bench {
    pub(crate) async fn begin(what: &str) -> Result<Self, Failure> {
        let name = std::env::var(CLUSTER)
            .map_err(|_| format!("{CLUSTER} names no local cluster; make bench boots one"))?;
        let status = LocalCluster::new(&name)?.status()?;
        let connection = Connection::builder(config(&status)?).connect().await?;
        let table: TableName = format!("bench_{what}_{:08x}", fastrand::u32(..)).parse()?;
        let descriptor = TableDescriptor::from(table.clone())
            .with_family(FamilyDescriptor::new("f"))
            .with_partition_rule(&PartitionRule::prefix_length(3)?)
            .with_multi_row_mutation_endpoint()
            .with_record_family();
        Admin::new(&connection).create_table(&descriptor, &[]).await?;
        Ok(Self { connection, table })
    }

    /// Deletes the table.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        Admin::new(&self.connection).delete_table(&self.table).await?;
        Ok(())
    }
}

/// Returns the configuration of a client. A cluster with Kerberos or TLS has a folder for it.
pub(crate) fn config(cluster: &ClusterStatus) -> Result<Config, Failure> {
    Ok(match cluster.environment.get(CONF_DIR) {
        Some(folder) => Config::from_conf_dir(folder)?,
        None => Config::from_uri(cluster.uri.as_ref().ok_or("the cluster does not run")?)?,
    })
}

/// Returns whether only the short form is requested, which checks no limits.
pub(crate) fn is_short() -> bool {
    std::env::args().any(|argument| argument == "--short")
}

/// The times of commits.
pub(crate) struct Times {
    sorted: Vec<Duration>,
}

impl Times {
    pub(crate) fn of(tasks: impl IntoIterator<Item = Vec<Duration>>) -> Result<Self, Failure> {
        let mut sorted: Vec<Duration> = tasks.into_iter().flatten().collect();
        sorted.sort_unstable();
        if sorted.is_empty() {
            Err("nothing was committed".into())
        } else {
            Ok(Self { sorted })
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn median(&self) -> Millis {
        self.at(0.5)
    }

    /// The 99th percentile.
    pub(crate) fn high(&self) -> Millis {
        self.at(0.99)
    }

    fn at(&self, share: f64) -> Millis {
        let place = (self.sorted.len() as f64 * share) as usize;
        Millis(self.sorted[place.min(self.sorted.len() - 1)].as_secs_f64() * 1_000.0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Millis(pub(crate) f64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} ms", self.0))
    }
}

/// Returns the median; of an even number of values the upper one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
