//! Waiting until a cluster serves requests.

use std::{fs, io, net::Ipv4Addr, time::Duration};

use hbase_admin::{Admin, PermissionScope};
use hbase_client::{ClusterAddress, Config, Connection, ErrorKind, HostPort, Scan};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use super::{
    client_conf,
    diagnose::log_of,
    layout::Layout,
    ports::Ports,
    properties::Properties,
    role::{Role, Shape},
};
use crate::Result;

/// The interval of checks of logs and of a gateway.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// The master logs this line when it has assigned `hbase:meta` and is initialized.
const MASTER_READY: &str = "Master has completed initialization";

/// A region server logs this line when it accepts calls.
const REGION_SERVER_READY: &str = "Serving as ";

/// The master logs this line for each region server that has reported.
const REGISTERED: &str = "RegionServer ephemeral node created, adding [127.0.0.1,";

/// The limit of one attempt to connect and query the cluster.
const CLIENT_TAKES: Duration = Duration::from_secs(5);

/// The state to wait for.
#[derive(Debug)]
pub(super) struct Serving<'a> {
    pub(super) layout: &'a Layout,
    pub(super) shape: Shape,
    pub(super) ports: &'a Ports,
    /// The required region servers, counted from 1.
    pub(super) region_servers: Vec<u16>,
    pub(super) controllers: Controllers,
    /// Whether it serves only clients with a ticket, of which this program has none.
    pub(super) kerberos: bool,
}

/// The coprocessors that reject calls of their own until they have read their tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Controllers {
    access: bool,
    visibility: bool,
}

impl Controllers {
    /// Returns those that the servers load.
    pub(super) fn of(properties: &Properties) -> Self {
        let loads = |class: &str| {
            let lists = properties.iter();
            let mut lists = lists.filter(|(key, _)| key.starts_with("hbase.coprocessor."));
            lists.any(|(_, classes)| classes.contains(class))
        };
        Self {
            access: loads("security.access.AccessController"),
            visibility: loads("security.visibility.VisibilityController"),
        }
    }

    /// Queries each. One that refuses the current user is ready.
    async fn query(self, connection: &Connection) -> Result<()> {
        let admin = Admin::new(connection);
        let ready = |answered: hbase_client::Result<()>| match answered {
            Err(error) if error.kind() != ErrorKind::AccessDenied => Err(error),
            _ => Ok(()),
        };
        if self.access {
            let permissions = admin.user_permissions(&PermissionScope::Global, None);
            ready(permissions.await.map(drop))?;
        }
        if self.visibility {
            ready(admin.labels().await.map(drop))?;
        }
        Ok(())
    }
}

