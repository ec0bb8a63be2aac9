//! The commands that findings name, as a shell takes them.

use std::fmt::Display;

use crate::model::{BytesBinary, PartitionRule, TableName};

/// `hbase-txn table alter TABLE …`.
pub(super) fn alter(table: &TableName, settings: &[&str]) -> String {
    let settings: Vec<_> = settings.iter().map(word).collect();
    format!("{} {}", of_table("alter", table), settings.join(" "))
}

/// `hbase-txn table alter TABLE --family-attribute FAMILY:KEY=VALUE`. With what drops versions said to be meant.
pub(super) fn alter_family(table: &TableName, family: &impl Display, key: &str, value: &str) -> String {
    let setting = format!("{family}:{key}={value}");
    match key {
        "VERSIONS" | "MIN_VERSIONS" | "KEEP_DELETED_CELLS" => {
            alter(table, &["--family-attribute", &setting, "--allow-data-loss"])
        }
        _ => alter(table, &["--family-attribute", &setting]),
    }
}

/// `hbase-txn table ACTION TABLE`.
pub(super) fn of_table(action: &str, table: &TableName) -> String {
    format!("hbase-txn table {action} {}", word(table))
}

/// `hbase-txn table disable TABLE && hbase-txn table enable TABLE`: its regions are opened anew.
pub(super) fn reopen(table: &TableName) -> String {
    format!("{} && {}", of_table("disable", table), of_table("enable", table))
}

/// What gives a user all that this toolkit needs, by HBase's own shell.
pub(super) fn grant(user: &str, table: &TableName) -> String {
    let statement = format!("grant {}, 'RWXC', {}", ruby(user), ruby(&table.to_string()));
    format!("echo {} | hbase shell -n", double_quoted(&statement))
}

/// What HBase's own check tells of a table's regions.
pub(super) fn hbck(table: &TableName) -> String {
    format!("hbase hbck -details {}", word(table))
}

/// `hbase-txn switch WHAT on`.
pub(super) fn switch_on(what: &str) -> String {
    format!("hbase-txn switch {what} on")
}

/// `hbase-txn table repair TABLE`, by a rule that the table does not state yet.
pub(super) fn repair_by(table: &TableName, rule: &PartitionRule) -> String {
    let (option, value) = match rule {
        PartitionRule::PrefixLength(length) => ("--prefix-length", length.to_string()),
        PartitionRule::Delimiter(delimiter) => ("--delimiter", BytesBinary(delimiter).to_string()),
    };
    format!("{} {option} {}", of_table("repair", table), word(&value))
}

/// A string of HBase's shell.
fn ruby(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// The same as [`word`], for what has apostrophes of its own.
fn double_quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        if "\\\"$`".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted + "\""
}

/// A word that a shell takes for itself.
fn word(text: &impl Display) -> String {
    let text = text.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/=,+@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_setting_for_one_word() {
        let table = "ns:orders".parse().unwrap();
        assert_eq!(
            alter(&table, &["--prefix-length", "3"]),
            "hbase-txn table alter ns:orders --prefix-length 3"
        );
        assert_eq!(
            alter(&table, &["--delimiter", "|'"]),
            r"hbase-txn table alter ns:orders --delimiter '|'\'''"
        );
        assert_eq!(
            alter_family(&table, &"f", "TTL", ""),
            "hbase-txn table alter ns:orders --family-attribute f:TTL="
        );
        assert_eq!(of_table("repair", &table), "hbase-txn table repair ns:orders");
        assert_eq!(
            repair_by(&table, &PartitionRule::delimiter("|").unwrap()),
            "hbase-txn table repair ns:orders --delimiter '|'"
        );
        assert_eq!(
            grant("eve", &table),
            r#"echo "grant 'eve', 'RWXC', 'ns:orders'" | hbase shell -n"#
        );
        assert_eq!(
            grant(r#"o'$"a"#, &table),
            r#"echo "grant 'o\\'\$\"a', 'RWXC', 'ns:orders'" | hbase shell -n"#
        );
        assert_eq!(
            reopen(&table),
            "hbase-txn table disable ns:orders && hbase-txn table enable ns:orders"
        );
    }
}
