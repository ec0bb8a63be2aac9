//! The configuration of HBase, HDFS and ZooKeeper for one machine.

use std::{fs, path::Path};

use super::{
    client_conf, kerberos,
    layout::{Layout, create_folder, remove, storage},
    options::add_class,
    ports::{MASTER, Ports, REGION_SERVER, ZOOKEEPER},
    properties::{LOOPBACK, Properties, ZNODE, properties, xml},
    role::Shape,
    state::State,
    tls,
};
use crate::{Error, Result};

pub(super) const MASTER_COPROCESSORS: &str = "hbase.coprocessor.master.classes";
/// Refuses tables that name a jar. Classes of the servers' class path need no jar.
const WHITELIST: &str = "org.apache.hadoop.hbase.security.access.CoprocessorWhitelistMasterObserver";

/// The session of a standalone cluster, in milliseconds. Longer than any pause of a busy machine: if the
/// session expires, HBase aborts, and there is no other server to notice the end of this one.
const STANDALONE_SESSION: &str = "300000";

/// The folder beside the configuration of HBase with what only HDFS reads.
pub(super) const HDFS: &str = "hdfs";

/// Writes all configuration files of the servers.
pub(super) fn write(layout: &Layout, state: &State, ports: &Ports) -> Result<()> {
    let shape = state.shape;
    let conf = layout.conf();
    remove(&conf)?;
    create_folder(&conf)?;
    let write = |name: &str, text: &str| {
        let path = conf.join(name);
        fs::write(&path, text).map_err(|error| storage("can't write", &path, error))
    };
    let mut hbase = hbase_site(layout, shape, ports);
    let mut core = core_site(layout, ports);
    if shape != Shape::Standalone {
        // Servers of HDFS read it instead of the other one.
        create_folder(&conf.join(HDFS))?;
        write(&format!("{HDFS}/core-site.xml"), &xml(&core))?;
    }
    if state.kerberos {
        kerberos::write(layout, ports)?;
        core.extend(kerberos::core_site());
        hbase.extend(kerberos::server_site(layout));
        write("hbase-policy.xml", &kerberos::policy())?;
    }
    if let Some(tls) = state.tls {
        hbase.extend(tls::server_site(layout, tls));
    }
    hbase.extend(state.properties.clone());
    // Any local user may alter tables, so servers load no jars that tables name, unless
    // `hbase.coprocessor.region.whitelist.paths` allows their folder.
    add_class(&mut hbase, MASTER_COPROCESSORS, WHITELIST);
    write("hbase-site.xml", &xml(&hbase))?;
    write("core-site.xml", &xml(&core))?;
    write("log4j.properties", LOG4J)?;
    if shape != Shape::Standalone {
        write("hdfs-site.xml", &xml(&hdfs_site(layout, ports)))?;
        web_applications(&conf)?;
    }
    let mut client = if state.kerberos {
        kerberos::client_site(layout)
    } else {
        Properties::new()
    };
    if let Some(tls) = state.tls {
        client.extend(tls::client_site(layout, tls));
    }
    if !client.is_empty() {
        let shared = state.properties.clone().into_iter();
        let shared =
            shared.filter(|(key, _)| key.starts_with("hbase.rpc.") || key.starts_with("hbase.client."));
        client.extend(shared);
    }
    client_conf::write(layout, ports, &client)
}

/// Refuses a setting that would contradict the cluster's own settings.
pub(super) fn check(properties: &Properties, shape: Shape) -> Result<()> {
    for (key, value) in properties {
        if key.is_empty() || key.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::invalid(format!("'{key}' is no name of a setting")));
        }
        if value.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(Error::invalid(format!(
                "{key}: the value {value} can't be written to XML"
            )));
        }
        let own = OWN.contains(&key.as_str()) || (key == REGION_SERVER && shape != Shape::Standalone);
        if own {
            return Err(
                Error::invalid(format!("{key} can't be set: a local cluster chooses it")).with_hint(
                    "leave it out; ports can be chosen with hbase.zookeeper.property.clientPort, \
                            hbase.master.port and, standalone, hbase.regionserver.port",
                ),
            );
        }
    }
    Ok(())
}

