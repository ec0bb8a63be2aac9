//! The registry over RPC, which masters and, from 2.5 on, region servers serve.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{
    super::staggered,
    wanted::{Found, MAX_REPLICAS, Wanted},
};
use crate::{
    config::HostPort,
    error::{Error, ErrorKind, Result},
    model::ServerName,
    rpc::{
        AttemptLimit, CHECK_THE_SERVER, Call, CallError, CallOptions, Recovery, RpcClient, ServiceKind,
        no_connection,
    },
    wire::{convert, pb},
};

/// The number of servers that are queried at the same time, as in HBase's own clients.
const FAN_OUT: usize = 2;
/// How long queried servers may be silent before another one is queried.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of learnt servers that are kept. Servers name 10 at most unless they are configured to
/// name more.
const MAX_NODES: usize = 16;
/// When a client asks for these servers: a while after it has connected, and then at intervals, as
/// HBase's own client does.
const FIRST_LESSON: Duration = Duration::from_secs(10);
const LESSONS: Duration = Duration::from_secs(300);

/// Queries the servers of the address, and those that their answers named.
#[derive(Debug)]
pub(super) struct RpcRegistry {
    rpc: Arc<RpcClient>,
    configured: Vec<HostPort>,
    /// Servers that earlier answers named, queried when the configured ones are silent.
    learnt: Mutex<Learnt>,
    /// The task that learns of new servers, which ends with the registry.
    learning: OnceLock<AbortHandle>,
}

#[derive(Debug, Default)]
struct Learnt {
    /// The server of the last answer, and the one that it named.
    answered: Vec<HostPort>,
    /// Servers that serve the registry, as one of them has named them.
    nodes: Vec<HostPort>,
}

impl RpcRegistry {
    pub(super) fn new(servers: Vec<HostPort>, rpc: Arc<RpcClient>) -> Self {
        Self {
            rpc,
            configured: servers,
            learnt: Mutex::default(),
            learning: OnceLock::new(),
        }
    }

    /// Queries the servers in random order, a few at a time. The first answer decides.
    pub(super) async fn ask(&self, wanted: Wanted, deadline: Instant) -> Result<Found> {
        let query = |server: HostPort| async move {
            match self.ask_one(&server, wanted, deadline).await {
                Ok(Some(found)) => Ok((found, server)),
                Ok(None) => Err((None, server)),
                Err(error) => Err((Some(error), server)),
            }
        };
        match staggered::first_answer(self.servers(), FAN_OUT, PATIENCE, query).await {
            Ok((found, server)) => {
                self.learnt().answered = vec![server, HostPort::of(&found.server)];
                Ok(found)
            }
            Err(failures) => Err(no_answer(failures)),
        }
    }

    /// Queries the servers for the id of the cluster. Returns `None` if no server answers.
    pub(super) async fn cluster_id(&self, deadline: Instant) -> Option<String> {
        let mut servers = self.configured.clone();
        fastrand::shuffle(&mut servers);
        let query = |server: HostPort| async move { self.rpc.cluster_id(&server).await.ok_or(()) };
        let answer = staggered::first_answer(servers, FAN_OUT, PATIENCE, query);
        timeout_at(deadline, answer).await.ok()?.ok()
    }

