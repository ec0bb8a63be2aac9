//! The guide `coprocessor/security.md`: the settings that it names are those of clusters of `dev up
//! --kerberos --authorization`, its commands run there, and its table of permissions is true.

use std::{
    env,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use hbase_client::low_level::site_properties;
use hbase_local::LocalCluster;
use hbase_txn::{
    ClientErrorKind, Outcome, PartitionedTable,
    admin::{Admin, PermissionScope, UserPermission},
    client::{Get, Permission, TableName},
};
use tempfile::TempDir;

use super::{
    Cluster, client_site, config_of, connect, on_guarded,
    support::{eventually, put, says},
    transaction,
};

const TABLE: &str = "orders";

/// A block of the guide, with the names of this cluster.
struct Block {
    language: String,
    text: String,
}

/// The guide on a cluster.
struct Guide<'c> {
    cluster: &'c Cluster,
    /// The folder of the cluster's files.
    local: LocalCluster,
    /// `/etc/billing`.
    service: TempDir,
}

impl<'c> Guide<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            local: LocalCluster::new(&cluster.status.name).unwrap(),
            service: tempfile::tempdir().unwrap(),
        }
    }

    fn realm(&self) -> String {
        let site = site_properties(&client_site(self.cluster)).unwrap();
        let (_, realm) = site["hbase.client.keytab.principal"].rsplit_once('@').unwrap();
        realm.to_owned()
    }

    fn blocks(&self) -> Vec<Block> {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let keytab = path(&self.local.folder().join("kerberos/keytab"));
        let names = [
            ("/etc/security/keytabs/hbase.keytab", keytab.clone()),
            ("/etc/security/keytabs/billing.keytab", keytab),
            ("/etc/hbase/conf", path(self.cluster.conf_dir().unwrap())),
            ("/etc/billing", path(self.service.path())),
            ("EXAMPLE.COM", self.realm()),
            // All servers of a local cluster have one principal.
            ("_HOST", "localhost".to_owned()),
            ("billing", "alice".to_owned()),
        ];
        let guide = fs::read_to_string("../../coprocessor/security.md").unwrap();
        let mut parts = guide.split("\n```");
        let mut blocks = Vec::new();
        while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
            let (language, text) = block.split_once('\n').unwrap();
            let mut text = text.to_owned();
            for (name, here) in &names {
                text = text.replace(name, here);
            }
            let language = language.to_owned();
            blocks.push(Block { language, text });
        }
        blocks
    }

    /// Compares settings with those of the cluster's servers. A list of classes may have more.
    fn compare(&self, block: &Block, file: &str) {
        let own = fs::read_to_string(self.local.folder().join("conf").join(file)).unwrap();
        let own = site_properties(&own).unwrap();
        for (key, value) in site_properties(&block.text).unwrap() {
            let set = own.get(&key).map(String::as_str).unwrap_or_default();
            let has_all = value
                .split(',')
                .all(|class| set.split(',').any(|other| other == class));
            assert!(has_all, "{file}: {key} is {set}, and the guide says {value}");
        }
    }

    /// Runs a script as the cluster's superuser, unless it names another configuration.
    fn run(&self, script: &str) -> Output {
        let binary = Path::new(env!("CARGO_BIN_EXE_hbase-txn"));
        let mut path = OsString::from(binary.parent().unwrap());
        path.push(":");
        path.push(env::var_os("PATH").unwrap());
        Command::new("sh")
            .args(["-euc", script])
            .env("PATH", path)
            .env("HBASE_CONF_DIR", self.cluster.conf_dir().unwrap())
            .env_remove("HBASE_TXN_CONNECT")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

#[tokio::test]
async fn guide_is_true_of_its_cluster_and_its_commands_run() {
    on_guarded(async |cluster| {
        let guide = Guide::new(cluster);
        let blocks = guide.blocks();
        let languages: Vec<_> = blocks.iter().map(|block| block.language.as_str()).collect();
        assert_eq!(languages, ["xml", "xml", "xml", "sh", "sh", "sh"]);
        guide.compare(&blocks[0], "hbase-site.xml");
        guide.compare(&blocks[1], "core-site.xml");
        fs::write(guide.service.path().join("hbase-site.xml"), &blocks[2].text).unwrap();

        let [made, used, revoked] = [&blocks[3], &blocks[4], &blocks[5]];
        let refused = |output: &Output| {
            // `table check` reports it as a finding.
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                !output.status.success() && told.contains("rights-missing"),
                "{output:?}"
            );
            told
        };
        let output = guide.run(&made.text);
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        says(&listed, &["alice", "RWXC"]);
        // The region servers learn of the grant a moment later.
        eventually("the service may use the table", async || {
            let output = guide.run(&used.text);
            output.status.success().then_some(())
        })
        .await;
        let output = guide.run(&revoked.text);
        assert!(output.status.success(), "{output:?}");
        let told = eventually("the service may no longer use the table", async || {
            let output = guide.run(&used.text);
            (!output.status.success()).then(|| refused(&output))
        })
        .await;
        says(&told, &["alice"]);
        permissions_are_needed(cluster).await;
        let dropped = guide.run(&format!("hbase-txn table drop {TABLE} --yes"));
        assert!(dropped.status.success(), "{dropped:?}");
    })
    .await;
}

/// Shows each row of the guide's table of permissions.
async fn permissions_are_needed(cluster: &Cluster) {
    let name: TableName = TABLE.parse().unwrap();
    let admin = Admin::new(&cluster.connect().await);
    let alice = connect(config_of(cluster, "alice")).await.unwrap();
    let scope = PermissionScope::table(&name).unwrap();
    let set = async |permissions: &[Permission]| {
        let granted = UserPermission::new("alice", scope.clone(), permissions.iter().copied());
        admin.grant(&granted, false).await.unwrap();
    };
    let all = [
        Permission::Read,
        Permission::Write,
        Permission::Exec,
        Permission::Create,
    ];
    let without = |permission: Permission| {
        let others = all.into_iter().filter(move |other| *other != permission);
        others.collect::<Vec<_>>()
    };
    let rows = alice.table(name.clone()).unwrap();
    set(&all).await;
    let opened = eventually("the table is opened", async || {
        PartitionedTable::open(&alice, name.clone()).await.ok()
    })
    .await;
    // Permissions reach the servers one after the other.
    let committed = || async { transaction(&opened).commit().await.is_committed().then_some(()) };
    eventually("a transaction is committed", committed).await;

    for (missing, action) in [(Permission::Exec, "EXEC"), (Permission::Write, "WRITE")] {
        set(&without(missing)).await;
        let error = eventually("a transaction is refused", async || {
            match transaction(&opened).commit().await {
                Outcome::Aborted(error) => Some(error),
                Outcome::Committed(_) => None,
                other => panic!("{other}"),
            }
        })
        .await;
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &["alice", action, TABLE]);
        set(&all).await;
        eventually("a transaction is committed", committed).await;
    }
    set(&without(Permission::Write)).await;
    eventually("a put is refused", async || {
        rows.put(put("xxx9", "v")).await.err()
    })
    .await;

    set(&without(Permission::Read)).await;
    let error = eventually("a get is refused", async || {
        rows.get(Get::new("xxx1")).await.err()
    })
    .await;
    assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
    says(&error, &["alice", "READ"]);

    set(&without(Permission::Create)).await;
    let error = eventually("the table is not opened", async || {
        PartitionedTable::open(&alice, name.clone()).await.err()
    })
    .await;
    assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
    says(&error, &["alice", "CREATE"]);
}
