//! Tables planned from files and applied, on a real HBase.

mod applying;
mod planning;

use hbase_provision::{Applied, ApplyStep, ApplyWatcher, Change, Plan, TableFile};
use hbase_txn::{
    admin::Admin,
    client::{Connection, TableName},
};

use crate::support::table::TestTable;

/// A file for a table with transactions, with these additional lines.
pub(crate) fn file(table: &TableName, lines: &str) -> TableFile {
    let text = format!("table = '{table}'\n{lines}");
    TableFile::parse("test.toml", &text).unwrap()
}

/// The same with a rule of three bytes and the family `f`.
pub(crate) fn by_three(table: &TableName, lines: &str) -> TableFile {
    let rule = "partition = {prefix_length = 3}\nfamily = [{name = 'f'}]";
    file(table, &format!("{rule}\n{lines}"))
}

pub(crate) async fn plan(connection: &Connection, file: &TableFile) -> Plan {
    Plan::read(connection, file).await.unwrap()
}

/// Allows all losses of a plan.
fn allowing_losses(plan: Plan) -> Plan {
    let losses: Vec<_> = plan.changes().iter().filter_map(Change::loss).collect();
    losses.into_iter().fold(plan, Plan::allow_data_loss)
}

pub(crate) async fn apply(connection: &Connection, file: &TableFile) -> Applied {
    plan(connection, file).await.apply(connection, &()).await.unwrap()
}

/// Asserts that the table is as the file says, and that applying it again changes nothing.
pub(crate) async fn is_settled(connection: &Connection, file: &TableFile) {
    let plan = plan(connection, file).await;
    assert_eq!(plan.changes(), []);
    assert_eq!(plan.refusals(), []);
    let before = Admin::new(connection).descriptor(file.name()).await.unwrap();
    let applied = plan.apply(connection, &()).await.unwrap();
    assert!(!applied.changed, "{applied:?}");
    assert_eq!(
        Admin::new(connection).descriptor(file.name()).await.unwrap(),
        before
    );
}

/// Returns the changes of a plan, each as its sign and its text.
fn told(plan: &Plan) -> Vec<String> {
    let changes = plan.changes().iter();
    changes
        .map(|change| format!("{} {change}", change.sign()))
        .collect()
}

/// Records the names of the completed steps.
#[derive(Default)]
struct Steps(std::sync::Mutex<Vec<&'static str>>);

impl Steps {
    fn done(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl ApplyWatcher for Steps {
    fn begins(&self, _: &TableName, _: ApplyStep) {}

    fn done(&self, _: &TableName, step: ApplyStep) {
        self.0.lock().unwrap().push(step.name());
    }
}

/// A table name whose table is deleted on drop, no matter how it is created.
pub(crate) fn unmade(what: &str) -> TestTable {
    TestTable::unmade(what)
}
