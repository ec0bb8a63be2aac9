//! A real HBase on this machine, for development and tests.
//!
//! A cluster has a name, a release of HBase and a [`Shape`]. It keeps running after the program
//! that booted it has ended, until [`LocalCluster::down`] is called. It requires Linux, Java, and
//! Maven once for each release.
//!
//! | file | contents |
//! |---|---|
//! | `cluster` | [`LocalCluster`]: up, down, status, kill, start |
//! | `options`, `version`, `role`, `status` | options of a boot, and the status of a cluster |
//! | `layout`, `state`, `lock` | folders and files, state between commands, one command at a time |
//! | `java`, `jars`, `config`, `properties`, `ports`, `kerberos`, `tls` | requirements of a boot |
//! | `client_conf` | the configuration that clients of a guarded cluster need |
//! | `server`, `process` | Java processes, and their identification |
//! | `boot`, `ready`, `shutdown`, `wait` | the steps of start and stop, each with a deadline |
//! | `diagnose`, `logs` | causes of a server's death, from its log; the last lines of logs |
//!
//! Invariants:
//!
//! - A process gets a signal only if it certainly belongs to this cluster, identified by pid, start
//!   time, boot of the machine, and the identity of the cluster on its command line.
//! - The next command finds the leftovers of a killed command by that identity and repairs them.
//! - Every wait has a deadline. No server listens outside 127.0.0.1. All files except jars are in
//!   the cluster's folder.

mod boot;
mod client_conf;
mod cluster;
mod config;
mod diagnose;
mod error;
mod jars;
mod java;
mod kerberos;
mod layout;
mod lock;
mod logs;
mod options;
mod ports;
mod process;
mod properties;
mod ready;
mod role;
mod server;
mod shutdown;
mod state;
mod status;
mod tls;
mod version;
mod wait;

use std::{borrow::Cow, sync::Arc};

pub use self::{
    cluster::LocalCluster,
    error::{Error, ErrorKind, Result},
    layout::Home,
    logs::ProcessLog,
    options::BootOptions,
    role::Shape,
    status::{ClusterState, ClusterStatus},
    version::HBaseVersion,
};

/// A callback that is called when a step of long work begins.
type Progress = Arc<dyn Fn(&str) + Send + Sync>;

fn failure(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Cluster, what)
}
