//! A real HBase on this machine, for development and tests.
//!
//! A cluster has a name, a release of HBase and a [`Shape`]. It outlives the program that booted
//! it, until [`LocalCluster::down`] is called. It needs Linux, Java, and Maven once for each
//! release.
//!
//! | file | contents |
//! |---|---|
//! | `cluster` | [`LocalCluster`]: up, down, status, kill, start |
//! | `options`, `version`, `role`, `status` | requests and answers |
//! | `layout`, `state`, `lock` | folders and files, state between commands, one command at a time |
//! | `java`, `jars`, `config`, `ports` | requirements of a boot |
//! | `server`, `process` | Java processes, and the proof that a process is ours |
//! | `boot`, `ready`, `shutdown`, `wait` | the steps up and down, each with a deadline |
//! | `diagnose` | causes of a server's death, from its log |
//!
//! Invariants:
//!
//! - Only a process that certainly belongs to this cluster gets a signal: by pid, start time, boot
//!   of the machine, and the identity of the cluster on its command line.
//! - The next command finds the leftovers of a killed command by that identity and repairs them.
//! - Every wait has a deadline. No server listens outside 127.0.0.1. All files but jars are in
//!   the cluster's folder.

mod boot;
mod cluster;
mod config;
mod diagnose;
mod error;
mod jars;
mod java;
mod layout;
mod lock;
mod options;
mod ports;
mod process;
mod ready;
mod role;
mod server;
mod shutdown;
mod state;
mod status;
mod version;
mod wait;

use std::{borrow::Cow, sync::Arc};

pub use self::{
    cluster::LocalCluster,
    error::{Error, ErrorKind, Result},
    layout::Home,
    options::BootOptions,
    role::Shape,
    status::{ClusterState, ClusterStatus},
    version::HBaseVersion,
};

/// A callback for each step of long work when it begins.
type Progress = Arc<dyn Fn(&str) + Send + Sync>;

fn failure(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Cluster, what)
}
