//! Calls of the active master that fail.

use std::time::Duration;

use hbase_admin::Admin;
use hbase_client::{Connection, ErrorKind, FamilyDescriptor, Result, TableDescriptor, TableName};
use hbase_fake::{Call, FakeHBase};
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_secs(5);

/// Connects to the cluster and its master.
async fn connect(hbase: &FakeHBase) -> Result<Connection> {
    let config = hbase.config().with_operation_timeout(LIMIT);
    let builder = Connection::builder(config).connector(hbase.connector());
    let connection = builder.connect().await?;
    Admin::new(&connection).tables().await?;
    Ok(connection)
}

#[test]
fn error_of_a_call_that_no_master_answered_in_time_is_of_the_last_master_and_retryable() {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&connect(hbase).await?);
        let (region_server, master) = (hbase.server(0), hbase.server(1));
        master.crash();
        let silence_the_registry = async {
            sleep(Duration::from_millis(50)).await;
            region_server.hang();
        };
        let asked = timeout(LIMIT * 2, admin.tables());
        let (asked, ()) = tokio::join!(asked, silence_the_registry);
        let error = asked?.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.is_retryable(), "{error}");
        Ok(())
    });
}

#[test]
fn error_of_a_procedure_at_work_says_so_although_the_last_poll_had_no_answer() {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&connect(hbase).await?);
        let (region_server, master) = (hbase.server(0), hbase.server(1));
        region_server.crash();
        let silence_the_master = async {
            sleep(LIMIT - Duration::from_millis(1_500)).await;
            master.hang();
        };
        let table: TableName = "t".parse()?;
        let descriptor = TableDescriptor::from(table).with_family(FamilyDescriptor::new("f"));
        let created = timeout(LIMIT * 2, admin.create_table(&descriptor, &[]));
        let (created, ()) = tokio::join!(created, silence_the_master);
        let error = created?.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert!(error.is_outcome_unknown(), "{error}");
        let text = error.to_string();
        assert!(text.contains("the master has not finished in time"), "{text}");
        assert!(text.contains("no answer within"), "{text}");
        Ok(())
    });
}

/// A second copy would report the state that the first one has set.
#[test]
fn switch_whose_answer_is_lost_is_not_switched_again() {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&connect(hbase).await?);
        hbase.fault(Call::named("SetSplitOrMergeEnabled").lose_answer().times(1));
        let error = admin.split_switch(false).await.unwrap_err();
        assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
        assert!(!admin.is_split_enabled().await?);
        assert!(!admin.split_switch(true).await?);
        Ok(())
    });
}

#[test]
fn failed_delete_reports_the_disabled_table() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let admin = Admin::new(&connect(hbase).await?);
        hbase.fault(Call::named("DeleteTable").lose_request());
        let error = admin.delete_table("t").await.unwrap_err();
        assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("the table is disabled"), "{hint}");
        Ok(())
    });
}
