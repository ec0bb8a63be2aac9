//! Commands for the hints of errors. The libraries name no commands.

use std::{borrow::Cow, error::Error as _, fmt::Display, iter::successors, path::Path};

use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, TableDescriptorExt,
    client::{RemoteException, TableDescriptor},
};

/// The hint for a table that does not exist. A read of a mistyped name must not lead to a new table.
const CHECK_NAME: &str = "check its name: run hbase-txn table list";

/// Returns the setting without which HBase has not created this table of its own.
fn feature(table: &str) -> Option<&'static str> {
    match table {
        "hbase:quota" => Some("quotas are off: set hbase.quota.enabled to true on the servers"),
        "hbase:acl" => {
            Some("permissions are off: the AccessController is not among the coprocessors of the servers")
        }
        "hbase:labels" => {
            Some("labels are off: the VisibilityController is not among the coprocessors of the servers")
        }
        _ => None,
    }
}

/// Returns whether the server refused to increment a value that is not a counter.
pub(crate) fn is_no_counter(remote: Option<&RemoteException>) -> bool {
    remote.is_some_and(RemoteException::is_no_counter)
}

/// Appends the command or the option that fixes the error to its hint, if there is one.
pub(crate) fn with_command(error: Error) -> Error {
    if error.kind() == ClientErrorKind::TableNotFound {
        let hint = error.table().and_then(feature).unwrap_or(CHECK_NAME);
        return error.with_better_hint(hint);
    }
    // A lock's error names the column.
    if error.hint().is_none() && is_no_counter(error.remote()) {
        return error.with_better_hint("a column that is incremented holds no 8-byte counter");
    }
    let advice = command(&error).map(|command| format!("run {command}"));
    let Some(advice) = advice.or_else(|| resolve(&error)) else {
        return error;
    };
    let hint = error.hint().map_or_else(String::new, |hint| format!("{hint}: "));
    error.with_better_hint(format!("{hint}{advice}"))
}

/// Returns the option that names another address, if a hint of the library in the error names its method.
fn resolve(error: &Error) -> Option<String> {
    const METHOD: &str = "Config::with_address_map";
    let causes = successors(error.source(), |&cause| cause.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<hbase_client::Error>());
    let has_method = |hint: Option<&str>| hint.is_some_and(|hint| hint.contains(METHOD));
    if !has_method(error.hint()) && !causes.any(|cause| has_method(cause.hint())) {
        return None;
    }
    // The address of a cluster stands there too, as a URI.
    let server = error.server().filter(|server| !server.contains('/'));
    let server = server.map_or_else(|| "HOST:PORT".to_owned(), |server| word(&server));
    Some(format!("pass --resolve {server}=ADDRESS"))
}

/// Appends the command that fixes the error of a local cluster to its hint, if there is one. `home`
/// is the folder of the option --home.
pub(crate) fn with_dev_command(
    error: hbase_local::Error,
    name: &str,
    home: Option<&Path>,
) -> hbase_local::Error {
    use hbase_local::ErrorKind;

    let command = match error.kind() {
        ErrorKind::NotRunning => "up",
        ErrorKind::NoGateway => "up --thrift",
        ErrorKind::OtherSettings => "down",
        ErrorKind::Mismatch | ErrorKind::Unusable => "down --purge",
        _ => return error,
    };
    let hint = error.hint().map_or_else(String::new, |hint| format!("{hint}: "));
    let home = home.map_or_else(String::new, |home| format!(" --home {}", word(&home.display())));
    error.with_better_hint(format!(
        "{hint}run hbase-txn dev {command} --name {}{home}",
        word(&name)
    ))
}

/// Appends the command that shows further problems of the table, if a plan could not be verified on
/// it.
pub(crate) fn with_check(error: Error) -> Error {
    match (error.table().map(|table| word(&table)), command(&error)) {
        (Some(table), Some(_)) => {
            let hint = error.hint().map_or_else(String::new, |hint| format!("{hint}; "));
            error.with_better_hint(format!("{hint}run hbase-txn table check {table}"))
        }
        _ => error,
    }
}

/// Returns the command that fixes the error, with placeholders in capitals.
fn command(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::Client(ClientErrorKind::NamespaceNotFound) => {
            return Some("hbase-txn namespace create NAME".to_owned());
        }
        ErrorKind::Client(ClientErrorKind::SnapshotNotFound) => {
            return Some("hbase-txn snapshot list".to_owned());
        }
        ErrorKind::Client(ClientErrorKind::QuotaExceeded) => return Some("hbase-txn quota list".to_owned()),
        _ => {}
    }
    let table = word(&error.table()?);
    let alter = |option: &str| format!("hbase-txn table alter {table} {option}");
    let on_table = |action: &str| format!("hbase-txn table {action} {table}");
    let command = match error.kind() {
        _ if error.missing_family().is_some() => alter(&adding(error.missing_family()?)),
        ErrorKind::NoPartitionRule => alter("--prefix-length N"),
        ErrorKind::PartitionCut if !error.is_retryable() => on_table("repair"),
        ErrorKind::RecordFamilyMissing => on_table("check"),
        ErrorKind::WeakDurability => alter("--attribute DURABILITY=SYNC_WAL"),
        ErrorKind::Client(kind) => match kind {
            ClientErrorKind::TableExists => on_table("describe"),
            // The library's own refusals already name the families.
            ClientErrorKind::FamilyNotFound if error.remote().is_some() => on_table("describe"),
            ClientErrorKind::TableDisabled => on_table("enable"),
            ClientErrorKind::AccessDenied => format!("hbase-txn grant USER RWXC --table {table} --merge"),
            ClientErrorKind::EndpointMissing => alter("--endpoint"),
            ClientErrorKind::SwitchedOff => on_table("check"),
            _ => return None,
        },
        _ => return None,
    };
    Some(command)
}

