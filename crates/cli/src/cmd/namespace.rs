//! `hbase-txn namespace`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use hbase_txn::admin::{Admin, NamespaceDescriptor};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output, values,
};

/// List, create and delete namespaces
#[derive(Debug, Args)]
pub(crate) struct Namespace {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Create(Create),
    Delete(Delete),
}

/// List all namespaces with their settings
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn namespace list")]
struct List {}

/// Create a namespace, unless it exists
#[derive(Debug, Args)]
#[command(
    after_help = "Example: hbase-txn namespace create billing --set hbase.namespace.quota.maxtables=10"
)]
struct Create {
    name: String,
    /// Setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::setting)]
    set: Vec<(String, String)>,
}

/// Delete a namespace that has no tables
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn namespace delete billing")]
struct Delete {
    name: String,
}

#[derive(Serialize)]
struct NamespaceObject {
    namespace: String,
    settings: BTreeMap<String, String>,
}

impl Namespace {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        match self.action {
            Action::List(List {}) => print(global, admin.namespaces().await?)?,
            Action::Create(create) => {
                let namespace = NamespaceDescriptor::new(create.name);
                let set = create.set.into_iter();
                let namespace = set.fold(namespace, |all, (key, value)| all.with_configuration(key, value));
                admin.create_namespace(namespace.clone()).await?;
                print(global, vec![admin.namespace(&namespace.name).await?])?;
            }
            Action::Delete(delete) => admin.delete_namespace(&delete.name).await?,
        }
        Ok(Exit::Done)
    }
}

fn print(global: &Global, namespaces: Vec<NamespaceDescriptor>) -> Result<(), Failure> {
    if global.output == Format::Table {
        let rows = namespaces.into_iter().map(|namespace| {
            let settings = namespace.configuration.iter();
            let settings: Vec<String> = settings.map(|(key, value)| format!("{key}={value}")).collect();
            [namespace.name, settings.join(" ")]
        });
        output::page(&output::table(["namespace", "settings"], rows))?;
        return Ok(());
    }
    for namespace in namespaces {
        output::json(&NamespaceObject {
            namespace: namespace.name,
            settings: namespace.configuration,
        })?;
    }
    Ok(())
}
