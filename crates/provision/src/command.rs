//! Commands for findings, quoted for a shell.

use std::{borrow::Cow, fmt::Display};

use hbase_client::{BytesBinary, TableName};
use hbase_txn::PartitionRule;

/// `hbase-txn table alter TABLE …`.
pub(super) fn alter(table: &TableName, settings: &[&str]) -> String {
    let settings: Vec<_> = settings.iter().map(word).collect();
    format!("{} {}", of_table("alter", table), settings.join(" "))
}

/// `hbase-txn table alter TABLE --family-attribute FAMILY:KEY=VALUE`. No command includes a permission to
/// lose data: the operator must have read of the loss.
pub(super) fn alter_family(table: &TableName, family: &impl Display, key: &str, value: &str) -> String {
    alter(table, &["--family-attribute", &format!("{family}:{key}={value}")])
}

/// `hbase-txn namespace create NAMESPACE`.
pub(super) fn create_namespace(namespace: &str) -> String {
    format!("hbase-txn namespace create {}", word(&namespace))
}

/// The option that allows a loss, `--allow-data-loss NAME`.
pub(super) fn allow_data_loss(loss: &str) -> String {
    format!("--allow-data-loss {}", word(&loss))
}

/// `hbase-txn table ACTION TABLE`.
pub(super) fn of_table(action: &str, table: &TableName) -> String {
    format!("hbase-txn table {action} {}", word(table))
}

/// `hbase-txn grant USER RWXC --table TABLE`: all permissions for this toolkit.
pub(super) fn grant(user: &str, table: &TableName) -> String {
    format!(
        "hbase-txn grant {} RWXC --table {} --merge",
        word(&user),
        word(table)
    )
}

/// What to know before [`grant`]: a table's attribute names classes that servers load.
pub(super) const GRANT_REMARK: &str = "as an administrator of HBase; with C the user can also attach classes to the table, which \
     servers run: first set CoprocessorWhitelistMasterObserver on the masters (coprocessor/security.md)";

/// HBase's own check of a table's regions.
pub(super) fn hbck(table: &TableName) -> String {
    format!("hbase hbck -details {}", word(table))
}

/// `hbase-txn split-switch on` or `merge-switch on`.
pub(super) fn switch_on(switch: &str) -> String {
    format!("hbase-txn {switch}-switch on")
}

/// `hbase-txn table repair TABLE` with the option for a rule that the table does not state yet.
pub(super) fn repair_by(table: &TableName, rule: &PartitionRule) -> String {
    let (option, value) = match rule {
        PartitionRule::PrefixLength(length) => ("--prefix-length", length.to_string()),
        PartitionRule::Delimiter(delimiter) => ("--delimiter", BytesBinary(delimiter).to_string()),
    };
    format!("{} {option} {}", of_table("repair", table), word(&value))
}

/// Quotes a word for a shell.
fn word(text: &impl Display) -> String {
    let text = text.to_string();
    // Only a NUL can't be quoted, and no argument of a command can have one.
    shlex::try_quote(&text).map_or_else(|_| text.clone(), Cow::into_owned)
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
            r#"hbase-txn table alter ns:orders --delimiter "|'""#
        );
        assert_eq!(
            alter_family(&table, &"f", "TTL", ""),
            "hbase-txn table alter ns:orders --family-attribute 'f:TTL='"
        );
        assert_eq!(of_table("repair", &table), "hbase-txn table repair ns:orders");
        assert_eq!(
            repair_by(&table, &PartitionRule::delimiter("|").unwrap()),
            "hbase-txn table repair ns:orders --delimiter '|'"
        );
        assert_eq!(
            grant("eve", &table),
            "hbase-txn grant eve RWXC --table ns:orders --merge"
        );
        assert_eq!(
            grant("o'$a", &table),
            r#"hbase-txn grant "o'"'$a' RWXC --table ns:orders --merge"#
        );
    }
}
