//! XML and YAML of the folder and the guides.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use hbase_local::BootOptions;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};
use yaml_rust2::{Yaml, YamlLoader};

use crate::guides::{Language, blocks, path, read};

pub(crate) type Settings = BTreeMap<String, String>;

const SITE: &str = "coprocessor/hbase-site.xml";
const ROLE: &str = "coprocessor/ansible/roles/hbase_transactions";

/// Returns the settings of an `hbase-site.xml`. Fails if one occurs twice.
fn settings(xml: &str) -> Settings {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_comments = true;
    let (mut settings, mut text, mut name) = (Settings::new(), String::new(), String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return settings,
            Event::Start(_) => text.clear(),
            Event::Text(part) => text.push_str(&part.xml10_content()),
            Event::GeneralRef(part) => match part.resolve_char_ref().unwrap() {
                Some(character) => text.push(character),
                None => text.push_str(resolve_predefined_entity(&part).unwrap()),
            },
            Event::End(end) if end.name().into_inner() == "name" => name.clone_from(&text),
            Event::End(end) if end.name().into_inner() == "value" => {
                let before = settings.insert(name.clone(), text.clone());
                assert_eq!(before, None, "{name} stands there twice");
            }
            _ => {}
        }
    }
}

/// Returns the rules that the file has in a comment: by length, by delimiter.
pub(crate) fn rules_in_comment() -> Vec<Settings> {
    let site = read(SITE);
    let (_, rules) = site.split_once("case-sensitive").unwrap();
    let (rules, _) = rules.split_once("-->").unwrap();
    let rules = rules.split("Or, by the bytes").map(|rule| {
        let from = rule.find("<property>").unwrap();
        settings(&format!("<configuration>{}</configuration>", &rule[from..]))
    });
    rules.collect()
}

fn yaml(text: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(text).unwrap()
}

#[test]
fn all_xml_is_well_formed_and_hbase_would_read_it() {
    let site = read(SITE);
    BootOptions::new().hbase_site(&site).unwrap();
    assert!(settings(&site).len() >= 5);
    // The rule for all tables is optional, so it is in a comment.
    let rules = rules_in_comment();
    let types: Vec<&str> = rules
        .iter()
        .map(|rule| rule["hbase.regionserver.region.split_restriction.type"].as_str())
        .collect();
    assert_eq!(types, ["KeyPrefix", "DelimitedKeyPrefix"]);
}

#[test]
fn all_yaml_is_well_formed() {
    let role = ["defaults", "handlers", "meta", "tasks"].map(|folder| format!("{ROLE}/{folder}/main.yml"));
    let others = [
        format!("{ROLE}/tasks/doctor.yml"),
        "coprocessor/ansible/site.yml".to_owned(),
    ];
    for file in role.iter().chain(&others) {
        assert_eq!(yaml(&read(file)).len(), 1, "{file}");
    }
    for block in blocks(Language::Yaml) {
        assert_eq!(yaml(&block.text).len(), 1, "{block}");
    }
}

#[test]
fn the_config_map_and_the_role_have_the_settings_of_the_file() {
    let file = settings(&read(SITE));

    let maps = blocks(Language::Yaml)
        .into_iter()
        .map(|block| yaml(&block.text).remove(0));
    let map = maps
        .into_iter()
        .find(|map| map["kind"].as_str() == Some("ConfigMap"))
        .unwrap();
    assert_eq!(settings(map["data"]["hbase-site.xml"].as_str().unwrap()), file);
    // The pods mount the file of that map, by its name.
    let blocks = blocks(Language::Yaml);
    let pods = blocks.iter().map(|block| yaml(&block.text).remove(0));
    let pods = pods.map(|pods| pods["spec"]["template"]["spec"].clone());
    let pod = pods.into_iter().find(|pod| !pod.is_badvalue()).unwrap();
    let (mount, volume) = (&pod["containers"][0]["volumeMounts"][0], &pod["volumes"][0]);
    assert_eq!(volume["configMap"]["name"], map["metadata"]["name"]);
    assert_eq!(mount["name"], volume["name"]);
    assert!(!map["data"][mount["subPath"].as_str().unwrap()].is_badvalue());
    assert!(mount["mountPath"].as_str().unwrap().ends_with("/hbase-site.xml"));

    let defaults = yaml(&read(format!("{ROLE}/defaults/main.yml"))).remove(0);
    let text = |yaml: &Yaml| yaml.as_str().unwrap().to_owned();
    let mut role: Settings = defaults["hbase_transactions_settings"]
        .as_hash()
        .unwrap()
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    for (list, variable) in LISTS {
        role.insert(list.to_owned(), classes(&defaults, variable).join(","));
    }
    assert_eq!(role, file);
}