/// Settings that connect the servers, and keep them on loopback and inside the cluster's folder.
const OWN: [&str; 18] = [
    "fs.defaultFS",
    "hbase.cluster.distributed",
    "hbase.localcluster.assign.random.ports",
    "hbase.master.hostname",
    "hbase.master.ipc.address",
    "hbase.regionserver.hostname",
    "hbase.regionserver.ipc.address",
    "hbase.regionserver.thrift.ipaddress",
    "hbase.rootdir",
    "hbase.tmp.dir",
    "hbase.unsafe.regionserver.hostname",
    "hbase.wal.dir",
    "hbase.zookeeper.property.clientPortAddress",
    "hbase.zookeeper.property.dataDir",
    "hbase.zookeeper.property.dataLogDir",
    "hbase.zookeeper.quorum",
    "hadoop.tmp.dir",
    "zookeeper.znode.parent",
];

fn hbase_site(layout: &Layout, shape: Shape, ports: &Ports) -> Properties {
    let data = layout.data();
    let mut site = properties([
        ("hbase.tmp.dir", data.join("hbase-tmp").display().to_string()),
        (
            "hbase.zookeeper.property.dataDir",
            data.join("zookeeper").display().to_string(),
        ),
        ("hbase.zookeeper.quorum", LOOPBACK.into()),
        (ZOOKEEPER, ports.zookeeper.to_string()),
        ("hbase.zookeeper.property.clientPortAddress", LOOPBACK.into()),
        ("zookeeper.znode.parent", ZNODE.into()),
        (MASTER, ports.master.to_string()),
        // No web pages: they would listen on all addresses, and take a second of every boot.
        ("hbase.master.info.port", "-1".into()),
        ("hbase.regionserver.info.port", "-1".into()),
        ("hbase.master.hostname", LOOPBACK.into()),
        ("hbase.master.ipc.address", LOOPBACK.into()),
        ("hbase.regionserver.hostname", LOOPBACK.into()),
        ("hbase.unsafe.regionserver.hostname", LOOPBACK.into()),
        ("hbase.regionserver.ipc.address", LOOPBACK.into()),
        // The Thrift gateway, which reads this file too.
        ("hbase.regionserver.thrift.ipaddress", LOOPBACK.into()),
        ("hbase.thrift.info.port", "-1".into()),
        // No filters from jars in the root folder, which every user can write to if it is in HDFS.
        ("hbase.use.dynamic.jars", "false".into()),
        // The interval at which a region server looks for its master. The default takes three
        // seconds of every boot.
        ("hbase.regionserver.msginterval", "500".into()),
        // The master continues as soon as all region servers have reported, instead of waiting for
        // more.
        ("hbase.master.wait.on.regionservers.mintostart", "1".into()),
        (
            "hbase.master.wait.on.regionservers.maxtostart",
            shape.region_servers().unwrap_or(1).to_string(),
        ),
        ("hbase.master.wait.on.regionservers.timeout", "10000".into()),
        ("hbase.master.wait.on.regionservers.interval", "100".into()),
        // Files that a compaction replaced are released soon. Until then a region can't be split or
        // merged again.
        ("hbase.hfile.compaction.discharger.interval", "2000".into()),
        // The local file system can't sync durably. HDFS can, and HBase must verify it.
        (
            "hbase.unsafe.stream.capability.enforce",
            (shape != Shape::Standalone).to_string(),
        ),
    ]);
    site.extend(match shape {
        Shape::Standalone => properties([
            ("hbase.cluster.distributed", "false".into()),
            (
                "hbase.rootdir",
                format!("file://{}", data.join("hbase").display()),
            ),
            ("hbase.localcluster.assign.random.ports", "false".into()),
            // HBase overwrites `zookeeper.session.timeout` with the first one, 10 seconds unless set
            // (`HMasterCommandLine`), and its ZooKeeper limits sessions to the second one.
            (
                "zookeeper.session.timeout.localHBaseCluster",
                STANDALONE_SESSION.into(),
            ),
            (
                "hbase.zookeeper.property.maxSessionTimeout",
                STANDALONE_SESSION.into(),
            ),
            (REGION_SERVER, ports.region_servers[0].to_string()),
        ]),
        Shape::Distributed { .. } => properties([
            ("hbase.cluster.distributed", "true".into()),
            ("hbase.rootdir", format!("{}/hbase", file_system(ports))),
            // The master detects the death of a server by the end of its session. Shorter than the
            // default, because servers are killed on purpose here, but long enough that sessions of
            // live servers do not expire on a busy machine. HBase's ZooKeeper takes it as its limit.
            ("zookeeper.session.timeout", "40000".into()),
            // Twice the default of HDFS, as is usual, so that servers begin logs as rarely.
            ("hbase.regionserver.hlog.blocksize", (256 << 20).to_string()),
        ]),
    });
    site
}