    /// Starts a task that asks for the servers of the registry at intervals, each time within a limit.
    pub(super) fn keep_learning(self: &Arc<Self>, limit: Duration) {
        let registry = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            sleep(FIRST_LESSON).await;
            while let Some(registry) = registry.upgrade() {
                registry.learn_nodes(Instant::now() + limit).await;
                drop(registry);
                sleep(LESSONS).await;
            }
        });
        let _ = self.learning.set(task.abort_handle());
    }

    /// Asks for the servers that serve the registry now, so that the client outlives the replacement of
    /// all servers that it knows. Without an answer the former ones stay.
    async fn learn_nodes(&self, deadline: Instant) {
        let query = |server: HostPort| async move { self.nodes_of(&server, deadline).await };
        let answer = staggered::first_answer(self.servers(), FAN_OUT, PATIENCE, query);
        if let Ok(Ok(nodes)) = timeout_at(deadline, answer).await {
            tracing::debug!(?nodes, "learnt the servers of the registry");
            self.learnt().nodes = nodes;
        }
    }

    /// Returns the servers that one of them names. Before 2.5 these are the masters.
    async fn nodes_of(&self, server: &HostPort, deadline: Instant) -> Result<Vec<HostPort>, CallError> {
        let request = pb::GetBootstrapNodesRequest {};
        let call = self.call(server, "GetBootstrapNodes", &request, deadline);
        let names = match self.rpc.call(call).await {
            Ok((answer, _)) => {
                let answer: pb::GetBootstrapNodesResponse = answer;
                answer.server_name
            }
            Err(CallError::Remote(_)) => {
                let request = pb::GetMastersRequest {};
                let call = self.call(server, "GetMasters", &request, deadline);
                let (answer, _): (pb::GetMastersResponse, _) = self.rpc.call(call).await?;
                let masters = answer.master_servers.into_iter();
                masters.map(|master| master.server_name).collect()
            }
            Err(error) => return Err(error),
        };
        let nodes = names.iter().filter_map(|name| convert::server_name(name).ok());
        let mut nodes: Vec<_> = nodes.map(|name| HostPort::of(&name)).collect();
        fastrand::shuffle(&mut nodes);
        nodes.truncate(MAX_NODES);
        if nodes.is_empty() {
            return Err(CallError::BadAnswer("it names no server".into()));
        }
        Ok(nodes)
    }

    /// Returns the servers to query, in this order: the configured ones, then those of earlier answers.
    fn servers(&self) -> Vec<HostPort> {
        let mut servers = self.configured.clone();
        fastrand::shuffle(&mut servers);
        let learnt = self.learnt();
        for server in learnt.answered.iter().chain(&learnt.nodes) {
            if !servers.contains(server) {
                servers.push(server.clone());
            }
        }
        servers
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask_one(
        &self,
        server: &HostPort,
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<Option<Found>, CallError> {
        let bad_answer = |why: convert::ConvertError| CallError::BadAnswer(why.to_string().into());
        let (name, replicas) = match wanted {
            Wanted::Meta { replicas } => {
                let request = pb::GetMetaRegionLocationsRequest {};
                let call = self.call(server, "GetMetaRegionLocations", &request, deadline);
                let (answer, _): (pb::GetMetaRegionLocationsResponse, _) = self.rpc.call(call).await?;
                meta_servers(answer.meta_locations, replicas)
            }
            Wanted::ActiveMaster => {
                let request = pb::GetActiveMasterRequest {};
                let call = self.call(server, "GetActiveMaster", &request, deadline);
                let (answer, _): (pb::GetActiveMasterResponse, _) = self.rpc.call(call).await?;
                (answer.server_name, Vec::new())
            }
        };
        let Some(name) = name else {
            return Ok(None);
        };
        Ok(Some(Found {
            server: convert::server_name(&name).map_err(bad_answer)?,
            replicas,
        }))
    }

    fn call<'a, M>(
        &self,
        server: &'a HostPort,
        method: &'static str,
        request: &'a M,
        deadline: Instant,
    ) -> Call<'a, M> {
        Call {
            server,
            service: ServiceKind::Registry,
            options: CallOptions::default(),
            method,
            request,
            cells: Bytes::new(),
            priority: None,
            limit: AttemptLimit::new(deadline, true),
        }
    }
}

impl Drop for RpcRegistry {
    fn drop(&mut self) {
        if let Some(learning) = self.learning.get() {
            learning.abort();
        }
    }
}

/// Returns the server of the default replica, which may be missing, and those of the others.
fn meta_servers(
    locations: Vec<pb::RegionLocation>,
    replicas: bool,
) -> (Option<pb::ServerName>, Vec<(u16, ServerName)>) {
    let (mut primary, mut others) = (None, Vec::new());
    for location in locations {
        let id = location.region_info.replica_id.unwrap_or(0);
        match (u16::try_from(id), location.server_name) {
            (Ok(0), server) => primary = primary.or(server),
            // A replica that can't be read is not there.
            (Ok(id @ 1..=MAX_REPLICAS), Some(server)) if replicas => {
                others.extend(convert::server_name(&server).map(|server| (id, server)));
            }
            _ => {}
        }
    }
    (primary, others)
}

