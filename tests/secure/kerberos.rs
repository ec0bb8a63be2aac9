//! Calls of clients that Kerberos authenticates, under every protection that the servers offer.

use hbase_txn::{
    admin::Admin,
    client::{Config, Protection},
};

use super::{work::Work, *};
use support::{table::TestTable, value};

/// Returns the settings of a client for each protection that the servers offer, and for AES if they
/// have it.
pub(super) fn protections(cluster: &Cluster) -> Vec<Config> {
    let config = cluster.config();
    let offered = config.protection().to_vec();
    let plain = offered
        .iter()
        .map(|protection| config.clone().with_protection([*protection]).with_aes(false));
    let mut configs: Vec<_> = plain.collect();
    if config.aes() && offered.contains(&Protection::Privacy) {
        configs.push(config.with_protection([Protection::Privacy]));
    }
    configs
}

#[tokio::test]
async fn server_knows_the_user_of_the_keytab() {
    on_kerberos(async |cluster| {
        for config in protections(cluster) {
            let connection = connect(config.clone()).await.unwrap();
            let (user, method) = who_am_i(&connection).await.unwrap();
            let (_, principal) = keytab_of(&config);
            assert_eq!(principal.rsplit_once('@').unwrap().0, user, "{config:?}");
            assert_eq!(method, "KERBEROS");
        }
    })
    .await;
}

#[tokio::test]
async fn transactions_locks_bulk_and_scans_work_under_every_protection() {
    on_kerberos(async |cluster| {
        let work = Work::on(cluster).await;
        for (number, config) in protections(cluster).into_iter().enumerate() {
            let connection = connect(config).await.unwrap();
            work.run(&connection, &format!("id-{number}")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn large_requests_and_answers_are_whole() {
    on_kerberos(async |cluster| {
        let table = TestTable::create_on(cluster, "large", support::table::plain, &[]).await;
        for config in protections(cluster) {
            work::large(config, &table).await;
        }
    })
    .await;
}

#[tokio::test]
async fn client_prefers_the_first_protection_that_the_server_offers() {
    on_kerberos(async |cluster| {
        use Protection::{Authentication, Integrity, Privacy};
        let all = [Privacy, Integrity, Authentication];
        let connection = connect(cluster.config().with_protection(all).with_aes(false))
            .await
            .unwrap();
        who_am_i(&connection).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn registry_of_the_servers_authenticates_too() {
    on_kerberos(async |cluster| {
        let address = cluster.rpc_config().address().clone();
        let connection = connect(cluster.config().with_address(address.clone()))
            .await
            .unwrap();
        let table = TestTable::create_on(cluster, "by_rpc", support::table::plain, &[]).await;
        let plain = table.of(&connection);
        plain.put(put("a", "1")).await.unwrap();
        assert_eq!(value(&plain, "a").await.as_deref(), Some("1"));

        // Where the principals differ, the server is asked for its own.
        let config = cluster.config().with_address(address);
        let kerberos = config.kerberos().unwrap().clone();
        let differing = kerberos.with_region_server_principal("other/_HOST@OTHER");
        let connection = connect(config.with_kerberos(Some(differing))).await.unwrap();
        Admin::new(&connection).cluster_info().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn connections_of_many_tasks_open_at_the_same_time() {
    on_kerberos(async |cluster| {
        let connects = (0..16).map(async |_| {
            let connection = connect(cluster.config()).await.unwrap();
            who_am_i(&connection).await.unwrap()
        });
        let users = futures::future::join_all(connects).await;
        assert!(users.iter().all(|user| *user == users[0]));
    })
    .await;
}

#[tokio::test]
async fn service_that_only_the_master_has_is_reached() {
    on_kerberos(async |cluster| {
        for config in protections(cluster) {
            let connection = connect(config).await.unwrap();
            Admin::new(&connection).cluster_info().await.unwrap();
        }
    })
    .await;
}
