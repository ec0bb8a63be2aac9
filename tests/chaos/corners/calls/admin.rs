//! Calls that the master answers.

use hbase_txn::{
    PartitionedTable,
    admin::Admin,
    client::{FamilyDescriptor, TableDescriptor, TableName, TableState},
};

use super::super::{
    report::{Call, Prepared, Reported},
    seat::Seat,
};
use crate::cluster::{FAMILY, PATIENCE};

/// Returns the descriptor of a table that the case creates.
fn descriptor(seat: &Seat) -> TableDescriptor {
    let name = format!("{}_{}", seat.clean.data.name(), seat.prefix);
    TableDescriptor::new(name)
        .unwrap()
        .with_family(FamilyDescriptor::new(FAMILY))
}

async fn is_there(seat: Seat, name: TableName) -> u64 {
    let admin = Admin::new(&seat.clean.connection).with_operation_timeout(PATIENCE);
    u64::from(admin.exists(&name).await.unwrap())
}

pub(super) fn all() -> Vec<Call> {
    let of_master = [
        Call::new("admin: exists", |seat| async move {
            let admin = Admin::new(&seat.connection);
            Prepared::read(async move { Reported::expect(admin.exists(seat.clean.data.name()).await, &true) })
        }),
        Call::new("admin: state", |seat| async move {
            let admin = Admin::new(&seat.connection);
            Prepared::read(async move {
                Reported::expect(admin.state(seat.clean.data.name()).await, &TableState::Enabled)
            })
        }),
        Call::new("admin: descriptor", |seat| async move {
            let admin = Admin::new(&seat.connection);
            Prepared::read(async move {
                let name = seat.clean.data.name();
                let found = admin.descriptor(name).await;
                Reported::expect(found.map(|descriptor| descriptor.name), name)
            })
        }),
        Call::new("admin: create_table", |seat| async move {
            let (admin, descriptor) = (Admin::new(&seat.connection), descriptor(&seat));
            let name = descriptor.name.clone();
            Prepared::write(
                async move { Reported::of(admin.create_table(&descriptor, &[]).await) },
                move || is_there(seat.clone(), name.clone()),
            )
        }),
        Call::new("admin: disable_table", |seat| async move {
            let (admin, descriptor) = (Admin::new(&seat.connection), descriptor(&seat));
            let clean = Admin::new(&seat.clean.connection).with_operation_timeout(PATIENCE);
            clean.create_table(&descriptor, &[]).await.unwrap();
            let name = descriptor.name.clone();
            let disable = async move { Reported::of(admin.disable_table(&name).await) };
            Prepared::write(disable, move || {
                let (clean, name) = (clean.clone(), descriptor.name.clone());
                async move { u64::from(clean.state(&name).await.unwrap() == TableState::Disabled) }
            })
        }),
        Call::new("open for transactions", |seat| async move {
            let name = seat.clean.data.name().clone();
            Prepared::read(async move { Reported::of(PartitionedTable::open(&seat.connection, name).await) })
        }),
    ];
    let mut calls: Vec<Call> = of_master.into_iter().map(Call::of_master).collect();
    // Region servers perform flushes, not the master.
    calls.push(Call::new("admin: flush_table", |seat| async move {
        let admin = Admin::new(&seat.connection);
        Prepared::read(async move { Reported::of(admin.flush_table(seat.clean.data.name()).await).or_not() })
    }));
    calls
}