/// Describes the last failure of a server, or those of all if none of them can be dialled. Servers that do
/// not know the answer are reported only if all others do not know it either.
fn no_answer(failures: Vec<(Option<CallError>, HostPort)>) -> Error {
    let undialled = failures.iter().map(|(error, server)| match error {
        Some(CallError::Dial(error)) => Some(format!("{server} {}", no_connection(error))),
        Some(error @ CallError::DialTimeout(_)) => Some(format!("{server}: {error}")),
        _ => None,
    });
    let undialled: Option<Vec<_>> = undialled.collect();
    if let Some(servers) = undialled.filter(|servers| servers.len() > 1) {
        let error = Error::new(ErrorKind::Unreachable, "no server of the registry answers");
        return error
            .with_retryable(true)
            .with_source(servers.join("; "))
            .at_stage("connecting")
            .with_hint(CHECK_THE_SERVER);
    }
    let failed = |(error, _): &(Option<CallError>, HostPort)| error.is_some();
    let at = failures.iter().rposition(failed).unwrap_or(0);
    let Some((error, server)) = failures.into_iter().nth(at) else {
        return Error::new(ErrorKind::InvalidConfig, "no server to ask");
    };
    let Some(error) = error else {
        return Error::new(ErrorKind::Unreachable, "the server does not know (yet)")
            .with_retryable(true)
            .at_server(&server);
    };
    let retryable = error.classify().recovery != Recovery::Fail;
    let hung_up = matches!(error, CallError::Lost { .. });
    let error = error.into_error().with_retryable(retryable).at_server(&server);
    if hung_up {
        error.with_hint(
            "check that it is an HBase RPC port (a ZooKeeper quorum is named by hbase+zk://), and that the cluster is \
             up",
        )
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::{FutureExt, future::BoxFuture};

    use super::*;
    use crate::{
        config::Config,
        rpc::{Connector, DialTarget, Io},
    };

    /// Records the servers to dial, and never connects.
    #[derive(Debug, Default)]
    struct Silence(Arc<Mutex<Vec<u16>>>);

    impl Connector for Silence {
        fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            self.0.lock().unwrap().push(target.address.port);
            std::future::pending().boxed()
        }
    }

    /// Returns a registry of the servers `a:1` to `a:4`, and the ports that it dials.
    fn silent_registry() -> (RpcRegistry, Arc<Mutex<Vec<u16>>>) {
        let config = Config::from_uri("hbase+rpc://a:1,a:2,a:3,a:4").unwrap();
        let config = config.with_connect_timeout(Duration::from_secs(60));
        let crate::config::ClusterAddress::Rpc { servers } = config.address().clone() else {
            panic!("{config:?}")
        };
        let dialled = Arc::new(Mutex::new(Vec::new()));
        let rpc = RpcClient::new(&config, Arc::new(Silence(Arc::clone(&dialled))));
        (RpcRegistry::new(servers, Arc::new(rpc)), dialled)
    }

    #[test]
    fn replicas_are_read_only_if_they_are_wanted() {
        let location = |replica_id, server_name| pb::RegionLocation {
            region_info: pb::RegionInfo {
                replica_id,
                ..convert::region_info_message(&crate::model::RegionInfo::meta())
            },
            server_name,
            seq_num: 0,
        };
        let server = |port| convert::server_name_message(&ServerName::new("a", port, 1).unwrap());
        let locations = vec![
            location(Some(2), Some(server(3))),
            location(Some(1), None),
            location(Some(-1), Some(server(4))),
            location(Some(17), Some(server(5))),
            location(None, Some(server(1))),
        ];
        let primary = Some(server(1));
        let (found, replicas) = meta_servers(locations.clone(), true);
        assert_eq!(
            (&found, replicas),
            (&primary, vec![(2, ServerName::new("a", 3, 1).unwrap())])
        );
        assert_eq!(meta_servers(locations, false), (primary, Vec::new()));
        assert_eq!(
            meta_servers(vec![location(Some(1), Some(server(2)))], true).0,
            None
        );
    }

    #[tokio::test(start_paused = true)]
    async fn configured_servers_are_asked_before_those_that_were_learnt() {
        let (registry, dialled) = silent_registry();
        let servers = |ports: &[u16]| {
            let server = |port: &u16| HostPort::parse(&format!("a:{port}"), 1).unwrap();
            ports.iter().map(server).collect::<Vec<_>>()
        };
        *registry.learnt() = Learnt {
            answered: servers(&[7, 9]),
            nodes: servers(&[2, 9, 8]),
        };
        let deadline = Instant::now() + Duration::from_secs(8);
        registry
            .ask(Wanted::Meta { replicas: true }, deadline)
            .await
            .unwrap_err();
        let mut dialled = dialled.lock().unwrap().clone();
        assert_eq!(dialled.split_off(4), [7, 9, 8]);
        dialled.sort_unstable();
        assert_eq!(dialled, [1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_servers_do_not_keep_the_others_from_being_asked() {
        let (registry, dialled) = silent_registry();
        let deadline = Instant::now() + Duration::from_secs(8);
        let answer = registry.ask(Wanted::Meta { replicas: true }, deadline).await;
        assert!(answer.unwrap_err().is_retryable());
        let mut dialled = dialled.lock().unwrap().clone();
        dialled.sort_unstable();
        assert_eq!(dialled, [1, 2, 3, 4]);
    }
}
