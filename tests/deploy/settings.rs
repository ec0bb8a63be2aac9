//! XML and YAML of the folder and the guides.

use std::{collections::BTreeMap, process::Command};

use hbase_txn::local::BootOptions;
use quick_xml::{Reader, events::Event};
use yaml_rust2::{Yaml, YamlLoader};

use crate::guides::{blocks, path, read};

type Settings = BTreeMap<String, String>;

const SITE: &str = "coprocessor/hbase-site.xml";
const ROLE: &str = "coprocessor/ansible/roles/hbase_transactions";

/// The settings of an `hbase-site.xml`, none of them twice.
fn settings(xml: &str) -> Settings {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_comments = true;
    let (mut settings, mut tag, mut name) = (Settings::new(), String::new(), String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return settings,
            Event::Start(start) => tag = start.name().into_inner().to_owned(),
            Event::End(_) => tag.clear(),
            Event::Text(text) if tag == "name" => name = text.xml10_content().into_owned(),
            Event::Text(text) if tag == "value" => {
                let value = text.xml10_content().into_owned();
                assert_eq!(
                    settings.insert(name.clone(), value),
                    None,
                    "{name} stands there twice"
                );
            }
            _ => {}
        }
    }
}

fn yaml(text: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(text).unwrap()
}

#[test]
fn all_xml_is_well_formed_and_hbase_would_read_it() {
    let site = read(SITE);
    BootOptions::new().hbase_site(&site).unwrap();
    assert!(settings(&site).len() >= 5);
    // The rule for all tables is for those who want it: in a comment, and a whole file once it is taken out of that.
    let rule = site
        .split("case-sensitive")
        .nth(1)
        .unwrap()
        .split("Or, by the bytes")
        .next()
        .unwrap();
    let from = rule.find("<property>").unwrap();
    let rule = settings(&format!("<configuration>{}</configuration>", &rule[from..]));
    assert_eq!(
        rule["hbase.regionserver.region.split_restriction.type"],
        "KeyPrefix"
    );
    assert_eq!(
        rule["hbase.regionserver.region.split_restriction.prefix_length"],
        "3"
    );
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
    for block in blocks("yaml") {
        assert_eq!(yaml(&block.text).len(), 1, "{}", block.place);
    }
}

#[test]
fn the_config_map_and_the_role_have_the_settings_of_the_file() {
    let file = settings(&read(SITE));

    let maps = blocks("yaml")
        .into_iter()
        .map(|block| yaml(&block.text).remove(0));
    let map = maps
        .into_iter()
        .find(|map| map["kind"].as_str() == Some("ConfigMap"))
        .unwrap();
    assert_eq!(settings(map["data"]["hbase-site.xml"].as_str().unwrap()), file);

    let defaults = yaml(&read(format!("{ROLE}/defaults/main.yml"))).remove(0);
    let text = |yaml: &Yaml| yaml.as_str().unwrap().to_owned();
    let mut role: Settings = defaults["hbase_transactions_settings"]
        .as_hash()
        .unwrap()
        .iter()
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    let classes = defaults["hbase_transactions_user_region_classes"]
        .as_vec()
        .unwrap();
    let classes: Vec<String> = classes.iter().map(text).collect();
    role.insert(
        "hbase.coprocessor.user.region.classes".to_owned(),
        classes.join(","),
    );
    assert_eq!(role, file);
}

#[test]
fn all_scripts_are_well_formed() {
    let well_formed = |what: &str, arguments: &[&str]| {
        let status = Command::new("sh").arg("-n").args(arguments).status().unwrap();
        assert!(status.success(), "{what}");
    };
    let entrypoint = path("coprocessor/docker/entrypoint");
    well_formed("the image's entrypoint", &[entrypoint.to_str().unwrap()]);
    for block in blocks("sh") {
        well_formed(&block.place, &["-c", &block.text]);
    }
}

/// What a builder of the image is sent is what the Dockerfile copies.
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
    assert_eq!(files, 3);
}
