use hbase_client::{Effect, PartitionRule};

use super::*;

#[test]
fn giving_up_names_the_first_conditions_and_the_attempts() {
    let failed = |number: usize| FailedCondition {
        label: format!("cell {number}"),
        row: "xxxa".into(),
        found: None,
    };
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    let rejected = |count| {
        Conflict::Rejected(Rejection {
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