/// The option that adds a family.
fn adding(family: &str) -> String {
    match family {
        TableDescriptor::RECORD_FAMILY => "--record-family".to_owned(),
        TableDescriptor::VERSION_FAMILY => "--partition-version".to_owned(),
        TableDescriptor::LOCK_FAMILY => "--lock-family".to_owned(),
        family => format!("--family {}", word(&family)),
    }
}

/// Quotes a word for a shell, in the notation for bytes, and so that it is not parsed as an option.
pub(crate) fn word(text: &impl Display) -> String {
    let mut text = text.to_string();
    if let Some(rest) = text.strip_prefix('-') {
        text = format!(r"\x2D{rest}");
    }
    quote(&text)
}

/// Quotes a text for a shell, which takes it unchanged.
pub(crate) fn quote(text: &str) -> String {
    // Only a NUL can't be quoted, and no argument or variable can have one.
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn hint(error: Error) -> Option<String> {
        with_command(error.at_table(&"ns:orders"))
            .hint()
            .map(str::to_owned)
    }

    #[rstest]
    #[case(
        ClientErrorKind::TableDisabled,
        "enable it: run hbase-txn table enable ns:orders"
    )]
    #[case(
        ClientErrorKind::EndpointMissing,
        "run hbase-txn table alter ns:orders --endpoint"
    )]
    fn command_follows_the_hint(#[case] kind: ClientErrorKind, #[case] expected: &str) {
        assert_eq!(hint(Error::new(kind, "")).unwrap(), expected);
        assert_eq!(
            with_command(Error::new(kind, "")).hint(),
            Error::new(kind, "").hint()
        );
    }

    #[rstest]
    #[case("_txn", "--record-family")]
    #[case("_lock", "--lock-family")]
    #[case("S", "--family S")]
    fn missing_family_names_the_option(#[case] family: &'static str, #[case] option: &str) {
        let error = Error::new(ClientErrorKind::FamilyNotFound, "").with_missing_family(family);
        let expected = format!("run hbase-txn table alter ns:orders {option}");
        assert_eq!(hint(error).unwrap(), expected);
    }

    #[test]
    fn method_for_addresses_becomes_an_option() {
        let hint = |error: Error| with_command(error).hint().map(str::to_owned);
        let cause = hbase_client::Error::new(ClientErrorKind::Unreachable, "can't connect")
            .with_hint("name an address (Config::with_address_map)")
            .at_server(&"rs-0:16020");
        assert_eq!(
            hint(cause.clone().into()).unwrap(),
            "name an address (Config::with_address_map): pass --resolve rs-0:16020=ADDRESS"
        );
        let gave_up = Error::new(ClientErrorKind::DeadlineExceeded, "gave up")
            .at_server(&"hbase+rpc://rs-0:16020")
            .with_source(cause);
        assert_eq!(hint(gave_up).unwrap(), "pass --resolve HOST:PORT=ADDRESS");
        assert_eq!(hint(Error::new(ClientErrorKind::Unreachable, "")), None);
    }

    #[test]
    fn a_local_clusters_hint_names_the_cluster() {
        let error = |kind, home: Option<&str>| {
            with_dev_command(hbase_local::Error::new(kind, "x"), "a b", home.map(Path::new))
        };
        let hint = |kind| error(kind, None).hint().map(str::to_owned);
        assert_eq!(
            hint(hbase_local::ErrorKind::NoGateway).unwrap(),
            "start one: run hbase-txn dev up --thrift --name 'a b'"
        );
        let elsewhere = error(hbase_local::ErrorKind::NotRunning, Some("/a b"));
        assert!(
            elsewhere
                .hint()
                .unwrap()
                .ends_with("dev up --name 'a b' --home '/a b'")
        );
        assert_eq!(hint(hbase_local::ErrorKind::Cluster), None);
    }

    #[rstest]
    #[case("order-1", "order-1")]
    #[case("a b#$HOME", "'a b#$HOME'")]
    #[case("-f", r#""\\x2Df""#)]
    #[case("it's", r#""it's""#)]
    fn a_shell_takes_each_word_for_one(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(word(&text), expected);
    }
}
