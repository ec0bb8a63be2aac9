//! Clients that act as another user than they authenticate as. Servers allow `alice` to act as `bob`.

use hbase_txn::{
    ClientErrorKind,
    admin::{Admin, PermissionScope, UserPermission},
    client::{Get, Permission},
};

use super::{refusals::refused, *};
use support::{
    eventually, says,
    table::{TestTable, plain},
};
use tokens::by_token;

/// Allows `bob` to call the endpoint that returns the user, if the cluster checks it.
async fn let_bob_ask(cluster: &Cluster) {
    if !server_site(cluster).contains("AccessController") {
        return;
    }
    let admin = Admin::new(&cluster.connect().await);
    let scope = PermissionScope::table("hbase:meta").unwrap();
    let grant = UserPermission::new("bob", scope, [Permission::Exec]);
    admin.grant(&grant, false).await.unwrap();
    let bob = connect(config_of(cluster, "bob")).await.unwrap();
    eventually("bob may call the endpoint", async || who_am_i(&bob).await.ok()).await;
}

/// Returns the settings of `alice` who acts as another user.
fn alice_as(cluster: &Cluster, user: &str) -> Config {
    config_of(cluster, "alice").with_effective_user(Some(user.into()))
}

#[tokio::test]
async fn allowed_user_acts_as_the_other_one() {
    on_kerberos(async |cluster| {
        let_bob_ask(cluster).await;
        let connection = connect(alice_as(cluster, "bob")).await.unwrap();
        let (user, _) = who_am_i(&connection).await.unwrap();
        assert_eq!(user, "bob");
        // The master authenticates it too.
        Admin::new(&connection).cluster_info().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn token_of_an_impersonated_user_is_that_users() {
    on_kerberos(async |cluster| {
        let_bob_ask(cluster).await;
        let config = alice_as(cluster, "bob").with_unencrypted_tokens(true);
        let connection = connect(config).await.unwrap();
        let token = connection.delegation_token().await.unwrap();
        assert_eq!(token.user().split('@').next(), Some("bob"));
        let by_token = connect(by_token(cluster.config(), token)).await.unwrap();
        let known = who_am_i(&by_token).await.unwrap();
        assert_eq!(known, ("bob".to_owned(), "TOKEN".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn permissions_are_those_of_the_impersonated_user() {
    on_guarded(async |cluster| {
        let table = TestTable::create_on(cluster, "impersonated", plain, &[]).await;
        let superuser = cluster.connect().await;
        let scope = PermissionScope::table(&table.name).unwrap();
        let grant = UserPermission::new("bob", scope, [Permission::Read]);
        Admin::new(&superuser).grant(&grant, false).await.unwrap();

        let as_bob = connect(alice_as(cluster, "bob")).await.unwrap();
        eventually("bob may read", async || {
            table.of(&as_bob).get(Get::new("a")).await.ok()
        })
        .await;
        let alice = connect(config_of(cluster, "alice")).await.unwrap();
        let read = table.of(&alice).get(Get::new("a")).await.unwrap_err();
        let write = table.of(&as_bob).put(put("a", "1")).await.unwrap_err();
        for (error, parts) in [(read, ["alice", "READ"]), (write, ["bob", "WRITE"])] {
            assert_eq!(error.kind(), ClientErrorKind::AccessDenied, "{error}");
            says(&error, &parts);
        }
    })
    .await;
}

#[tokio::test]
async fn other_users_are_refused_by_name() {
    on_kerberos(async |cluster| {
        let (_, principal) = keytab_of(&cluster.config());
        let user = principal.split('@').next().unwrap();
        let not_allowed = cluster.config().with_effective_user(Some("carol".into()));
        for (config, user, other) in [
            (alice_as(cluster, "carol"), "alice", "carol"),
            (alice_as(cluster, user), "alice", user),
            (not_allowed, user, "carol"),
        ] {
            let parts = [user, "not allowed to impersonate", other];
            refused(config, ClientErrorKind::AccessDenied, &parts).await;
        }
    })
    .await;
}
