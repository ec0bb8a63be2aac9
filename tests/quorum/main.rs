//! Look-ups in a ZooKeeper quorum of three real servers, whose members are killed or hang, speak TLS or
//! require Kerberos.
//!
//! The quorum holds the znodes of a fake HBase, so that a look-up ends at a server that answers.
//! Needs Java, the Kerberos library of the system, and the jars of HBase 2.6.4 and of MiniKdc, which
//! `make test` downloads.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod java;
mod kdc;
mod kerberos;
mod member;
mod tls;
mod znodes;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hbase_client::{Config, Connection, ErrorKind, Get, Put};
use hbase_fake::FakeHBase;
use hbase_txn::admin::Admin;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use self::{
    member::{Member, PORTS, Setup, free_ports},
    znodes::{ANYONE, Znodes, write_znodes},
};

/// The time in which a look-up has to find a server, whatever happens to one member.
const LOOK_UP: Duration = Duration::from_secs(8);

/// A quorum of three, and a cluster that it leads to.
struct Quorum {
    members: Vec<Member>,
    hbase: FakeHBase,
    /// Deleted after the members, which write into it.
    _folder: TempDir,
}

impl Quorum {
    /// Starts three servers, each as this function returns for its index.
    async fn start(setup: impl Fn(usize) -> Setup + Send + Sync) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = free_ports(3 * PORTS);
        let members = (0..3).map(|index| Member::start(folder.path(), index, &ports, &setup(index)));
        let hbase = FakeHBase::builder().listen().await.unwrap();
        hbase.create_table("t", &["f"], &[]);
        let quorum = Self {
            members: members.collect(),
            hbase,
            _folder: folder,
        };
        for member in &quorum.members {
            member.is_serving().await;
        }
        quorum
    }

    fn uri(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|member| member.host()).collect();
        format!("hbase+zk://{}/hbase", hosts.join(","))
    }

    async fn write_znodes(&self) {
        self.write(Znodes {
            parent: "/hbase",
            acl: ANYONE,
        })
        .await;
    }

    async fn write(&self, znodes: Znodes<'_>) {
        let [region_server, master] = [0, 1].map(|server| self.hbase.server(server).address());
        write_znodes(&self.members[0].host(), znodes, &region_server, &master).await;
        // The other members apply the last change a moment later.
        let mut changes = BTreeSet::from([String::new()]);
        while changes.len() > 1 || changes.contains("") {
            changes.clear();
            for member in &self.members {
                changes.insert(member.last_change().await);
            }
        }
    }

    /// Connects, and returns the failure of the look-up of `hbase:meta`.
    async fn connect(&self) -> Result<Connection, hbase_client::Error> {
        connect(Config::from_uri(&self.uri()).unwrap()).await
    }

    /// Looks up `hbase:meta` and the active master, and calls them.
    async fn look_up(&self) {
        look_up(Config::from_uri(&self.uri()).unwrap()).await;
    }

    /// Returns the index of the leader.
    async fn leader(&self) -> usize {
        for (index, member) in self.members.iter().enumerate() {
            if member.ask("srvr").await.contains("Mode: leader") {
                return index;
            }
        }
        panic!("no leader");
    }
}

/// The options of a server that accepts authenticated clients only.
const REQUIRES_SASL: [&str; 2] = ["-Dzookeeper.sessionRequireClientSASLAuth=true", HAS_SASL];

/// The option of a server whose znodes may be for authenticated clients.
const HAS_SASL: &str =
    "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// Reads the `hbase-site.xml` of a quorum at these addresses, with settings of ZooKeeper's client,
/// whose names lack the prefix, and others.
fn site(hosts: &[String], of_client: &[(&str, &str)], others: &[(&str, &str)]) -> Config {
    let property =
        |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
    let mut site = property("hbase.zookeeper.quorum", &hosts.join(","));
    for (name, value) in of_client {
        site += &property(&format!("hbase.zookeeper.property.{name}"), value);
    }
    for (name, value) in others {
        site += &property(name, value);
    }
    let config = Config::from_hbase_site(&format!("<configuration>{site}</configuration>")).unwrap();
    // A machine under load takes seconds for a handshake or a ticket.
    config.with_registry_timeout(Duration::from_secs(30))
}

