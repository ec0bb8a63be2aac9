use hbase_client::{Condition, Effect, Put};
use hbase_fake::FakeHBase;

use crate::{
    partition::PartitionRule,
    txn::{PartitionedTable, update::*},
};

#[test]
fn giving_up_names_the_first_conditions_and_the_attempts() {
    let failed = |number: usize| FailedCondition {
        label: format!("cell {number}"),
        row: "xxxa".into(),
        found: None,
        position: number,
        is_of_part: false,
    };
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    let rejected = |count| {
        Conflict::Rejected(Rejection {
            table: "orders".parse().unwrap(),
            partition: partition.clone(),
            failed: (0..count).map(failed).collect(),
        })
    };
    let error = gave_up(32, rejected(1_000));
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Conflict, Effect::None)
    );
    assert!(error.is_retryable() && error.attempts() == Some(32));
    let text = error.to_string();
    assert!(text.ends_with("cell 0; cell 1; cell 2 and 997 more"), "{text}");
    assert!(gave_up(1, rejected(2)).to_string().ends_with("cell 0; cell 1"));
    let lost = gave_up(2, Conflict::Lost("the connection ended".into())).to_string();
    assert!(lost.ends_with("at last: the connection ended"), "{lost}");
}

#[test]
fn label_of_a_condition_does_not_make_it_a_read() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
        let mut runs = 0;
        let updated = orders.update("xxx", |view| {
            runs += 1;
            let read = Condition::absent("xxxa", "f", "q");
            assert_eq!(view.value("xxxa", "f", "q")?, None);
            let condition = Condition::present("xxxb", "f", "q").label(read.label_text().into_owned());
            view.condition(condition)?;
            view.put(Put::new("xxxa").cell("f", "q", "v"))?;
            Ok::<_, Error>(())
        });
        assert_eq!(updated.await.unwrap_err().kind(), ErrorKind::ConditionNotMet);
        assert_eq!(runs, 1);
        Ok(())
    });
}
