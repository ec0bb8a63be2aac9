//! Slow and large calls, on clusters that keep those of more than 200 ms or 1 MiB.

use std::time::{Duration, SystemTime};

use hbase_txn::{
    admin::Admin,
    client::{Comparison, ReadFilter, Regex},
};

use crate::*;
use support::eventually;

#[tokio::test]
async fn slow_and_large_calls_are_listed_and_cleared() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "slow", plain, &[]).await;
        let table = shared.of(&connection);
        table.put(put("large", vec![b'a'; 2 << 20])).await.unwrap();
        let server = admin.regions(&shared.name).await.unwrap()[0]
            .server
            .clone()
            .unwrap();
        let own = |calls: Vec<hbase_txn::admin::SlowCall>| {
            let prefix = format!("{},", shared.name);
            let is_own = move |region: &String| region.starts_with(&prefix);
            calls
                .into_iter()
                .find(|call| call.method == "Get" && call.region.as_ref().is_some_and(&is_own))
        };
        // Java tries this pattern in twice as many ways for each further letter.
        let mut letters = 18;
        let slow = eventually("a slow call is kept", async || {
            letters = 24.min(letters + 1);
            let row = "a".repeat(letters);
            table.put(put(row.clone(), "v")).await.unwrap();
            let pattern = ReadFilter::row(Comparison::Equal, Regex::new("^(a+)+\\1?b$"));
            assert_eq!(table.get(Get::new(row).filter(pattern)).await.unwrap(), None);
            own(admin.slow_calls(&server).await.unwrap())
        })
        .await;
        assert!(slow.processing >= Duration::from_millis(200), "{slow:?}");
        assert!(slow.response_size < 1 << 20 && !slow.user.is_empty(), "{slow:?}");
        let age = SystemTime::now().duration_since(slow.started).unwrap_or_default();
        assert!(age < Duration::from_mins(5), "{slow:?}");
        table.get(Get::new("large")).await.unwrap().unwrap();
        let large = eventually("the large call is kept", async || {
            own(admin.large_calls(&server).await.unwrap())
        })
        .await;
        assert!(large.response_size >= 2 << 20, "{large:?}");
        assert!(large.client.starts_with("127.0.0.1:"), "{large:?}");

        assert!(admin.clear_slow_calls(&server).await.unwrap());
        eventually("the calls are forgotten", async || {
            let slow = own(admin.slow_calls(&server).await.unwrap());
            let large = own(admin.large_calls(&server).await.unwrap());
            (slow.is_none() && large.is_none()).then_some(())
        })
        .await;
    })
    .await;
}
