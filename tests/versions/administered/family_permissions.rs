//! Permissions on the families of a table, on clusters that check them: the list of
//! `coprocessor/security.md`.

use std::time::Duration;

use hbase_txn::{
    Outcome, Result, TableDescriptorExt, TransactionId,
    admin::{Admin, PermissionScope, UserPermission},
    client::{Permission, TableDescriptor},
    latch::PartitionLatches,
    lock::PartitionLocks,
};

use crate::*;
use support::eventually;

const LEASE: Duration = Duration::from_secs(60);

/// What a user does, which permissions are granted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Snapshot,
    Transaction,
    Recorded,
    Outcome,
    Settle,
    Update,
    Lock,
    Latch,
}

use Work::{Latch, Lock, Recorded, Settle, Snapshot, Transaction, Update};

const ALL: [Work; 8] = [
    Snapshot,
    Transaction,
    Recorded,
    Work::Outcome,
    Settle,
    Update,
    Lock,
    Latch,
];

/// The works that need each permission.
const NEEDED: [(&str, Permission, &[Work]); 8] = [
    ("f", Permission::Write, &[Transaction, Recorded, Update]),
    ("f", Permission::Read, &[Snapshot, Update]),
    ("_txn", Permission::Write, &[Recorded, Settle, Update]),
    ("_txn", Permission::Read, &[Work::Outcome, Settle, Update]),
    ("_version", Permission::Write, &[Transaction, Recorded, Update]),
    ("_version", Permission::Read, &[Update]),
    ("_lock", Permission::Write, &[Lock, Latch]),
    ("_lock", Permission::Read, &[Lock, Latch]),
];

fn with_all_families(name: TableName) -> TableDescriptor {
    by_three(name)
        .with_record_family()
        .with_partition_version()
        .with_lock_family()
}

impl Work {
    async fn perform(self, table: &PartitionedTable) -> Result<()> {
        let put = || put("xxx1", "v");
        // An attempt that was refused halfway leaves nothing to the next one.
        let id = format!("{:08x}", fastrand::u32(..));
        match self {
            Snapshot => table.snapshot("xxx").await.map(drop),
            Transaction => committed(table.transaction("xxx").put(put()).commit().await),
            Recorded => committed(table.transaction("xxx").put(put()).recorded().commit().await),
            Self::Outcome => table.outcome("xxx", &TransactionId::unique()).await.map(drop),
            Settle => table.settle("xxx", &TransactionId::unique()).await.map(drop),
            // Of two at once one may conflict, and then it reads its record.
            Update => {
                let update = || {
                    table.update("xxx", |view| {
                        view.get::<&str>("xxx1", "f", "q")?;
                        view.put(put())?;
                        Ok::<_, hbase_txn::Error>(())
                    })
                };
                futures::try_join!(update(), update()).map(drop)
            }
            Lock => {
                let locks = PartitionLocks::open(table).await?;
                let guard = locks.lock("xxx", &id)?.ttl(LEASE).acquire().await?;
                guard.release().await.map(drop)
            }
            Latch => {
                let latches = PartitionLatches::open(table).await?;
                let latch = latches.latch("xxx", &id)?;
                latch.init(1, LEASE).await?;
                latch.count_down(1).await?;
                latch.delete().await.map(drop)
            }
        }
    }

    async fn until_done(self, table: &PartitionedTable) {
        eventually(&format!("{self:?} is done"), async || {
            self.perform(table).await.ok()
        })
        .await;
    }
}

fn committed(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Aborted(error) => Err(error),
        outcome => outcome.into_result().map(drop),
    }
}

#[tokio::test]
async fn permissions_on_families_are_enough_and_each_is_needed() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = format!("user_{:08x}", fastrand::u32(..));
        let shared = TestTable::create_on(cluster, "families", with_all_families, &[]).await;
        let grant = async |scope: PermissionScope, permissions: &[Permission]| {
            let granted = UserPermission::new(&user, scope, permissions.iter().copied());
            admin.grant(&granted, false).await.unwrap();
        };
        let on = |family: &'static str| PermissionScope::family(&shared.name, family).unwrap();
        let both = [Permission::Read, Permission::Write];
        let of_table = [Permission::Exec, Permission::Create];
        grant(PermissionScope::table(&shared.name).unwrap(), &of_table).await;
        for family in ["f", "_txn", "_version", "_lock"] {
            grant(on(family), &both).await;
        }
        let config = cluster.config().with_user(&user);
        // An update that may not read a family is tried again until its deadline.
        let config = config.with_operation_timeout(Duration::from_secs(10));
        let connection = Connection::builder(config).connect().await.unwrap();
        let table = eventually("the table is opened", async || {
            PartitionedTable::open(&connection, shared.name.clone())
                .await
                .ok()
        })
        .await;
        for work in ALL {
            work.until_done(&table).await;
        }
        for (family, missing, needed) in NEEDED {
            let left = both.into_iter().find(|other| *other != missing).unwrap();
            grant(on(family), &[left]).await;
            for work in needed {
                let what = format!("without {missing:?} on {family}, {work:?} is refused");
                eventually(&what, async || work.perform(&table).await.err()).await;
            }
            for work in ALL.into_iter().filter(|work| !needed.contains(work)) {
                if let Err(error) = work.perform(&table).await {
                    panic!("without {missing:?} on {family}, {work:?}: {error}");
                }
            }
            grant(on(family), &both).await;
            for work in needed {
                work.until_done(&table).await;
            }
        }
    })
    .await;
}

/// A table's attributes override the settings of servers, the list of their coprocessors too.
#[tokio::test]
async fn permission_to_create_is_everything_on_the_table() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = format!("user_{:08x}", fastrand::u32(..));
        let shared = TestTable::create_on(cluster, "creators", by_three, &[]).await;
        let others = shared.of(admin.connection());
        others.put(put("xxx1", "secret")).await.unwrap();
        let scope = PermissionScope::table(&shared.name).unwrap();
        let granted = UserPermission::new(&user, scope, [Permission::Create]);
        admin.grant(&granted, false).await.unwrap();
        let connection = Connection::builder(cluster.config().with_user(&user));
        let connection = connection.connect().await.unwrap();
        let theirs = shared.of(&connection);
        let error = theirs.get(Get::new("xxx1")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");

        let without_checks = admin.descriptor(&shared.name).await.unwrap().with_attribute(
            "hbase.coprocessor.region.classes",
            "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint",
        );
        Admin::new(&connection)
            .modify_table(&without_checks)
            .await
            .unwrap();
        eventually("the user reads", async || {
            theirs.get(Get::new("xxx1")).await.ok().flatten()
        })
        .await;
    })
    .await;
}
