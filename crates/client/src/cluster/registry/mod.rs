//! The registry: the cluster's own record of where `hbase:meta` and the active master are.

mod rpc;
mod wanted;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, ready};
use tokio::time::{Instant, timeout_at};

use self::wanted::{Found, Wanted};
use super::{pause, region_cache::RegionLocation};
use crate::{
    config::{ClusterAddress, Config},
    error::{Error, ErrorKind, Result},
    model::{RegionInfo, ServerName},
    rpc::RpcClient,
};

/// Queries the registry within the registry timeout. Without an answer by then, the address is
/// wrong or the cluster is down, and waiting for the whole deadline would only hide that.
#[derive(Debug)]
pub(super) struct Registry {
    source: Source,
    address: ClusterAddress,
    timeout: Duration,
    pause: Duration,
    /// Whether the registry has ever answered. If it has not, a wrong address is more likely than a
    /// transient failure, so the failure is reported at once.
    reached: AtomicBool,
}

#[derive(Debug)]
enum Source {
    #[cfg(feature = "zookeeper")]
    ZooKeeper(zookeeper::ZooKeeperRegistry),
    Rpc(Arc<rpc::RpcRegistry>),
}

const FINDING_META: &str = "finding hbase:meta";
const STAGE: &str = "asking the registry";
const CHECK_ADDRESS: &str = "check the address, and that the cluster is up";

impl Registry {
    pub(super) fn new(config: &Config, rpc: Arc<RpcClient>) -> Self {
        let source = match config.address() {
            #[cfg(feature = "zookeeper")]
            ClusterAddress::ZooKeeper { quorum, znode } => {
                let access = zookeeper::Access::new(config, &rpc);
                Source::ZooKeeper(zookeeper::ZooKeeperRegistry::new(quorum, znode.clone(), access))
            }
            // Without the feature such an address cannot be created.
            #[cfg(not(feature = "zookeeper"))]
            ClusterAddress::ZooKeeper { quorum, .. } => {
                Source::Rpc(Arc::new(rpc::RpcRegistry::new(quorum.clone(), rpc)))
            }
            ClusterAddress::Rpc { servers } => {
                Source::Rpc(Arc::new(rpc::RpcRegistry::new(servers.clone(), rpc)))
            }
        };
        Self {
            source,
            address: config.address().clone(),
            timeout: config.registry_timeout(),
            pause: config.pause(),
            reached: AtomicBool::new(false),
        }
    }

    /// Starts to learn which servers serve the registry, if it is one over RPC.
    pub(super) fn keep_learning(&self) {
        match &self.source {
            #[cfg(feature = "zookeeper")]
            Source::ZooKeeper(_) => {}
            Source::Rpc(rpc) => rpc.keep_learning(self.timeout),
        }
    }

    /// Whether the registry has ever answered, so that a failure is worth another attempt.
    pub(super) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// Returns the location of `hbase:meta`, with its replicas if they are wanted.
    pub(super) async fn meta_location(&self, replicas: bool, deadline: Instant) -> Result<RegionLocation> {
        let asked_at = Instant::now();
        let Found { server, replicas } = self.ask(Wanted::Meta { replicas }, deadline).await?;
        Ok(RegionLocation {
            replicas,
            asked_at,
            ..RegionLocation::new(RegionInfo::meta(), server)
        })
    }

    /// Returns the active master.
    pub(super) async fn active_master(&self, deadline: Instant) -> Result<ServerName> {
        Ok(self.ask(Wanted::ActiveMaster, deadline).await?.server)
    }

    /// Returns the error of a query that was not answered in time.
    pub(super) fn no_answer(&self) -> Error {
        Error::new(ErrorKind::Unreachable, "no answer in time")
            .with_retryable(true)
            .with_hint(CHECK_ADDRESS)
            .at_operation(FINDING_META)
            .at_stage(STAGE)
            .at_server(&self.address)
    }