fn core_site(layout: &Layout, ports: &Ports) -> Properties {
    let mut site = properties([
        (
            "hadoop.tmp.dir",
            layout.data().join("hadoop-tmp").display().to_string(),
        ),
        // Not used, but the default contains the name of the machine, which may not resolve.
        (
            "hadoop.http.authentication.kerberos.principal",
            "HTTP/localhost@LOCALHOST".into(),
        ),
        // The time of a server to flush and close its regions when it shuts down.
        ("hadoop.service.shutdown.timeout", "60s".into()),
    ]);
    if ports.namenode.is_some() {
        site.insert("fs.defaultFS".into(), file_system(ports));
    }
    site
}

fn hdfs_site(layout: &Layout, ports: &Ports) -> Properties {
    let any_port = format!("{LOOPBACK}:0");
    let folder = |name: &str| format!("file://{}", layout.data().join(name).display());
    properties([
        ("dfs.replication", "1".into()),
        // A file that is being written reserves a block of the disk, and a server that recovers the logs of
        // another one writes a file for each region: with blocks of 128 MB, 200 of them need 25 GB.
        ("dfs.blocksize", (16 << 20).to_string()),
        // HBase has another user than HDFS in a cluster with Kerberos.
        ("dfs.permissions.enabled", "false".into()),
        ("dfs.namenode.name.dir", folder("namenode")),
        ("dfs.datanode.data.dir", folder("datanode")),
        (
            "dfs.namenode.rpc-address",
            format!("{LOOPBACK}:{}", ports.namenode.unwrap_or(0)),
        ),
        ("dfs.namenode.rpc-bind-host", LOOPBACK.into()),
        ("dfs.namenode.http-address", any_port.clone()),
        ("dfs.namenode.http-bind-host", LOOPBACK.into()),
        ("dfs.datanode.address", any_port.clone()),
        ("dfs.datanode.http.address", any_port.clone()),
        ("dfs.datanode.ipc.address", any_port),
        ("dfs.datanode.hostname", LOOPBACK.into()),
        (
            "dfs.namenode.datanode.registration.ip-hostname-check",
            "false".into(),
        ),
        // The NameNode leaves safe mode as soon as the DataNode has registered.
        ("dfs.namenode.safemode.min.datanodes", "1".into()),
        ("dfs.namenode.safemode.extension", "0".into()),
        // With a single DataNode there is none to replace a lost one in a pipeline.
        (
            "dfs.client.block.write.replace-datanode-on-failure.enable",
            "false".into(),
        ),
    ])
}

fn file_system(ports: &Ports) -> String {
    format!("hdfs://{LOOPBACK}:{}", ports.namenode.unwrap_or(0))
}

/// Creates the folders of web pages, which no artifact contains: NameNode and DataNode refuse to
/// start without them.
fn web_applications(conf: &Path) -> Result<()> {
    for name in ["hdfs", "datanode"] {
        let folder = conf.join("webapps").join(name).join("WEB-INF");
        create_folder(&folder)?;
        let path = folder.join("web.xml");
        fs::write(&path, "<web-app/>\n").map_err(|error| storage("can't write", &path, error))?;
    }
    create_folder(&conf.join("webapps/static"))
}

