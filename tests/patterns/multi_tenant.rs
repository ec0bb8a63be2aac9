#[path = "../../examples/multi_tenant.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::sync::Arc;

use hbase_txn::{ErrorKind, client::Put};

use self::example::{Stored, checked, grant, remove, run, store};
use crate::{Pattern, side_by_side, watched};

#[tokio::test(flavor = "multi_thread")]
async fn tenants_quota_matches_its_documents_and_stays_above_zero() {
    let pattern = Pattern::new("multi_tenant", run).await;
    let clients = Arc::new(pattern.clients().await);
    let tenants = ["one", "two"];
    grant(&clients[0], &tenants, 2_000).await.unwrap();
    let work = side_by_side(12, |task| {
        let clients = Arc::clone(&clients);
        async move {
            let (client, tenant) = (&clients[task % 4], tenants[task % 2]);
            let mut counts = [0; 4];
            for _ in 0..30 {
                // Few names, so that documents are removed and stored again all the time.
                let name = format!("{}", fastrand::u8(..6));
                if fastrand::u8(..5) < 2 {
                    counts[3] += usize::from(remove(client, tenant, &name).await.unwrap());
                    continue;
                }
                let body = vec![b'x'; fastrand::usize(1..1_000)].into();
                let stored = store(client, tenant, &name, body).await.unwrap();
                counts[stored as usize] += 1;
            }
            counts
        }
    });
    let counts = watched(work, async || {
        for tenant in tenants {
            checked(&clients[3], tenant).await.unwrap();
        }
    })
    .await;
    let sum = |at: usize| counts.iter().map(|counts| counts[at]).sum::<usize>();
    let (stored, removed) = (sum(Stored::Done as usize), sum(3));
    assert!(
        sum(Stored::Exists as usize) > 0 && sum(Stored::NoRoom as usize) > 0,
        "{counts:?}"
    );
    let mut documents = 0;
    for tenant in tenants {
        documents += checked(&clients[0], tenant).await.unwrap().1;
    }
    assert_eq!(documents + removed, stored);
    let error = clients[0]
        .transaction("one")
        .try_add(Put::new("two/document/0").cell("f", "body", "x"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition);
}
