//! Calls of the active master that fail.

use std::time::Duration;

use hbase_client::{Connection, ErrorKind};
use hbase_fake::FakeHBase;
use tokio::time::{sleep, timeout};

#[test]
fn error_of_a_call_that_no_master_answered_in_time_is_of_the_last_master_and_retryable() {
    FakeHBase::run(async |hbase| {
        let limit = Duration::from_secs(5);
        let config = hbase.config().with_operation_timeout(limit);
        let builder = Connection::builder(config).connector(hbase.connector());
        let connection = builder.connect().await?;
        let admin = connection.admin();
        admin.tables().await?;
        let (region_server, master) = (hbase.server(0), hbase.server(1));
        master.crash();
        let silence_the_registry = async {
            sleep(Duration::from_millis(50)).await;
            region_server.hang();
        };
        let asked = timeout(limit * 2, admin.tables());
        let (asked, ()) = tokio::join!(asked, silence_the_registry);
        let error = asked?.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.is_retryable(), "{error}");
        Ok(())
    });
}