/// All supported releases use log4j 1 or its successor reload4j.
const LOG4J: &str = "\
log4j.rootLogger=INFO,console
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.org.apache.hadoop.metrics2=WARN
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
";

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{HBaseVersion, Home};

    fn written(shape: Shape, own: &Properties) -> (tempfile::TempDir, Layout, Ports) {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        layout.create().unwrap();
        let ports = Ports::choose(shape.region_servers(), own, None).unwrap();
        let mut state = State::new(HBaseVersion::default(), shape);
        state.properties.clone_from(own);
        write(&layout, &state, &ports).unwrap();
        (folder, layout, ports)
    }

    #[rstest]
    #[case(Shape::Standalone)]
    #[case(Shape::Distributed { region_servers: 3 })]
    fn every_address_is_loopback(#[case] shape: Shape) {
        let (_folder, layout, ports) = written(shape, &Properties::new());
        let site = hbase_site(&layout, shape, &ports);
        for (key, value) in site.into_iter().chain(hdfs_site(&layout, &ports)) {
            if key.contains("hostname") && !key.contains("check")
                || key.contains("address")
                || key.contains("bind")
            {
                assert!(value.starts_with(LOOPBACK), "{key}={value}");
            }
        }
    }

    #[test]
    fn settings_of_the_user_win_and_are_escaped() {
        let own = Properties::from([
            ("hbase.regionserver.msginterval".to_owned(), "1000".to_owned()),
            ("a".to_owned(), "<b>&c".to_owned()),
        ]);
        let (_folder, layout, _) = written(Shape::Standalone, &own);
        let site = fs::read_to_string(layout.conf().join("hbase-site.xml")).unwrap();
        assert!(site.contains("<name>hbase.regionserver.msginterval</name><value>1000</value>"));
        assert!(site.contains("<value>&lt;b&gt;&amp;c</value>"));
        assert!(!layout.conf().join("hdfs-site.xml").exists());
    }

    #[rstest]
    #[case(Shape::Standalone, "zookeeper.session.timeout.localHBaseCluster")]
    #[case(Shape::Standalone, "hbase.zookeeper.property.maxSessionTimeout")]
    #[case(Shape::Distributed { region_servers: 3 }, "zookeeper.session.timeout")]
    fn sessions_outlive_pauses_unless_the_user_shortens_them(#[case] shape: Shape, #[case] key: &str) {
        let site = |own: &Properties| {
            let (_folder, layout, _) = written(shape, own);
            fs::read_to_string(layout.conf().join("hbase-site.xml")).unwrap()
        };
        let line = |value: &str| format!("<name>{key}</name><value>{value}</value>");
        let expected = match shape {
            Shape::Standalone => "300000",
            Shape::Distributed { .. } => "40000",
        };
        assert!(site(&Properties::new()).contains(&line(expected)));
        let own = Properties::from([(key.to_owned(), "15000".to_owned())]);
        assert!(site(&own).contains(&line("15000")));
    }

    #[rstest]
    #[case(None, WHITELIST)]
    #[case(Some("org.example.Own"), &format!("org.example.Own,{WHITELIST}"))]
    #[case(Some(WHITELIST), WHITELIST)]
    fn masters_refuse_jars_whatever_else_they_load(#[case] own: Option<&str>, #[case] expected: &str) {
        let own = own.map(|class| (MASTER_COPROCESSORS.to_owned(), class.to_owned()));
        let (_folder, layout, _) = written(Shape::Standalone, &own.into_iter().collect());
        let site = fs::read_to_string(layout.conf().join("hbase-site.xml")).unwrap();
        let line = format!("<name>{MASTER_COPROCESSORS}</name><value>{expected}</value>");
        assert!(site.contains(&line), "{site}");
        assert!(!site.contains("whitelist.paths"), "{site}");
        assert!(site.contains("<name>hbase.use.dynamic.jars</name><value>false</value>"));
    }

    #[rstest]
    #[case("hbase.rootdir", Shape::Standalone, false)]
    #[case("hbase.regionserver.port", Shape::Standalone, true)]
    #[case("hbase.regionserver.port", Shape::Distributed { region_servers: 2 }, false)]
    #[case("hbase.hregion.max.filesize", Shape::Standalone, true)]
    #[case("a b", Shape::Standalone, false)]
    #[case("", Shape::Standalone, false)]
    fn settings_that_would_break_the_cluster_are_refused(
        #[case] key: &str,
        #[case] shape: Shape,
        #[case] fine: bool,
    ) {
        let properties = Properties::from([(key.to_owned(), "1".to_owned())]);
        assert_eq!(check(&properties, shape).is_ok(), fine);
    }
}