/// Keeps users that may alter a table from running code of theirs in region servers.
const WHITELIST: &str = "org.apache.hadoop.hbase.security.access.CoprocessorWhitelistMasterObserver";

/// A guide that grants the permission to alter tables, or turns attributes of tables on, restricts
/// their classes first.
#[test]
fn coprocessors_are_restricted_before_anything_that_needs_it() {
    let list = "hbase.coprocessor.master.classes";
    assert_eq!(settings(&read(SITE))[list], WHITELIST);
    assert!(rendered(&[], &[]).contains(WHITELIST));
    let mut guides = 0;
    for folder in ["coprocessor", ROLE, "docs"] {
        let files = [folder.to_owned(), format!("{folder}/defaults")];
        let entries = files.iter().filter_map(|folder| fs::read_dir(path(folder)).ok());
        for file in entries.flatten().map(|entry| entry.unwrap().path()) {
            let Ok(text) = fs::read_to_string(&file) else {
                continue;
            };
            let needs = ["RWXC", "XC ", "coprocessor.user.enabled"];
            let Some(needs) = needs.iter().filter_map(|text_of| text.find(text_of)).min() else {
                continue;
            };
            let first = [
                "CoprocessorWhitelistMasterObserver",
                "#restrict-coprocessors-first",
            ];
            let first = first.iter().filter_map(|text_of| text.find(text_of)).min();
            assert!(first.is_some_and(|first| first < needs), "{}", file.display());
            guides += 1;
        }
    }
    assert_eq!(guides, 6);
}

/// The lists of classes, and the role's variables with those that it adds.
const LISTS: [(&str, &str); 2] = [
    (
        "hbase.coprocessor.master.classes",
        "hbase_transactions_master_classes",
    ),
    (
        "hbase.coprocessor.user.region.classes",
        "hbase_transactions_user_region_classes",
    ),
];

fn classes(defaults: &Yaml, variable: &str) -> Vec<String> {
    let classes = defaults[variable].as_vec().unwrap().iter();
    classes.map(|class| class.as_str().unwrap().to_owned()).collect()
}

/// Renders the role's template like Ansible, without Ansible.
fn rendered(others: &[&str], more: &[(&str, &str)]) -> String {
    let defaults = yaml(&read(format!("{ROLE}/defaults/main.yml"))).remove(0);
    let text = |yaml: &Yaml| yaml.as_str().unwrap().to_owned();
    let [master_classes, region_classes] = LISTS.map(|(_, variable)| classes(&defaults, variable));
    let defaults = defaults["hbase_transactions_settings"].as_hash().unwrap();
    let mut settings: Settings = defaults
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    settings.extend(
        more.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );

    let mut environment = Environment::new();
    // An undefined name is an error in Ansible.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_trim_blocks(true);
    // A method of Python's dictionaries, which the renderer has only as a filter.
    environment.set_unknown_method_callback(|state, value, method, _| match method {
        "items" => state.apply_filter("items", std::slice::from_ref(value)),
        _ => Err(ErrorKind::UnknownMethod.into()),
    });
    let template = read(format!("{ROLE}/templates/hbase-site-block.xml.j2"));
    let block = environment.render_str(
        &template,
        context! {
            hbase_transactions_master_classes_of_others => others,
            hbase_transactions_master_classes => master_classes,
            hbase_transactions_region_classes_of_others => others,
            hbase_transactions_user_region_classes => region_classes,
            hbase_transactions_settings => settings,
        },
    );
    format!("<configuration>\n{}</configuration>\n", block.unwrap())
}

#[test]
fn the_template_of_the_role_makes_the_settings_of_the_file() {
    let file = settings(&read(SITE));
    let block = rendered(&[], &[]);
    assert_eq!(settings(&block), file);
    BootOptions::new().hbase_site(&block).unwrap();

    // Existing classes stay in front, none occurs twice, and no character breaks the file.
    let own: Vec<&str> = LISTS.iter().map(|(list, _)| file[*list].as_str()).collect();
    let block = rendered(&["org.example.Other", own[0], own[1]], &[("a.b", "<1 & 2>")]);
    BootOptions::new().hbase_site(&block).unwrap();
    let written = settings(&block);
    for (list, _) in LISTS {
        assert_eq!(written[list], format!("org.example.Other,{},{}", own[0], own[1]));
    }
    assert_eq!(written["a.b"], "<1 & 2>");
    assert_eq!(written.len(), file.len() + 1);
}

