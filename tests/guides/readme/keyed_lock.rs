use hbase_keyed_lock::IdLock;

#[tokio::main]
async fn main() {
    let procedures = IdLock::new();
    let guard = procedures.lock(4711).await;
    assert!(procedures.try_lock(4711).is_none());
    drop(guard);
    assert!(procedures.is_empty());
}

#[test]
fn example_runs() {
    main();
}
