//! Permissions and visibility labels, on clusters that check them (`dev up --authorization`).

use futures::future::join_all;
use hbase_txn::{
    Outcome, Transaction,
    admin::{Admin, CloneSnapshotOptions, PermissionScope, UserPermission},
    client::{Failure, FailureKind, Increment, Permission, Row, RowOperation, Table, TableDescriptor},
};

use crate::*;
use support::eventually;

/// A user that no other test has.
fn unique_user() -> String {
    format!("user_{:08x}", fastrand::u32(..))
}

async fn as_user(cluster: &Cluster, user: &str) -> Connection {
    let config = cluster.config().with_user(user);
    Connection::builder(config).connect().await.unwrap()
}

/// A kind of errors that wraps those of the client.
trait Kind: FailureKind + PartialEq<ClientErrorKind> {}
impl<K: FailureKind + PartialEq<ClientErrorKind>> Kind for K {}

/// Waits until the region servers know a permission.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn until_allowed<T, K: Kind>(what: &str, attempt: impl AsyncFn() -> Result<T, Failure<K>>) -> T {
    eventually(what, async || match attempt().await {
        Ok(done) => Some(done),
        Err(error) => {
            assert!(error.kind() == ClientErrorKind::AccessDenied, "{error}");
            None
        }
    })
    .await
}

/// Waits until the region servers know that a permission is gone, and returns their refusal.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn until_denied<T, K: Kind>(
    what: &str,
    attempt: impl AsyncFn() -> Result<T, Failure<K>>,
) -> Failure<K> {
    eventually(what, async || attempt().await.err()).await
}

fn transaction(table: &PartitionedTable) -> Transaction {
    table
        .transaction("xxx")
        .put(put("xxx1", "1"))
        .put(put("xxx2", "2"))
}

/// Returns whether the cell of a row has a label or an ACL, as its tags say.
async fn has_access_rules(table: &Table, row: &'static str) -> bool {
    let row = table.clone().with_expiry().get(Get::new(row)).await.unwrap();
    row.unwrap().cells()[0].has_access_rules()
}

async fn first(table: &Table) -> Result<Option<Row>, Failure<ClientErrorKind>> {
    table.scan(Scan::new().limit(1))?.next().await
}

