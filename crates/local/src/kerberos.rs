//! Kerberos for one machine: a KDC of the cluster's own, its principals and their keys.

use std::{collections::BTreeMap, fs};

use hbase_client::low_level::login_name;

use super::{
    layout::{Layout, create_folder, remove, storage},
    ports::Ports,
    properties::{Properties, properties, xml},
    state::State,
};
use crate::Result;

/// `MiniKdc` prints this line when it has written the keys of all principals.
pub(super) const KDC_READY: &str = "Standalone MiniKdc Running";

/// The principals of users beside the one who starts the cluster.
const USERS: [&str; 2] = ["alice", "bob"];

/// The primary and the instance of the servers' principal. All servers have this one, because Java
/// replaces `_HOST` by the name that it finds for 127.0.0.1, and that depends on the machine.
const SERVERS: &str = "hbase/localhost";

/// Returns the realm of a cluster. Realms differ, so that one `KRB5_CONFIG` can list the files of
/// several clusters.
pub(super) fn realm(layout: &Layout) -> String {
    format!("{}.LOCAL", organization(layout))
}

fn organization(layout: &Layout) -> String {
    let name = layout.root().file_name().unwrap_or_default();
    name.to_string_lossy().to_uppercase()
}

/// Writes the configuration of the KDC and of its clients.
pub(super) fn write(layout: &Layout, ports: &Ports) -> Result<()> {
    let folder = layout.kerberos();
    remove(&folder)?;
    create_folder(&folder.join("kdc"))?;
    let port = ports.kdc.unwrap_or(0);
    let realm = realm(layout);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| storage("can't write", &path, error))
    };
    write(
        "kdc.properties",
        &format!(
            "org.name={}\norg.domain=LOCAL\nkdc.bind.address=127.0.0.1\nkdc.port={port}\ntransport=TCP\n\
             instance=hbase\nmax.ticket.lifetime=86400000\nmax.renewable.lifetime=604800000\ndebug=false\n",
            organization(layout)
        ),
    )?;
    // Names of hosts are taken as they are: what the name service makes of 127.0.0.1 differs.
    write(
        "krb5.conf",
        &format!(
            "[libdefaults]\n  default_realm = {realm}\n  udp_preference_limit = 1\n  dns_lookup_kdc = false\n  \
             dns_lookup_realm = false\n  dns_canonicalize_hostname = false\n  rdns = false\n\n[realms]\n  \
             {realm} = {{\n    kdc = 127.0.0.1:{port}\n  }}\n\n[domain_realm]\n  localhost = {realm}\n"
        ),
    )
}

/// Returns the program of the KDC with its arguments. It creates new keys at each start.
pub(super) fn kdc(layout: &Layout) -> Vec<String> {
    let folder = layout.kerberos();
    let files = ["kdc", "kdc.properties", "keytab"].map(|file| folder.join(file).display().to_string());
    let principals = [SERVERS.to_owned(), login_name()].into_iter();
    let users = USERS.map(str::to_owned).into_iter();
    ["org.apache.hadoop.minikdc.MiniKdc".to_owned()]
        .into_iter()
        .chain(files)
        .chain(principals.chain(users.filter(|user| *user != login_name())))
        .collect()
}

/// Returns the options of the Java processes that use Kerberos.
pub(super) fn java_options(layout: &Layout) -> [String; 2] {
    let conf = layout.kerberos().join("krb5.conf");
    [
        format!("-Djava.security.krb5.conf={}", conf.display()),
        // HBase 2.4 reads the default realm from a class of the JDK's own.
        "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED".to_owned(),
    ]
}

/// Returns the settings of the servers of HBase for Hadoop.
pub(super) fn core_site() -> Properties {
    properties([
        ("hadoop.security.authentication", "kerberos".into()),
        // HDFS stays without Kerberos.
        ("ipc.client.fallback-to-simple-auth-allowed", "true".into()),
        // Without it every user may act as any other.
        ("hadoop.security.authorization", "true".into()),
        // One user may act as one other.
        ("hadoop.proxyuser.alice.hosts", "127.0.0.1".into()),
        ("hadoop.proxyuser.alice.users", "bob".into()),
    ])
}

/// Returns the settings of servers.
pub(super) fn server_site(layout: &Layout) -> Properties {
    let keytab = layout.kerberos().join("keytab").display().to_string();
    let mut site = principals(layout);
    site.extend(properties([
        ("hbase.master.keytab.file", keytab.clone()),
        ("hbase.regionserver.keytab.file", keytab),
    ]));
    site
}

/// Returns the settings of clients, which act as the current user. No server may have them: the
/// clients inside servers would log the server in as this user.
pub(super) fn client_site(layout: &Layout) -> Properties {
    let keytab = layout.kerberos().join("keytab").display().to_string();
    let user = format!("{}@{}", login_name(), realm(layout));
    let mut site = principals(layout);
    site.extend(properties([
        ("hbase.client.keytab.file", keytab),
        ("hbase.client.keytab.principal", user),
    ]));
    site
}

/// Returns the settings that servers and clients share.
fn principals(layout: &Layout) -> Properties {
    let servers = format!("{SERVERS}@{}", realm(layout));
    properties([
        ("hbase.security.authentication", "kerberos".into()),
        ("hbase.master.kerberos.principal", servers.clone()),
        ("hbase.regionserver.kerberos.principal", servers),
    ])
}

/// Returns the variables that the Kerberos library of clients needs.
pub(super) fn environment(layout: &Layout, state: &State) -> BTreeMap<String, String> {
    let conf = layout.kerberos().join("krb5.conf").display().to_string();
    let variable = state.kerberos.then(|| ("KRB5_CONFIG".to_owned(), conf));
    variable.into_iter().collect()
}

/// Returns an `hbase-policy.xml` that lets every authenticated user in.
pub(super) fn policy() -> String {
    xml(&properties(
        ["client", "admin", "masterregion"]
            .map(|protocol| format!("security.{protocol}.protocol.acl"))
            .each_ref()
            .map(|key| (key.as_str(), "*".to_owned())),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    #[test]
    fn realm_ends_its_own_line_and_names_the_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "guarded-1").unwrap();
        let ports = Ports::choose(None, &Properties::new(), None).unwrap();
        let ports = ports.with_kdc().unwrap();
        write(&layout, &ports).unwrap();
        let conf = fs::read_to_string(layout.kerberos().join("krb5.conf")).unwrap();
        assert!(conf.contains("\n  GUARDED-1.LOCAL = {\n"), "{conf}");
        let kdc = format!("kdc = 127.0.0.1:{}\n", ports.kdc.unwrap());
        assert!(conf.contains(&kdc), "{conf}");
    }

    #[test]
    fn each_principal_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        let program = kdc(&layout);
        for principal in [SERVERS, "alice", "bob", &login_name()] {
            let count = program.iter().filter(|word| *word == principal).count();
            assert_eq!(count, 1, "{program:?}");
        }
    }
}
