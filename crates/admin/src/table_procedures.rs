//! Procedures of the master that create or change a table.

use hbase_client::{
    Error, IntoTableName, Result, TableName,
    low_level::{CallKind, convert, pb},
};
use prost::Message;

use crate::{admin::Admin, polling::poll_until, procedure::unfinished};

impl Admin {
    /// Waits until the master has finished all procedures that create or change a table, of any
    /// client: a procedure outlives the client that started it, and leaves the table in an
    /// intermediate state meanwhile. Only an administrator sees procedures of other users. Returns
    /// at once if there are none.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](hbase_client::ErrorKind::DeadlineExceeded) if they do not end within the
    /// operation timeout.
    pub async fn await_table_procedures(&self, table: impl IntoTableName) -> Result<()> {
        let table = &table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("waiting for the master").at_table(table);
        let deadline = self.deadline();
        let poll = async || {
            let request = pb::GetProceduresRequest {};
            let answer: pb::GetProceduresResponse = self
                .call_master("GetProcedures", CallKind::Read, &request, deadline)
                .await?;
            let begun = |procedure| is_changing(procedure, table);
            Ok((!answer.procedure.iter().any(begun)).then_some(()))
        };
        let unfinished = || unfinished("the master is still at work on the table");
        poll_until(deadline, poll, unfinished).await.map_err(in_context)
    }
}

/// Returns whether a procedure that has not ended creates or changes a table.
fn is_changing(procedure: &pb::Procedure, table: &TableName) -> bool {
    use pb::ProcedureState::{Rolledback, Success};
    !matches!(procedure.state(), Rolledback | Success)
        && procedure
            .state_message
            .iter()
            .filter_map(changed_table)
            .any(|changed| changed == *table)
}

/// Returns the table in the state of a `CreateTableProcedure` or a `ModifyTableProcedure`. Other
/// procedures have no table, or end with one of these.
fn changed_table(state: &pb::StateMessage) -> Option<TableName> {
    let value = state.value();
    let schema = match state.type_url().rsplit('.').next()? {
        "CreateTableStateData" => pb::CreateTableStateData::decode(value).ok()?.table_schema,
        "ModifyTableStateData" => {
            pb::ModifyTableStateData::decode(value)
                .ok()?
                .modified_table_schema
        }
        _ => return None,
    };
    convert::table_name(schema.table_name.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use hbase_client::TableDescriptor;

    fn procedure(kind: &str, state: pb::ProcedureState) -> pb::Procedure {
        let table = TableDescriptor::new("shop:orders").unwrap();
        let schema = convert::table_schema(&table);
        let value = match kind {
            "CreateTableStateData" => pb::CreateTableStateData { table_schema: schema }.encode_to_vec(),
            _ => pb::ModifyTableStateData {
                modified_table_schema: schema,
            }
            .encode_to_vec(),
        };
        pb::Procedure {
            class_name: "org.apache.hadoop.hbase.master.procedure.Some".into(),
            proc_id: 7,
            state: state.into(),
            state_message: vec![
                pb::StateMessage::default(),
                pb::StateMessage {
                    type_url: Some(format!("type.googleapis.com/hbase.pb.{kind}")),
                    value: Some(value.into()),
                },
            ],
            ..pb::Procedure::default()
        }
    }

    #[rstest]
    #[case("CreateTableStateData", pb::ProcedureState::Runnable, true)]
    #[case("ModifyTableStateData", pb::ProcedureState::Waiting, true)]
    #[case("ModifyTableStateData", pb::ProcedureState::Failed, true)]
    #[case("ModifyTableStateData", pb::ProcedureState::Success, false)]
    #[case("ModifyTableStateData", pb::ProcedureState::Rolledback, false)]
    #[case("SplitTableRegionStateData", pb::ProcedureState::Runnable, false)]
    fn only_what_changes_the_table_and_has_not_ended_counts(
        #[case] kind: &str,
        #[case] state: pb::ProcedureState,
        #[case] changing: bool,
    ) {
        let procedure = procedure(kind, state);
        assert_eq!(is_changing(&procedure, &"shop:orders".parse().unwrap()), changing);
        assert!(!is_changing(&procedure, &"orders".parse().unwrap()));
    }

    #[test]
    fn a_state_that_can_not_be_read_is_about_no_table() {
        let mut odd = procedure("ModifyTableStateData", pb::ProcedureState::Runnable);
        odd.state_message[1].value = Some((&b"\xff\xff\xff"[..]).into());
        assert!(!is_changing(&odd, &"shop:orders".parse().unwrap()));
    }
}