#[tokio::test]
async fn user_has_what_was_granted_until_it_is_revoked() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = unique_user();
        let shared = TestTable::create_on(cluster, "granted", by_three, &[]).await;
        let connection = as_user(cluster, &user).await;
        let table = shared.of(&connection);
        let scope = PermissionScope::table(&shared.name).unwrap();
        let granted = |permissions: &[Permission]| {
            UserPermission::new(&user, scope.clone(), permissions.iter().copied())
        };

        let error = table.put(put("xxx1", "v")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &[&user, "WRITE", &shared.name.to_string()]);
        let error = first(&table).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &[&user, &shared.name.to_string()]);
        let reads = granted(&[Permission::Read]);
        assert!(!admin.has_user_permissions(&reads).await.unwrap());
        let error = Admin::new(&connection).grant(&reads, false).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &[&user, "ADMIN", &shared.name.to_string()]);

        admin.grant(&reads, false).await.unwrap();
        assert!(
            until_allowed("the user reads", async || first(&table).await)
                .await
                .is_none()
        );
        let error = table.put(put("xxx1", "v")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");

        // Transactions also need to read the descriptor and to call their endpoint.
        let opens = granted(&[Permission::Exec, Permission::Create]);
        admin.grant(&opens, true).await.unwrap();
        let opened = until_allowed("the table is opened", async || {
            PartitionedTable::open(&connection, shared.name.clone()).await
        })
        .await;
        let outcome = transaction(&opened).commit().await;
        let Outcome::Aborted(error) = outcome else {
            panic!("{outcome}");
        };
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        says(&error, &[&user, "WRITE", &shared.name.to_string()]);
        assert!(keys(&shared.of(admin.connection()), Scan::new()).await.is_empty());

        admin.grant(&granted(&[Permission::Write]), true).await.unwrap();
        until_allowed("the user writes", async || table.put(put("xxx0", "v")).await).await;
        assert!(transaction(&opened).commit().await.is_committed());
        assert_eq!(keys(&table, Scan::new()).await, ["xxx0", "xxx1", "xxx2"]);
        let all = [
            Permission::Read,
            Permission::Write,
            Permission::Exec,
            Permission::Create,
        ];
        assert_eq!(
            admin.user_permissions(&scope, Some(&user)).await.unwrap(),
            [granted(&all)]
        );
        assert!(admin.has_user_permissions(&granted(&all)).await.unwrap());

        admin.revoke(&granted(&all[1..])).await.unwrap();
        let error = until_denied("the user no longer writes", async || {
            table.put(put("xxx0", "v")).await
        })
        .await;
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        let error = table.put(put("xxx1", "v")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        assert_eq!(value(&table, "xxx1").await.as_deref(), Some("1"));
        assert_eq!(
            admin.user_permissions(&scope, Some(&user)).await.unwrap(),
            std::slice::from_ref(&reads)
        );
        // A grant without merging replaces what there is.
        let writes = granted(&[Permission::Write]);
        admin.grant(&writes, false).await.unwrap();
        assert_eq!(
            admin.user_permissions(&scope, Some(&user)).await.unwrap(),
            std::slice::from_ref(&writes)
        );
        for _ in 0..2 {
            admin.revoke(&writes).await.unwrap();
        }
        assert_eq!(admin.user_permissions(&scope, Some(&user)).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn permissions_are_granted_on_every_scope() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = unique_user();
        let shared = TestTable::create_on(cluster, "scopes", plain, &[]).await;
        let table = shared.of(admin.connection());
        let row = Put::new("r").cell("f", "open", "v").cell("f", "closed", "v");
        table.put(row).await.unwrap();
        let own = shared.of(&as_user(cluster, &user).await);

        for scope in [
            PermissionScope::Global,
            PermissionScope::Namespace("default".to_owned()),
            PermissionScope::table(&shared.name).unwrap(),
            PermissionScope::family(&shared.name, "f").unwrap(),
            PermissionScope::qualifier(&shared.name, "f", "open").unwrap(),
        ] {
            let reads = UserPermission::new(&user, scope.clone(), [Permission::Read]);
            admin.grant(&reads, false).await.unwrap();
            let found = until_allowed("the user reads", async || own.get(Get::new("r")).await).await;
            // Columns without the permission are left out.
            let cells = match scope {
                PermissionScope::Qualifier { .. } => 1,
                _ => 2,
            };
            assert_eq!(found.unwrap().cells().len(), cells, "{scope:?}");
            let found = admin.user_permissions(&scope, Some(&user)).await.unwrap();
            assert_eq!(found, std::slice::from_ref(&reads));
            let all = admin.user_permissions(&scope, None).await.unwrap();
            assert!(all.contains(&reads), "{all:?}");
            admin.revoke(&reads).await.unwrap();
            let error = until_denied("the user no longer reads", async || own.get(Get::new("r")).await).await;
            assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        }
        let without_user = UserPermission::new("", PermissionScope::Global, [Permission::Read]);
        let nothing = UserPermission::new(&user, PermissionScope::Global, []);
        for invalid in [without_user, nothing] {
            for refused in [admin.grant(&invalid, false).await, admin.revoke(&invalid).await] {
                assert_eq!(refused.unwrap_err().kind(), ClientErrorKind::InvalidInput);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn permissions_in_a_snapshot_are_restored_on_request() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = unique_user();
        let connection = as_user(cluster, &user).await;
        let shared = TestTable::create_on(cluster, "acl", plain, &[]).await;
        let own = shared.of(&connection);
        shared.of(admin.connection()).put(put("r", "v")).await.unwrap();
        let scope = |table: &TableName| PermissionScope::table(table).unwrap();
        let granted = |table: &TableName, permission| UserPermission::new(&user, scope(table), [permission]);
        let found = async |table: &TableName| {
            let found = admin.user_permissions(&scope(table), Some(&user)).await;
            found.unwrap()
        };
        let reads = granted(&shared.name, Permission::Read);
        admin.grant(&reads, false).await.unwrap();
        let snapshot = format!("acl_{:x}", fastrand::u64(..));
        admin.snapshot(&snapshot, &shared.name).await.unwrap();
        admin.revoke(&reads).await.unwrap();

        let (without, with) = (unique_name("acl"), unique_name("acl"));
        admin.clone_snapshot(&snapshot, &without).await.unwrap();
        let options = CloneSnapshotOptions::new().with_permissions();
        admin
            .clone_snapshot_with(&snapshot, &with, &options)
            .await
            .unwrap();
        assert_eq!(found(&without).await, []);
        assert_eq!(found(&with).await, [granted(&with, Permission::Read)]);
        let copy = connection.table(&with).unwrap();
        until_allowed("the user reads the clone", async || copy.get(Get::new("r")).await).await;
        let other = connection.table(&without).unwrap();
        let error = other.get(Get::new("r")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");

        admin.disable_table(&shared.name).await.unwrap();
        admin.restore_snapshot(&snapshot).await.unwrap();
        assert_eq!(found(&shared.name).await, []);
        admin.restore_snapshot_with_permissions(&snapshot).await.unwrap();
        assert_eq!(found(&shared.name).await, std::slice::from_ref(&reads));
        admin.enable_table(&shared.name).await.unwrap();
        until_allowed("the user reads again", async || own.get(Get::new("r")).await).await;
        for table in [&without, &with] {
            admin.delete_table(table).await.unwrap();
        }
        admin.delete_snapshot(&snapshot).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn cells_are_shown_to_those_with_their_labels() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = unique_user();
        let [secret, temporary] =
            ["secret", "temporary"].map(|label| format!("{label}_{}", fastrand::u32(..)));
        for _ in 0..2 {
            admin.add_labels([&secret, &temporary]).await.unwrap();
        }
        let labels = admin.labels().await.unwrap();
        assert!(
            labels.contains(&secret) && labels.contains(&temporary),
            "{labels:?}"
        );

        let shared = TestTable::create_on(cluster, "labelled", plain, &[]).await;
        let scope = PermissionScope::table(&shared.name).unwrap();
        let reads = UserPermission::new(&user, scope, [Permission::Read]);
        admin.grant(&reads, false).await.unwrap();
        let table = shared.of(admin.connection());
        table.put(put("open", "v")).await.unwrap();
        let hidden = put("hidden", "v").cell_visibility(format!("{secret} & !{temporary}"));
        table.put(hidden).await.unwrap();
        let error = table
            .put(put("odd", "v").cell_visibility("nosuchlabel"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        says(&error, &["nosuchlabel"]);
        // In a shared call, the server would drop these and report success.
        let puts = (0..20).map(|row| table.put(put(format!("odd{row}"), "v").cell_visibility("nosuchlabel")));
        for done in join_all(puts).await {
            says(&done.unwrap_err(), &["nosuchlabel"]);
        }

        assert!(!has_access_rules(&table, "open").await && has_access_rules(&table, "hidden").await);

        let own = shared.of(&as_user(cluster, &user).await);
        until_allowed("the user reads", async || own.get(Get::new("open")).await).await;
        let seen = async |labels: &[&String]| {
            let scan = Scan::new().authorizations(labels.iter().copied());
            let found = keys(&own, scan).await;
            let get = Get::new("hidden").authorizations(labels.iter().copied());
            let got = own.get(get).await.unwrap();
            assert_eq!(got.is_some(), found.contains(&"hidden".to_owned()));
            found
        };
        // The labels that the user lacks are ignored.
        assert_eq!(seen(&[&secret]).await, ["open"]);
        assert_eq!(admin.auths(&user).await.unwrap(), Vec::<String>::new());
        admin.set_auths(&user, [&secret, &temporary]).await.unwrap();
        let mut auths = admin.auths(&user).await.unwrap();
        auths.sort_unstable();
        assert_eq!(auths, [secret.clone(), temporary.clone()]);
        eventually("the labels of the user are known", async || {
            (seen(&[&secret]).await == ["hidden", "open"]).then_some(())
        })
        .await;
        assert_eq!(seen(&[&secret, &temporary]).await, ["open"]);
        assert_eq!(seen(&[&temporary]).await, ["open"]);

        // A delete without the expression does not reach the cell.
        table.delete(Delete::new("hidden")).await.unwrap();
        assert_eq!(seen(&[&secret]).await, ["hidden", "open"]);
        let deletion = Delete::new("hidden").cell_visibility(format!("{secret} & !{temporary}"));
        table.delete(deletion).await.unwrap();
        assert_eq!(seen(&[&secret]).await, ["open"]);

        let expression = format!("{secret} & !{temporary}");
        let counted = |row: &str, expression: &str| {
            let counter = Increment::new(row.to_owned()).column("f", "n", 1);
            RowOperation::from(counter.cell_visibility(expression))
        };
        let mut results = table
            .batch([
                counted("n1", &expression),
                counted("n2", "nosuchlabel"),
                counted("n3", &expression),
            ])
            .await;
        let error = results.remove(1).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        says(&error, &["nosuchlabel"]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(seen(&[&secret]).await, ["n1", "n3", "open"]);
        assert_eq!(seen(&[&secret, &temporary]).await, ["open"]);

        admin.clear_auths(&user, [&secret, &temporary]).await.unwrap();
        assert_eq!(admin.auths(&user).await.unwrap(), Vec::<String>::new());
        let error = admin.set_auths(&user, ["nosuchlabel"]).await.unwrap_err();
        says(&error, &["nosuchlabel"]);
        let error = Admin::new(shared.of(&as_user(cluster, &user).await).connection())
            .add_labels(["mine"])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
    })
    .await;
}

#[tokio::test]
async fn cells_are_shown_to_those_on_their_access_list() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let user = unique_user();
        let shared = TestTable::create_on(cluster, "listed", cell_by_cell, &[]).await;
        let table = shared.of(admin.connection());
        let read = [Permission::Read];
        for row in ["a", "c"] {
            table.put(put(row, "v").acl([(&*user, &read[..])])).await.unwrap();
        }
        table.put(put("b", "v")).await.unwrap();
        let counter = Increment::new("d").column("f", "n", 1).acl([(&*user, &read[..])]);
        table.increment(counter).await.unwrap();
        let together = ["e", "g"].map(|row| {
            let counter = Increment::new(row).column("f", "n", 1);
            RowOperation::from(counter.acl([(&*user, &read[..])]))
        });
        for done in table.batch(together).await {
            done.unwrap();
        }

        let own = shared.of(&as_user(cluster, &user).await);
        assert!(has_access_rules(&own, "a").await && !has_access_rules(&table, "b").await);
        assert_eq!(keys(&own, Scan::new()).await, ["a", "c", "d", "e", "g"]);
        assert_eq!(keys(&table, Scan::new()).await, ["a", "b", "c", "d", "e", "g"]);
        let error = own.put(put("a", "mine")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
        assert_eq!(value(&table, "a").await.as_deref(), Some("v"));
    })
    .await;
}

/// Checks each cell also for users without permissions on the table.
fn cell_by_cell(name: TableName) -> TableDescriptor {
    plain(name).with_attribute("hbase.security.access.early_out", "false")
}
