//! Changes whose result the master has forgotten: the library looks for the effect itself, and says that
//! the outcome is unknown if it does not see it.
//!
//! A fake master forgets a result when it has sent it, so an answer that is lost is enough. A real one
//! keeps results for minutes.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::Result;
use hbase_fake::{Call, FakeHBase, Fault};
use hbase_txn::{
    admin::Admin,
    client::{RegionInfo, TableDescriptor},
};
use rstest::rstest;

use crate::support::table::plain;

const TABLE: &str = "orders";
/// Shorter than the timeout of an attempt.
const DEADLINE: Duration = Duration::from_secs(5);

/// A change that is a procedure of the master.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create,
    Modify,
    Disable,
    Enable,
    Delete,
    Split,
    Merge,
    CreateNamespace,
}

fn descriptor() -> TableDescriptor {
    plain(TABLE.parse().unwrap())
}

/// The first answer may be that the change is not finished yet.
fn lost_result() -> Fault {
    Call::named("getProcedureResult").lose_answer().times(2)
}

async fn regions(admin: &Admin) -> Result<Vec<RegionInfo>> {
    let regions = admin.regions(TABLE).await?;
    Ok(regions.into_iter().map(|found| found.region).collect())
}

impl Change {
    /// Brings the cluster into the state before the change.
    async fn prepare(self, admin: &Admin) -> Result<()> {
        if matches!(self, Self::Create | Self::CreateNamespace) {
            return Ok(());
        }
        admin.create_table(&descriptor(), &["m".into()]).await?;
        match self {
            // A table is disabled before it is deleted, which is a change of its own.
            Self::Enable | Self::Delete => admin.disable_table(TABLE).await,
            _ => Ok(()),
        }
    }

    async fn make(self, admin: &Admin) -> Result<()> {
        match self {
            Self::Create => admin.create_table(&descriptor(), &[]).await,
            Self::Modify => {
                let descriptor = admin.descriptor(TABLE).await?.with_attribute("a", "b");
                admin.modify_table(&descriptor).await
            }
            Self::Disable => admin.disable_table(TABLE).await,
            Self::Enable => admin.enable_table(TABLE).await,
            Self::Delete => admin.delete_table(TABLE).await,
            Self::Split => {
                let at = Bytes::from("c");
                admin.split_region(&regions(admin).await?[0], Some(at)).await
            }
            Self::Merge => admin.merge_regions(&regions(admin).await?).await,
            Self::CreateNamespace => admin.create_namespace("shop").await,
        }
    }
}

#[rstest]
#[case(Change::Create)]
#[case(Change::Modify)]
#[case(Change::Disable)]
#[case(Change::Enable)]
#[case(Change::Delete)]
fn effect_of_a_forgotten_change_is_found(#[case] change: Change) {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&hbase.connect().await?);
        change.prepare(&admin).await?;
        hbase.fault(lost_result());
        change.make(&admin).await?;
        Ok(())
    });
}

#[rstest]
#[case(Change::Create, Some("GetTableDescriptors"))]
#[case(Change::Disable, Some("GetTableState"))]
#[case(Change::Enable, Some("GetTableState"))]
#[case(Change::Delete, Some("GetTableDescriptors"))]
#[case(Change::Split, None)]
#[case(Change::Merge, None)]
#[case(Change::CreateNamespace, None)]
fn forgotten_change_whose_effect_is_not_seen_is_unknown(
    #[case] change: Change,
    #[case] read: Option<&'static str>,
) {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&hbase.connect().await?);
        change.prepare(&admin).await?;
        hbase.fault(lost_result());
        if let Some(read) = read {
            hbase.fault(Call::named(read).lose_request());
        }
        let error = change.make(&admin).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        Ok(())
    });
}

/// The last attempt has less time than a server needs to answer, and says nothing of the cause.
#[test]
fn call_of_the_master_that_gives_up_reports_what_the_master_said() {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&hbase.connect().await?).with_operation_timeout(DEADLINE);
        let call = || Call::named("GetTableNames");
        let starting = call().fail_before("PleaseHoldException", "Master is initializing");
        hbase.fault(starting.times(3));
        hbase.fault(call().lose_request());
        let error = admin.tables().await.unwrap_err();
        assert!(error.to_string().contains("Master is initializing"), "{error}");
        Ok(())
    });
}

/// The master completes a descriptor, so this one may be the effect of the change, or not.
#[test]
fn forgotten_change_that_leaves_another_descriptor_is_unknown() {
    FakeHBase::run(async |hbase| {
        let admin = Admin::new(&hbase.connect().await?);
        admin.create_table(&descriptor(), &[]).await?;
        hbase.fault(lost_result());
        let changed = descriptor().with_attribute("a", "b");
        let error = admin.modify_table(&changed).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        Ok(())
    });
}
