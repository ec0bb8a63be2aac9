use hbase_fake::sim::{Simulation, World};
use hbase_txn::client::{Get, Put};

async fn acknowledged_put_is_read(world: World) {
    world.hbase().create_table("orders", &["f"], &["m"]);
    let client = world.connect(world.hbase().config(), 0).await.unwrap();
    let orders = client.table("orders").unwrap();
    world.begin_faults();
    let put = orders.put(Put::new("a").cell("f", "q", "1")).await;
    world.end_faults().await;
    if put.is_ok() {
        assert!(orders.get(Get::new("a")).await.unwrap().is_some());
    }
}

#[test]
fn puts() {
    Simulation::from_env("puts").run(acknowledged_put_is_read);
}
