//! Boots and ends a real HBase on this machine: for the command `hbase-txn dev`, and for tests.
//!
//! A cluster has a name, a release of HBase and a [`Shape`]. It outlives the program that booted it, until somebody
//! calls [`LocalCluster::down`]. It needs Linux, a Java, and once for each release Maven.
//!
//! | file | what is there |
//! |---|---|
//! | `cluster` | [`LocalCluster`]: up, down, status, kill, start |
//! | `options`, `version`, `role`, `status` | what is asked for, and what is answered |
//! | `layout`, `state`, `lock` | folders and files, what is remembered between commands, one command at a time |
//! | `java`, `jars`, `config`, `ports` | what a boot needs |
//! | `server`, `process` | Java processes, and how a process is known to be ours |
//! | `boot`, `ready`, `shutdown`, `wait` | the steps up and down, each with a deadline |
//! | `diagnose` | why a server died, from its log |
//!
//! What must stay true:
//!
//! - No process gets a signal that is not surely of this cluster: by pid, start time, boot of the machine, and the
//!   identity of the cluster on its command line.
//! - Whatever a killed command leaves, the next one finds by that identity and brings in order.
//! - Every wait has a deadline. Nothing listens outside 127.0.0.1. No file is outside the cluster's folder, but jars.

mod boot;
mod cluster;
mod config;
mod diagnose;
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
    layout::Home,
    options::BootOptions,
    role::Shape,
    status::{ClusterState, ClusterStatus},
    version::HBaseVersion,
};
use crate::error::{Error, ErrorKind};

/// Is told each step of long work when it begins.
type Progress = Arc<dyn Fn(&str) + Send + Sync>;

fn failure(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::LocalCluster, what)
}
