//! Single regions: found by their names, listed by their servers, and emptied.

use bytes::Bytes;
use hbase_txn::{
    admin::{Admin, split_keys_between},
    client::RegionInfo,
};

use super::*;

#[tokio::test]
async fn truncated_region_is_empty_and_others_stay() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "emptied", plain, &["g", "p"]).await;
        let table = shared.of(&connection);
        for row in ["a", "h", "z"] {
            table.put(put(row, "v")).await.unwrap();
        }
        let before = admin.regions(&shared.name).await.unwrap();
        let region = &before[1].region;
        let truncated = admin.truncate_region(region).await;
        if cluster.status.version != Some(HBaseVersion::V2_6) {
            let error = truncated.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
            assert!(!error.is_outcome_unknown(), "{error}");
            says(&error, &["truncating a region", &shared.name.to_string()]);
            assert_eq!(keys(&table, Scan::new()).await, ["a", "h", "z"]);
            return;
        }
        truncated.unwrap();
        assert_eq!(keys(&table, Scan::new()).await, ["a", "z"]);
        table.put(put("h", "again")).await.unwrap();
        assert_eq!(value(&table, "h").await.as_deref(), Some("again"));
        let after = admin.regions(&shared.name).await.unwrap();
        let names = |regions: &[hbase_txn::client::TableRegion]| -> Vec<Bytes> {
            regions.iter().map(|found| found.region.name.clone()).collect()
        };
        assert_eq!(names(&after), names(&before));

        let mut unknown = region.clone();
        unknown.region_id += 1;
        let error = admin.truncate_region(&unknown).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::RegionNotFound, "{error}");
        says(&error, &[&shared.name.to_string()]);
        admin.disable_table(&shared.name).await.unwrap();
        let error = admin.truncate_region(region).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::TableDisabled, "{error}");
    })
    .await;
}

#[tokio::test]
async fn region_of_the_catalog_is_not_truncated() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let error = admin.truncate_region(&RegionInfo::meta()).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        says(&error, &["hbase:meta"]);
    })
    .await;
}

#[tokio::test]
async fn region_is_found_by_its_full_and_its_encoded_name() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let shared = TestTable::create_on(cluster, "named", plain, &["g,h", "p\\x00.1234"]).await;
        for found in admin.regions(&shared.name).await.unwrap() {
            let encoded = found.region.encoded_text();
            assert_eq!(admin.region(&found.region.name).await.unwrap(), found);
            assert_eq!(admin.region(encoded).await.unwrap(), found);
        }
        let meta = admin.region("1588230740").await.unwrap();
        assert_eq!(meta.region.name, RegionInfo::meta().name);
        assert!(meta.server.is_some());
        assert_eq!(admin.region("hbase:meta,,1").await.unwrap(), meta);
        let missing = [
            "",
            "none",
            "0123456789abcdef0123456789abcdef",
            "t,,1.0123456789abcdef0123456789abcdef.",
        ];
        for name in missing {
            let error = admin.region(name).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::RegionNotFound, "{error}");
            says(&error, &[name, "looking up region"]);
        }
    })
    .await;
}

#[tokio::test]
async fn servers_list_the_regions_that_they_have_open() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "online", plain, &["g", "p"]).await;
        let regions = admin.regions(&shared.name).await.unwrap();
        let listed = async || {
            let mut listed = Vec::new();
            for server in admin.cluster_info().await.unwrap().live_servers {
                for found in admin.online_regions(&server).await.unwrap() {
                    if found.region.table == shared.name {
                        assert_eq!(found.replica, 0);
                        listed.push((found.region, Some(server.clone())));
                    }
                }
            }
            listed.sort_by(|one, other| one.0.start_key.cmp(&other.0.start_key));
            listed
        };
        let expected: Vec<_> = regions
            .iter()
            .map(|found| (found.region.clone(), found.server.clone()))
            .collect();
        assert_eq!(listed().await, expected);
        admin.unassign_region(&regions[1].region).await.unwrap();
        assert_eq!(listed().await, [expected[0].clone(), expected[2].clone()]);
    })
    .await;
}

#[tokio::test]
async fn regions_are_evenly_spread_between_two_keys() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let spread = unique_name("spread");
        let keys = split_keys_between("aaaaa", "zzzzz", 6).unwrap();
        admin.create_table(&plain(spread.clone()), &keys).await.unwrap();
        let regions = admin.regions(&spread).await.unwrap();
        let starts: Vec<_> = regions.iter().map(|found| &found.region.start_key[..]).collect();
        assert_eq!(starts.len(), 6);
        assert_eq!(
            (starts[0], starts[1], starts[5]),
            (&b""[..], &b"aaaaa"[..], &b"zzzzz"[..])
        );
        // Between a and z, steps of six letters and a quarter.
        assert_eq!((starts[2][0], starts[3][0], starts[4][0]), (b'g', b'm', b't'));
        admin.delete_table(&spread).await.unwrap();
    })
    .await;
}
