//! Options from profiles and from the environment.

use std::fs;

use tempfile::TempDir;

use crate::harness::{Answer, TestTable, answer, command, run, run_alone, uri};

const NOWHERE: &str = "hbase+rpc://127.0.0.1:1";

/// A home with a file of profiles.
struct Home(TempDir);

impl Home {
    fn with(profiles: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/hbase-txn");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), profiles).unwrap();
        Self(home)
    }

    fn run(&self, line: &[&str], variables: &[(&str, &str)]) -> Answer {
        let mut command = command(line);
        command.env("HOME", self.0.path()).env_remove("XDG_CONFIG_HOME");
        answer(command.envs(variables.iter().copied()).spawn().unwrap())
    }
}

#[test]
fn profile_names_the_cluster_and_the_form_of_the_output() {
    let table = TestTable::new("profile");
    run(&["put", &table.0, "r", "f:q=1", "--timestamp", "7"]).done();
    let row = "{\"row\":\"r\",\"cells\":[{\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7,\"value\":\"1\"}]}\n";
    let home = Home::with(&format!(
        "[profile.here]\nconnect = '{}'\noutput = 'json'\n[profile.nowhere]\nconnect = '{NOWHERE}'\ntimeout = '2s'\n",
        uri()
    ));
    let get = ["get", &table.0, "r"];
    let with = |options: &[&str], variables: &[(&str, &str)]| home.run(&[&get, options].concat(), variables);
    assert_eq!(with(&["--profile", "here"], &[]).done(), row);
    assert_eq!(with(&[], &[("HBASE_TXN_PROFILE", "here")]).done(), row);
    // Without a profile the file is not read.
    with(&[], &[("HBASE_TXN_PROFILE", "")]).refused(1, &["no cluster is named", "--profile"]);
    with(&["--profile", "nowhere"], &[]).refused(1, &["127.0.0.1:1"]);

    // Option, environment, profile.
    let here = [("HBASE_TXN_CONNECT", uri())];
    let of_environment = with(&["--profile", "nowhere", "--output", "json"], &here);
    assert_eq!(of_environment.done(), row);
    with(
        &["--profile", "here", "--timeout", "2s"],
        &[("HBASE_TXN_CONNECT", NOWHERE)],
    )
    .refused(1, &["127.0.0.1:1"]);
    with(&["--profile", "nowhere", "--connect", uri()], &[]).done();
    let overridden = with(
        &["--profile", "here"],
        &[("HBASE_TXN_PROFILE", "nowhere"), ("HBASE_TXN_OUTPUT", "table")],
    );
    assert_eq!(overridden.done(), "r  f:q  7  1\n");
    let overridden = with(
        &["--profile", "here", "--output", "json"],
        &[("HBASE_TXN_OUTPUT", "table")],
    );
    assert_eq!(overridden.done(), row);
    with(&["--profile", "here", "--connect", ""], &[]).refused(1, &["no cluster is named"]);
}

#[test]
fn addresses_of_options_environment_and_profile_lead_to_the_cluster() {
    let table = TestTable::new("resolve");
    run(&["put", &table.0, "r", "f:q=1"]).done();
    let unknown = uri().replacen("127.0.0.1", "hbase.invalid", 1);
    assert_ne!(unknown, uri());
    let home = Home::with("[profile.p.resolve]\n'hbase.invalid' = '127.0.0.1'\n");
    let get = ["get", &table.0, "r", "--connect", &unknown, "--timeout", "3s"];
    let with = |options: &[&str], variables: &[(&str, &str)]| home.run(&[&get, options].concat(), variables);
    with(&["--resolve", "hbase.invalid=127.0.0.1"], &[]).done();
    with(
        &[],
        &[("HBASE_TXN_RESOLVE", "other:1=127.0.0.1, HBASE.invalid=127.0.0.1")],
    )
    .done();
    with(&["--profile", "p"], &[]).done();
    // The option comes first.
    let elsewhere = ["--profile", "p", "--resolve", "hbase.invalid=127.0.0.1:1"];
    with(&elsewhere, &[]).refused(1, &["hbase.invalid", "127.0.0.1:1"]);
    with(&[], &[]).refused(1, &["hbase.invalid", "Config::with_address_map", "--resolve "]);
    with(&["--resolve", "a:1"], &[]).refused(2, &["--resolve", "HOST:PORT=ADDRESS:PORT"]);
    with(&[], &[("HBASE_TXN_RESOLVE", "a:1")]).refused(2, &["HBASE_TXN_RESOLVE", "HOST:PORT=ADDRESS:PORT"]);
}