async fn connect(config: Config) -> Result<Connection, hbase_client::Error> {
    Connection::builder(config).connect().await
}

/// Looks up `hbase:meta` and the active master, and calls them.
async fn look_up(config: Config) {
    let began = Instant::now();
    let connection = connect(config).await.unwrap();
    let table = connection.table("t").unwrap();
    table.put(Put::new("r").cell("f", "q", "v")).await.unwrap();
    assert!(table.get(Get::new("r")).await.unwrap().is_some());
    Admin::new(&connection).tables().await.unwrap();
    connection.close().await;
    assert!(began.elapsed() < LOOK_UP, "{:?}", began.elapsed());
}

/// Expects that the client can't connect, and that the error is of this kind and names these words.
async fn refused(config: Config, kind: ErrorKind, words: &[&str]) {
    let began = Instant::now();
    let limit = LOOK_UP + config.registry_timeout();
    let error = connect(config).await.unwrap_err();
    assert!(began.elapsed() < limit, "{:?}: {error}", began.elapsed());
    assert_eq!(error.kind(), kind, "{error}");
    names(&error, words);
}

fn names(error: &hbase_client::Error, words: &[&str]) {
    for word in words {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[tokio::test]
async fn look_ups_survive_a_killed_member_and_name_a_lost_quorum() {
    let mut quorum = Quorum::start(|_| Setup::default()).await;
    let missing = quorum.connect().await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidConfig, "{missing}");
    assert!(
        missing.to_string().contains("znode /hbase does not exist"),
        "{missing}"
    );
    quorum.write_znodes().await;
    for _ in 0..5 {
        quorum.look_up().await;
    }
    // Sessions are closed, not left to their timeout.
    let leader = quorum.leader().await;
    let ended = async {
        while quorum.members[leader].ask("dump").await.contains("\t0x") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(2), ended)
        .await
        .expect("sessions are left");

    // The leader is killed: look-ups go on while the others elect one.
    quorum.members[leader].kill();
    for _ in 0..10 {
        quorum.look_up().await;
    }
    let [first, second] = [1, 2].map(|next| (leader + next) % 3);
    quorum.members[first].is_serving().await;
    quorum.members[second].is_serving().await;

    // The majority is lost: the survivor closes connections without an answer.
    quorum.members[first].kill();
    quorum.members[second].is_not_serving().await;
    let began = Instant::now();
    let lost = quorum.connect().await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(lost.kind(), ErrorKind::Unreachable, "{lost}");
    for named in [
        "no ZooKeeper server answers".to_owned(),
        format!(
            "{} closed the connection instead of opening a session",
            quorum.members[second].host()
        ),
        format!("{} refused the connection", quorum.members[first].host()),
        "its quorum has no majority".to_owned(),
    ] {
        assert!(lost.to_string().contains(&named), "{named}: {lost}");
    }
}

#[tokio::test]
async fn look_ups_survive_a_member_that_hangs() {
    let mut quorum = Quorum::start(|_| Setup::default()).await;
    quorum.write_znodes().await;
    let follower = (quorum.leader().await + 1) % 3;
    // The system still accepts connections for it.
    quorum.members[follower].suspend();
    for _ in 0..6 {
        quorum.look_up().await;
    }
    quorum.members[follower].kill();
    for _ in 0..6 {
        quorum.look_up().await;
    }
}

#[tokio::test]
async fn quorum_that_requires_authentication_is_named() {
    let setup = |_| Setup {
        options: REQUIRES_SASL.map(str::to_owned).to_vec(),
        has_tls: false,
    };
    let quorum = Quorum::start(setup).await;
    let refused = quorum.connect().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AuthenticationRequired, "{refused}");
    names(
        &refused,
        &[
            "SessionClosedRequireSaslAuth (-124)",
            "set hbase.security.authentication",
        ],
    );
}