    /// Adds to the error of an address that does not answer what a check of it finds in the time that the
    /// caller has left.
    async fn examine(&self, error: Error, callers_deadline: Instant) -> Error {
        // Without its type, which would make those of all callers too deep for the compiler.
        let examined: BoxFuture<'_, Error> = match &self.source {
            #[cfg(feature = "zookeeper")]
            Source::ZooKeeper(zookeeper) => Box::pin(zookeeper.examine(error.clone())),
            Source::Rpc(_) => Box::pin(ready(error.clone())),
        };
        timeout_at(callers_deadline, examined).await.unwrap_or(error)
    }

    /// Returns the id of the cluster. Returns `None` if its servers do not report it to clients that
    /// are not authenticated.
    pub(super) async fn cluster_id(&self, deadline: Instant) -> Result<Option<String>> {
        let ask = |deadline| -> BoxFuture<'_, Result<Option<String>>> {
            match &self.source {
                #[cfg(feature = "zookeeper")]
                Source::ZooKeeper(zookeeper) => {
                    Box::pin(async move { zookeeper.cluster_id(deadline).await.map(Some) })
                }
                Source::Rpc(rpc) => Box::pin(async move { Ok(rpc.cluster_id(deadline).await) }),
            }
        };
        self.ask_repeatedly("finding the id of the cluster", deadline, ask)
            .await
    }

    async fn ask(&self, wanted: Wanted, callers_deadline: Instant) -> Result<Found> {
        let operation = match wanted {
            Wanted::Meta { .. } => FINDING_META,
            Wanted::ActiveMaster => "finding the active master",
        };
        let ask = |deadline| -> BoxFuture<'_, Result<Found>> {
            match &self.source {
                #[cfg(feature = "zookeeper")]
                Source::ZooKeeper(zookeeper) => Box::pin(zookeeper.ask(wanted, deadline)),
                Source::Rpc(rpc) => Box::pin(rpc.ask(wanted, deadline)),
            }
        };
        self.ask_repeatedly(operation, callers_deadline, ask).await
    }

    /// Repeats a query until it succeeds, fails for good, or the registry timeout passes.
    async fn ask_repeatedly<'a, T>(
        &'a self,
        operation: &'static str,
        callers_deadline: Instant,
        ask: impl Fn(Instant) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let deadline = callers_deadline.min(Instant::now() + self.timeout);
        let mut attempt = 1;
        let mut last = None;
        loop {
            let result = match timeout_at(deadline, ask(deadline)).await {
                Ok(result) => result,
                // The failure of an earlier attempt explains more than the end of the time.
                Err(_) => Err(last.take().unwrap_or_else(|| {
                    Error::new(ErrorKind::Unreachable, "no answer in time").with_retryable(true)
                })),
            };
            let error = match result {
                Ok(answer) => {
                    self.reached.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                // A timeout means that nothing answers at the address, whichever of the two
                // timeouts ended first.
                Err(error) if error.kind() == ErrorKind::DeadlineExceeded => {
                    let silent = Error::new(ErrorKind::Unreachable, "no answer in time");
                    // The answer of an earlier attempt explains more than the timeout of the last
                    // one.
                    last.take()
                        .unwrap_or_else(|| silent.with_source(error).with_retryable(true))
                }
                Err(error) => error,
            };
            let next = Instant::now() + pause::after_attempt(self.pause, attempt);
            if !error.is_retryable() || next >= deadline {
                let error = match error.hint() {
                    Some(_) => error,
                    None => self
                        .examine(error, callers_deadline)
                        .await
                        .with_hint(CHECK_ADDRESS),
                };
                return Err(error
                    .at_operation(operation)
                    .at_stage(STAGE)
                    .at_server(&self.address)
                    .at_attempt(attempt));
            }
            last = Some(error);
            tokio::time::sleep_until(next).await;
            attempt += 1;
        }
    }
}

#[cfg(all(test, feature = "zookeeper"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::rpc::TcpConnector;

    async fn meta_location_by(uri: &str) -> Result<RegionLocation> {
        let config = Config::from_uri(uri)?;
        let rpc = Arc::new(RpcClient::new(&config, Arc::new(TcpConnector)));
        let deadline = Instant::now() + Duration::from_millis(300);
        Registry::new(&config, rpc).meta_location(false, deadline).await
    }

    #[tokio::test]
    async fn each_host_that_gives_no_answer_is_listed_once() {
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = silent.local_addr().map(|address| (silent, address)).unwrap();
        let error = meta_location_by(&format!("hbase+zk://{free}/h"))
            .await
            .unwrap_err()
            .to_string();
        let plain =
            format!(": no ZooKeeper server answers: {free} refused the connection; check the address");
        assert!(error.contains(&plain), "{error}");
        let error = meta_location_by(&format!("hbase+zk://{free},{}/h", silent.1))
            .await
            .unwrap_err()
            .to_string();
        for host in [free, silent.1] {
            // Once in the address.
            assert_eq!(error.matches(&host.to_string()).count(), 2, "{error}");
        }
        let error = meta_location_by(&format!("hbase+rpc://{free},127.0.0.1:1"))
            .await
            .unwrap_err()
            .to_string();
        for host in [&free.to_string(), "127.0.0.1:1"] {
            let refused = format!("{host} refused the connection");
            assert_eq!(error.matches(&refused).count(), 1, "{error}");
        }
    }

    #[tokio::test]
    async fn examining_a_silent_quorum_stays_within_the_deadline() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("hbase+zk://{}/hbase", silent.local_addr().unwrap());
        let config = Config::from_uri(&uri).unwrap();
        let rpc = Arc::new(RpcClient::new(&config, Arc::new(TcpConnector)));
        let registry = Registry::new(&config, rpc);
        let began = Instant::now();
        let error = registry
            .meta_location(false, began + Duration::from_millis(300))
            .await
            .unwrap_err();
        assert!(
            began.elapsed() < Duration::from_millis(600),
            "{:?}",
            began.elapsed()
        );
        assert!(error.hint().unwrap().contains("check the address"), "{error}");
    }
}
