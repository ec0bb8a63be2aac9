//! `hbase-txn label`.

use clap::{Args, Subcommand};
use hbase_txn::{ClientErrorKind, admin::Admin};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Add and list visibility labels, and set by which of them users read
#[derive(Debug, Args)]
pub(crate) struct Label {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
    Auths(Auths),
    SetAuths(SetAuths),
    ClearAuths(ClearAuths),
}

/// List the visibility labels
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn label list")]
struct List {}

/// Add visibility labels
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn label add secret public")]
struct Add {
    #[arg(required = true, value_name = "LABEL")]
    labels: Vec<String>,
}

/// List the labels of a user
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn label auths eve")]
struct Auths {
    /// User, or @GROUP
    user: String,
}

/// Let a user read cells by labels, besides those that the user has
///
/// Prints the labels that the user then has.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn label set-auths eve secret")]
struct SetAuths {
    #[command(flatten)]
    change: Change,
}

/// Take labels from a user
///
/// Prints the labels that the user still has.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn label clear-auths eve secret")]
struct ClearAuths {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
struct Change {
    /// User, or @GROUP
    user: String,
    #[arg(required = true, value_name = "LABEL")]
    labels: Vec<String>,
}

#[derive(Serialize)]
struct LabelObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    label: String,
}

impl Label {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let user = match self.action {
            Action::List(List {}) => {
                let labels = admin.labels().await.map_err(in_context)?;
                return print(global, None, labels);
            }
            Action::Add(Add { labels }) => {
                admin.add_labels(labels).await.map_err(in_context)?;
                return Ok(Exit::Done);
            }
            Action::Auths(Auths { user }) => user,
            Action::SetAuths(SetAuths { change }) => {
                let set = admin.set_auths(&change.user, change.labels).await;
                set.map_err(in_context)?;
                change.user
            }
            Action::ClearAuths(ClearAuths { change }) => {
                let cleared = admin.clear_auths(&change.user, change.labels).await;
                cleared.map_err(in_context)?;
                change.user
            }
        };
        let labels = admin.auths(&user).await.map_err(in_context)?;
        print(global, Some(user), labels)
    }
}

/// Names the cause of a missing table of labels, which only the controller creates.
fn in_context(error: hbase_client::Error) -> Failure {
    match error.kind() {
        ClientErrorKind::TableNotFound => Failure::Refused(
            "the cluster has no visibility labels: they need VisibilityController in \
             hbase.coprocessor.master.classes and hbase.coprocessor.region.classes"
                .to_owned(),
        ),
        _ => error.into(),
    }
}

fn print(global: &Global, user: Option<String>, mut labels: Vec<String>) -> Outcome {
    labels.sort_unstable();
    match global.output {
        Format::Json => {
            for label in labels {
                let user = user.clone();
                output::json(&LabelObject { user, label })?;
            }
        }
        Format::Table => output::page(&output::table(["label"], labels.into_iter().map(|label| [label])))?,
    }
    Ok(Exit::Done)
}