#[test]
fn files_of_option_and_environment_beat_the_address_of_a_profile() {
    let home = Home::with(&format!(
        "[profile.p]\nconnect = 'hbase+rpc://127.0.0.1:2'\ntimeout = '1s'\n[profile.site]\nconfig = '../site.xml'\n\
         timeout = '1s'\n[profile.folder]\nconf_dir = '../conf'\ntimeout = '1s'\n\
         [profile.both]\nconfig = '../site.xml'\nconnect = '{NOWHERE}'\ntimeout = '1s'\n"
    ));
    let site = |port: u16| {
        let name = "hbase.masters";
        let property = format!("<property><name>{name}</name><value>127.0.0.1:{port}</value></property>");
        format!("<configuration>{property}</configuration>")
    };
    let path = |name: &str| home.0.path().join(name);
    fs::create_dir_all(path(".config/conf")).unwrap();
    fs::write(path(".config/site.xml"), site(3)).unwrap();
    fs::write(path(".config/conf/hbase-site.xml"), site(4)).unwrap();
    fs::write(path("other.xml"), site(5)).unwrap();
    let other = path("other.xml");
    let other = other.to_str().unwrap();
    let folder = path(".config/conf");
    let conf_dir = ("HBASE_CONF_DIR", folder.to_str().unwrap());
    let get = |options: &[&str], variables: &[(&str, &str)], port: u16| {
        let line = [&["get", "orders", "r"], options].concat();
        home.run(&line, variables)
            .refused(1, &[&format!("127.0.0.1:{port}")]);
    };
    get(&["--profile", "p"], &[conf_dir], 2);
    get(&["--profile", "p", "--config", other], &[], 5);
    get(&["--profile", "p"], &[("HBASE_TXN_CONFIG", other)], 5);
    get(&["--profile", "site"], &[conf_dir], 3);
    get(&["--profile", "site", "--config", other], &[], 5);
    get(&["--profile", "site", "--connect", NOWHERE], &[], 1);
    get(&["--profile", "both"], &[], 1);
    get(&["--profile", "folder"], &[], 4);
    get(&["--timeout", "1s"], &[conf_dir, ("HBASE_TXN_TIMEOUT", "30s")], 4);
}

#[test]
fn mistakes_in_profiles_and_variables_are_named() {
    let home = Home::with("[profile.p]\noutput = 'table'\ncolour = 'red'\n");
    let get = ["get", "orders", "r"];
    let with = |profile: &str| home.run(&[&get[..], &["--profile", profile]].concat(), &[]);
    with("p").refused(2, &["/.config/hbase-txn/config.toml:3:1: unknown key \"colour\""]);
    let empty = Home::with("[profile.q]\n");
    let line = [&get[..], &["--profile", "p"]].concat();
    empty
        .run(&line, &[])
        .refused(1, &["config.toml has no profile p; it has q"]);
    let none = tempfile::tempdir().unwrap();
    let none = [("XDG_CONFIG_HOME", none.path().to_str().unwrap())];
    empty
        .run(&line, &none)
        .refused(1, &["profile p: reading", "No such file", "[profile.p]"]);
    for (name, value, why) in [
        ("HBASE_TXN_TIMEOUT", "soon", "write a duration as"),
        ("HBASE_TXN_OUTPUT", "xml", "xml"),
        ("HBASE_TXN_LOG", "a=b=c", "a=b=c"),
    ] {
        empty.run(&get, &[(name, value)]).refused(2, &[name, why]);
    }
    empty
        .run(&get, &[("HBASE_TXN_TIMEOUT", "-1s")])
        .refused(2, &["HBASE_TXN_TIMEOUT -1s is out of range"]);
    // A shell gets its completions anyway.
    let completions = ["completions", "bash"];
    assert_eq!(home.run(&completions, &[("HBASE_TXN_PROFILE", "p")]).code, 0);
    let help = run_alone(&["get", "--help"]).done();
    for variable in ["CONNECT", "CONFIG", "PROFILE", "OUTPUT", "TIMEOUT", "LOG"] {
        assert!(help.contains(&format!("HBASE_TXN_{variable}]")), "{help}");
    }
}

#[test]
fn home_of_local_clusters_is_an_option_or_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a b").to_str().unwrap().to_owned();
    let status = ["dev", "status", "--name", "n"];
    // The error for a name with a blank has the folder.
    let expected = format!("{home}/dev/n");
    run_alone(&[&status[..], &["--home", &home]].concat()).refused(1, &[&expected]);
    let of_variable = command(status).env("HBASE_TXN_DEV_HOME", &home).spawn();
    answer(of_variable.unwrap()).refused(1, &[&expected]);
    let home = folder.path().to_str().unwrap();
    let hint = format!("hbase-txn dev up --name n --home {home}");
    run_alone(&["dev", "kill", "--name", "n", "--home", home]).refused(1, &[&hint]);
}
