use std::time::Duration;

use super::*;
use crate::{
    model::{Durability, Limits, PartitionRule},
    txn::snapshot::tests::snapshot,
};

fn terms() -> Terms {
    Terms {
        rule: PartitionRule::prefix_length(3).unwrap(),
        families: [Bytes::from("f")].into(),
        durability: Durability::SyncWal,
        partition_version: true,
        limits: Limits::default(),
        max_mutations: 100,
        max_bytes: 10_000,
        max_conditions: 100,
        replay_window: None,
        endpoint: true,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn a_cell_that_can_t_be_there_is_refused_also_when_the_version_stands_for_it() {
    let (snapshot, terms) = (snapshot(&[("xxxa", "q", "v")], Some(b"1")), terms());
    let options = UpdateOptions::new().max_conditions(1);
    let mut view = UpdateView::new(&snapshot, &terms, &options, true, soon());
    assert_eq!(view.value("xxxa", "f", "q").unwrap().unwrap(), "v");
    assert_eq!(view.value("xxxb", "f", "q").unwrap(), None);
    let kind = |read: Result<Option<&Bytes>>| read.unwrap_err().kind();
    assert_eq!(kind(view.value("yyya", "f", "q")), ErrorKind::OtherPartition);
    assert_eq!(kind(view.value("xxxa", "g", "q")), ErrorKind::FamilyNotFound);
    assert_eq!(view.group.conditions.len(), 1);
}

#[tokio::test]
async fn a_condition_on_what_was_read_says_something_of_what_was_read() {
    let (snapshot, terms) = (snapshot(&[("xxxa", "q", "v")], None), terms());
    let options = UpdateOptions::new();
    let mut view = UpdateView::new(&snapshot, &terms, &options, false, soon());
    view.value("xxxa", "f", "q").unwrap();
    view.condition(Condition::equal("xxxa", "f", "q", "v")).unwrap();
    view.condition(Condition::present("xxxb", "f", "q")).unwrap();
    let change = view.finish().unwrap().unwrap();
    assert_eq!(
        change.conditions_of_caller,
        HashSet::from(["xxxb f:q present".to_owned()])
    );
}