#[test]
fn all_scripts_are_well_formed() {
    let well_formed = |what: &str, arguments: &[&str]| {
        let status = Command::new("sh").arg("-n").args(arguments).status().unwrap();
        assert!(status.success(), "{what}");
    };
    for script in ["entrypoint", "unpack"] {
        let file = path("coprocessor/docker").join(script);
        well_formed(script, &[file.to_str().unwrap()]);
    }
    for block in blocks(Language::Shell) {
        well_formed(&block.to_string(), &["-c", &block.text]);
    }
}

#[test]
fn ports_of_containers_are_published_on_loopback_only() {
    let mut published = 0;
    for block in blocks(Language::Console) {
        let words: Vec<&str> = block.text.split_whitespace().collect();
        for (option, port) in words.iter().zip(&words[1..]) {
            assert!(!matches!(*option, "-p" | "-P" | "--publish-all"), "{block}");
            if *option == "--publish" {
                assert!(port.starts_with("127.0.0.1:"), "{block}: {port}");
                published += 1;
            }
        }
    }
    assert_eq!(published, 3);
}

/// A container on the host's network serves the host alone, unless it is given a name for others.
#[test]
fn a_standalone_container_listens_on_loopback_unless_it_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let java = folder.path().join("java");
    fs::write(&java, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    fs::set_permissions(&java, Permissions::from_mode(0o755)).unwrap();
    for (host, listens) in [("", "127.0.0.1"), ("hbase", "0.0.0.0")] {
        let output = Command::new("sh")
            .arg(path("coprocessor/docker/entrypoint"))
            .arg("standalone")
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .env("HBASE_HOST", host)
            .output()
            .unwrap();
        let arguments = String::from_utf8(output.stdout).unwrap();
        for key in [
            "hbase.master.ipc.address",
            "hbase.regionserver.ipc.address",
            "hbase.zookeeper.property.clientPortAddress",
        ] {
            assert!(
                arguments.lines().any(|line| line == format!("{key}={listens}")),
                "{host:?}: {arguments}"
            );
        }
    }
}

/// Servers' files may have passwords, so what reads or changes one prints none of it.
#[test]
fn the_role_prints_no_file_of_a_server() {
    let tasks = yaml(&read(format!("{ROLE}/tasks/main.yml"))).remove(0);
    let (mut read, mut written) = (0, 0);
    for task in tasks.as_vec().unwrap() {
        if !task["ansible.builtin.slurp"].is_badvalue() {
            assert_eq!(task["no_log"].as_bool(), Some(true), "{task:?}");
            read += 1;
        }
        if !task["ansible.builtin.blockinfile"].is_badvalue() {
            assert_eq!(task["diff"].as_bool(), Some(false), "{task:?}");
            written += 1;
        }
    }
    assert_eq!((read, written), (1, 1));
}

/// An archive that comes from a URL is unpacked only if it has the checksum that the builder states.
#[test]
fn an_archive_with_another_checksum_is_refused() {
    let run = |folder: &Path, script: &str, sum: &str| {
        Command::new("sh")
            .args(["-euc", script, "sh"])
            .arg(path("coprocessor/docker/unpack"))
            .env("HBASE_SHA512", sum)
            .current_dir(folder)
            .output()
            .unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let pack = "mkdir -p hbase/lib added; touch hbase/lib/a.jar; tar -czf added/hbase.tar.gz hbase; sha512sum added/*";
    let sum = String::from_utf8(run(folder.path(), pack, "").stdout).unwrap();
    let sum = sum.split(' ').next().unwrap();
    let unpack = "sh \"$1\" added target; ls target/lib";
    for (wrong, told) in [
        ("0".repeat(128), "another SHA-512"),
        (String::new(), "needs --build-arg"),
    ] {
        let output = run(folder.path(), unpack, &wrong);
        assert!(!output.status.success() && !folder.path().join("target").exists());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told), "{stderr}");
    }
    // As Apache writes it.
    let published = format!("\n{} {}\n", sum[..64].to_uppercase(), &sum[64..]);
    let output = run(folder.path(), unpack, &published);
    assert_eq!(output.stdout, b"a.jar\n", "{output:?}");

    // A file beside the Dockerfile, which ADD unpacks.
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), pack, "");
    let output = run(
        folder.path(),
        &format!("mv hbase added; rm added/*.gz; {unpack}"),
        "",
    );
    assert_eq!(output.stdout, b"a.jar\n", "{output:?}");
}

/// The build context has all files that the Dockerfile copies.
#[test]
fn the_image_is_made_of_files_that_are_there() {
    let dockerfile = read("coprocessor/Dockerfile");
    let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    let mut files = 0;
    for copy in copies {
        let names: Vec<&str> = copy.split(' ').collect();
        for name in &names[..names.len() - 1] {
            assert!(path("coprocessor").join(name).is_file(), "{name}");
            files += 1;
        }
    }
    assert_eq!(files, 4);
}