/// Waits until the cluster serves clients. Returns `false` if the deadline passed first.
///
/// `check` is called repeatedly. Its error ends the wait, for example if a process has ended.
pub(super) async fn wait_until_serving(
    serving: &Serving<'_>,
    deadline: Instant,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<bool> {
    loop {
        check()?;
        if serving.logs_say_so() && serving.a_client_is_served(deadline).await {
            return Ok(true);
        }
        if Instant::now() + INTERVAL >= deadline {
            return Ok(false);
        }
        sleep(INTERVAL).await;
    }
}

impl Serving<'_> {
    fn logs_say_so(&self) -> bool {
        let master = match self.shape {
            Shape::Standalone => Role::Standalone,
            Shape::Distributed { .. } => Role::Master,
        };
        let master_log = self.log(master);
        master_log.contains(MASTER_READY)
            && self.region_servers.iter().all(|number| {
                let role = self.shape.region_server(*number);
                role.is_some_and(|role| self.log(role).contains(REGION_SERVER_READY))
                    && self.start_codes_match(*number, &master_log)
            })
    }

    /// Whether the master has seen the current start of the region server, not only an earlier one.
    fn start_codes_match(&self, number: u16, master_log: &str) -> bool {
        let Some(port) = self.ports.region_servers.get(usize::from(number) - 1) else {
            return false;
        };
        let own = self
            .shape
            .region_server(number)
            .map(|role| self.log(role))
            .unwrap_or_default();
        let name = own
            .split_once(REGION_SERVER_READY)
            .and_then(|(_, rest)| rest.split_once(", RpcServer"))
            .map(|(name, _)| name);
        name.and_then(|name| name.strip_prefix(&format!("127.0.0.1,{port},")))
            .is_some_and(|start_code| master_log.contains(&format!("{REGISTERED}{port},{start_code}]")))
    }

    fn log(&self, role: Role) -> String {
        let bytes = fs::read(log_of(self.layout, role)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether a client can find `hbase:meta` through the registry and read it, and the master
    /// reports all region servers.
    async fn a_client_is_served(&self, deadline: Instant) -> bool {
        if self.kerberos {
            return refuses_strangers(self.ports.master).await;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.try_client(left.min(CLIENT_TAKES)).await {
            Ok(served) => served,
            Err(error) => {
                tracing::debug!(%error, "not serving yet");
                false
            }
        }
    }

    async fn try_client(&self, timeout: Duration) -> Result<bool> {
        let connection = connect(self.layout, self.ports, timeout).await?;
        let live = Admin::new(&connection).cluster_info().await?.live_servers;
        let meta = connection.table("hbase:meta")?;
        meta.scan(Scan::new().limit(1))?.next().await?;
        self.controllers.query(&connection).await?;
        connection.close().await;
        Ok(self.region_servers.iter().all(|number| {
            let port = self.ports.region_servers.get(usize::from(*number) - 1);
            live.iter().any(|server| Some(&server.port) == port)
        }))
    }
}

/// The beginning of a connection without Kerberos.
const SIMPLE: &[u8] = b"HBas\x00\x50";

/// Whether the server of a cluster with Kerberos refuses a connection without: some releases answer
/// with the reason, others hang up. Its logs have said before that it serves.
async fn refuses_strangers(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(SIMPLE).await?;
        stream.read(&mut [0; 1]).await
    };
    matches!(timeout(CLIENT_TAKES, ask).await, Ok(Ok(_)))
}

/// Whether a client finds the cluster and its master answers.
pub(super) async fn answers(layout: &Layout, ports: &Ports) -> bool {
    if ports.kdc.is_some() {
        return refuses_strangers(ports.master).await;
    }
    let ask = async {
        let connection = connect(layout, ports, CLIENT_TAKES).await?;
        Admin::new(&connection).cluster_info().await?;
        connection.close().await;
        Ok::<_, crate::Error>(())
    };
    matches!(timeout(CLIENT_TAKES, ask).await, Ok(Ok(())))
}

/// A call of `getTableNames` in Thrift's binary protocol: version and "call", the name, a sequence
/// number, no arguments.
const TABLE_NAMES: &[u8] = b"\x80\x01\x00\x01\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x01\x00";

/// The beginning of a reply: version and "reply". An exception begins differently.
const REPLY: [u8; 4] = *b"\x80\x01\x00\x02";

/// Whether a Thrift gateway on the port answers with a result from HBase.
pub(super) async fn gateway_answers(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(TABLE_NAMES).await?;
        let mut beginning = [0; 4];
        stream.read_exact(&mut beginning).await?;
        Ok::<_, io::Error>(beginning == REPLY)
    };
    matches!(timeout(CLIENT_TAKES, ask).await, Ok(Ok(true)))
}

/// Connects to the master on these ports, with this limit for each call.
pub(super) async fn connect(layout: &Layout, ports: &Ports, timeout: Duration) -> Result<Connection> {
    let address = ClusterAddress::Rpc {
        servers: vec![HostPort {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: ports.master,
        }],
    };
    let config = match client_conf::folder(layout) {
        Some(folder) => Config::from_conf_dir(folder)?.with_address(address),
        None => Config::new(address),
    };
    let config = config
        .with_operation_timeout(timeout)
        .with_registry_timeout(timeout)
        .with_read_timeout(timeout);
    Ok(Connection::builder(config).connect().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    #[test]
    fn an_earlier_start_of_a_region_server_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        layout.create().unwrap();
        let shape = Shape::Distributed { region_servers: 1 };
        let ports = Ports::choose(Some(1), &Properties::new(), None).unwrap();
        let port = ports.region_servers[0];
        let serving = Serving {
            layout: &layout,
            shape,
            ports: &ports,
            region_servers: vec![1],
            controllers: Controllers::default(),
            kerberos: false,
        };
        let master = |code: u32| format!("{MASTER_READY}\nx: {REGISTERED}{port},{code}]\n");
        fs::write(
            layout.logs().join("region-server-1.log"),
            format!("a: Serving as 127.0.0.1,{port},22, RpcServer on x"),
        )
        .unwrap();
        fs::write(layout.logs().join("master.log"), master(11)).unwrap();
        assert!(!serving.logs_say_so());
        fs::write(layout.logs().join("master.log"), master(22)).unwrap();
        assert!(serving.logs_say_so());
    }
}
