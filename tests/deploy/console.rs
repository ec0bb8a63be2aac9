//! Blocks of lines with a `$`: those of `hbase-txn` are run, others need machines that the test
//! does not have.

use crate::guides::{Block, Language, blocks};

/// Prefixes of lines that are not run, with the reasons.
const NOT_RUN: [(&str, &str); 9] = [
    ("grep -A1 ", "reads the configuration of a host"),
    ("for server in ", "logs in to region servers"),
    (
        "/opt/hbase/bin/",
        "HBase's scripts are not among the jars of Maven",
    ),
    ("cd coprocessor/ansible", "only goes before the next two"),
    (
        "ansible-playbook ",
        "logs in to hosts; `settings` renders the role's template",
    ),
    ("kubectl ", "needs a cluster of Kubernetes"),
    (
        "docker build ",
        "`make test-docker` builds the image, from packages of Debian",
    ),
    ("docker run ", "`make test-docker` runs the image"),
    (
        "hbase-txn doctor --watch ",
        "never ends; tests/command/checks.rs watches",
    ),
];

/// The address of a cluster in the guides.
const ADDRESS: &str = "--connect hbase+zk://127.0.0.1:2181/hbase ";

/// The lines of a block, without the `$`, with their continuation lines.
fn lines(block: &Block) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for text in block.text.lines() {
        match text.strip_prefix("$ ") {
            Some(line) => lines.push(line.to_owned()),
            None => {
                let line = lines.last_mut().unwrap_or_else(|| panic!("{block}: {text}"));
                line.push('\n');
                line.push_str(text);
            }
        }
    }
    lines
}

/// The lines of a block that can be run here, as a script that finds its cluster in the
/// environment.
pub(crate) fn script(block: &Block) -> String {
    let mut script = String::new();
    for line in lines(block) {
        if NOT_RUN.iter().any(|(begin, _)| line.starts_with(begin)) {
            continue;
        }
        assert!(
            line.starts_with("hbase-txn "),
            "{block}: nothing runs {line:?}, and nothing says why"
        );
        script.push_str(&line.replacen(ADDRESS, "", 1));
        script.push('\n');
    }
    script
}

#[test]
fn every_line_is_run_or_said_to_need_more_than_there_is_here() {
    let blocks = blocks(Language::Console);
    let lines: Vec<String> = blocks.iter().flat_map(lines).collect();
    for (begin, why) in NOT_RUN {
        let any = lines.iter().any(|line| line.starts_with(begin));
        assert!(any, "no line begins with {begin:?} any more ({why})");
    }
    let scripts: Vec<String> = blocks.iter().map(script).collect();
    assert_eq!(scripts.concat(), "hbase-txn doctor\n");
}
