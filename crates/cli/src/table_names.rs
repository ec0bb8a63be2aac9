//! Names of the cluster's tables: completed in shells, and suggested for a name that is no table.

use std::{any::TypeId, env, ffi::OsStr, time::Duration};

use clap::{Command, Parser};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use hbase_txn::{
    ClientErrorKind, Error,
    admin::Admin,
    client::{Connection, TableName},
};

use crate::{
    exit::Failure,
    global::{Global, Options},
};

/// The variable by which a shell asks for completions.
pub(crate) const COMPLETE: &str = "HBASE_TXN_COMPLETE";

/// The time limit of a list of names: a completion must not keep the shell waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Adds the completion of names to all arguments that are tables.
pub(crate) fn completed(command: Command) -> Command {
    let names = |arg: clap::Arg| {
        if arg.get_value_parser().type_id() == TypeId::of::<TableName>() {
            arg.add(ArgValueCompleter::new(candidates))
        } else {
            arg
        }
    };
    command.mut_args(names).mut_subcommands(completed)
}

/// Returns the names that begin like this. None if the cluster does not answer in time.
fn candidates(current: &OsStr) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Some(current)) = (runtime, current.to_str()) else {
        return Vec::new();
    };
    let words: Vec<String> = env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some(global) = of_words(&words) else {
        return Vec::new();
    };
    let mut names = runtime.block_on(read(&global)).unwrap_or_default();
    names.retain(|name| name.starts_with(current));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The options by which a command line chooses the cluster.
#[derive(Parser)]
struct ClusterOptions {
    #[command(flatten)]
    options: Options,
}

/// Returns the options of an incomplete command line that choose the cluster.
fn of_words(words: &[String]) -> Option<Global> {
    const CHOOSING: [&str; 3] = ["--connect", "--config", "--profile"];
    let mut line = vec!["hbase-txn"];
    for (index, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((option, _)) if CHOOSING.contains(&option) => line.push(word),
            None if CHOOSING.contains(&word.as_str()) => line.extend([word, words.get(index + 1)?.as_str()]),
            _ => {}
        }
    }
    ClusterOptions::try_parse_from(line).ok()?.options.resolve().ok()
}

/// Reads the names of all tables that the user may see.
async fn read(global: &Global) -> Option<Vec<String>> {
    let config = global.chosen().ok()?.config;
    let read = async {
        let connection = Connection::builder(config).connect().await.ok()?;
        Admin::new(&connection).tables().await.ok()
    };
    let tables = tokio::time::timeout(PATIENCE, read).await.ok()??;
    Some(tables.iter().map(TableName::to_string).collect())
}

/// Adds a table with a similar name to a failure because of a table that does not exist.
pub(crate) async fn with_suggestion(failure: Failure, global: &Global) -> Failure {
    let error = match failure {
        Failure::Library(error) if error.kind() == ClientErrorKind::TableNotFound => error,
        failure => return failure,
    };
    let Some(name) = error.table().map(ToString::to_string) else {
        return Failure::Library(error);
    };
    let names = read(global).await.unwrap_or_default();
    Failure::Library(suggest(error, &name, &names))
}

fn suggest(error: Error, name: &str, names: &[String]) -> Error {
    match nearest(name, names) {
        Some(near) => error.with_better_hint(format!("did you mean {near}?")),
        None => error,
    }
}

/// The length up to which two differences make another word.
const SHORT: usize = 4;

/// Returns the name that differs least from this one, if it differs little.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    // What a slip of a finger or two makes.
    let most = if name.chars().count() <= SHORT { 1 } else { 2 };
    let distance = |other: &&String| strsim::osa_distance(name, other);
    let near = names.iter().min_by_key(distance)?;
    (distance(&near) <= most).then_some(near)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ordrs", Some("orders"))]
    #[case("odrers", Some("orders"))]
    #[case("billing:ordrs", Some("billing:orders"))]
    #[case("customers", None)]
    #[case("x", None)]
    #[case("lcks", Some("locks"))]
    #[case("orders_2026", None)]
    fn similar_names_are_suggested(#[case] name: &str, #[case] expected: Option<&str>) {
        let names = ["orders", "locks", "billing:orders"].map(str::to_owned);
        assert_eq!(nearest(name, &names), expected);
        assert_eq!(nearest(name, &[]), None);
    }

    #[rstest]
    #[case(&["hbase-txn", "get", "--connect", "hbase+rpc://m", "ord"], Some("hbase+rpc://m:16000"))]
    #[case(&["hbase-txn", "--connect=hbase+rpc://m", "table", "drop", ""], Some("hbase+rpc://m:16000"))]
    #[case(&["hbase-txn", "get", "--connect"], None)]
    fn options_of_an_incomplete_line_choose_the_cluster(
        #[case] words: &[&str],
        #[case] address: Option<&str>,
    ) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let chosen = of_words(&words).map(|global| global.chosen().unwrap().config.address().to_string());
        assert_eq!(chosen.as_deref(), address);
    }
}
