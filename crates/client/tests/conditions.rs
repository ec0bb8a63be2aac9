//! Conditional changes on a fake cluster whose answers are lost.

use hbase_client::{Condition, Put};
use hbase_fake::{Call, FakeHBase};

#[test]
fn changes_behind_an_unanswered_probe_of_the_server_have_a_known_outcome() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let table = hbase.connect().await?.table("t")?;
        hbase.fault(Call::Multi.on("t").lose_answer());
        let change = |row: &'static str| {
            let put = Put::new(row).cell("f", "q", "v");
            (Condition::absent(row, "f", "q"), vec![put.into()])
        };
        let (condition, mutations) = change("a");
        let error = table.check_and_mutate(condition, mutations).await.unwrap_err();
        assert!(!error.is_outcome_unknown(), "{error}");
        for result in table.check_and_mutate_many([change("b"), change("c")]).await {
            let error = result.unwrap_err();
            assert!(!error.is_outcome_unknown(), "{error}");
        }
        Ok(())
    });
}
