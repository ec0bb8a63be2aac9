//! The fake cluster that the suite runs on with `HBASE_TXN_TEST_STANDALONE=fake`.

use std::{
    future::pending,
    sync::{OnceLock, mpsc},
    thread,
};

use hbase_fake::FakeHBase;

use super::{Cluster, Status};

/// Returns the fake cluster of this process, which all of its tests share.
pub(super) fn cluster() -> Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(start).clone()
}

/// Starts a cluster on a thread of its own, because it outlives the runtime of each test.
fn start() -> Cluster {
    let (started, cluster) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let hbase = FakeHBase::builder().listen().await.unwrap();
            started.send(describe(&hbase)).unwrap();
            pending::<()>().await;
        });
    });
    cluster.recv().unwrap()
}

fn describe(hbase: &FakeHBase) -> Cluster {
    let ports = [(0, "region-server"), (1, "master")];
    Cluster {
        uri: hbase.uri(),
        rpc_uri: hbase.uri(),
        status: Status {
            name: "fake".to_owned(),
            version: Some("2.6.4".parse().unwrap()),
            ports: ports
                .map(|(server, name)| (name.to_owned(), hbase.server(server).address().1))
                .into(),
            environment: [].into(),
        },
    }
}
