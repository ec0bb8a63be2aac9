//! The commands, one file each.

mod audit;
pub(crate) mod coordination;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod latch;
pub(crate) mod lock;
mod missing_table;
pub(crate) mod provision;
pub(crate) mod rows;
pub(crate) mod switch;
pub(crate) mod table;
pub(crate) mod txn;

use crate::{
    args::{Arguments, Command},
    exit::{Exit, Failure},
};

/// What a command ends with.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Runs the command that was asked for.
pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let Arguments { global, command } = arguments;
    match command {
        Command::Dev(dev) => dev.run(&global).await,
        Command::Doctor(doctor) => doctor.run(&global).await,
        Command::Switch(switch) => switch.run(&global).await,
        Command::Table(table) => table.run(&global).await,
        Command::Provision(provision) => provision.run(&global).await,
        Command::Txn(txn) => txn.run(&global).await,
        Command::Lock(lock) => lock.run(&global).await,
        Command::Latch(latch) => latch.run(&global).await,
        Command::Barrier(barrier) => barrier.run(&global).await,
        Command::Semaphore(semaphore) => semaphore.run(&global).await,
        Command::Elect(elect) => elect.run(&global).await,
        Command::Rwlock(lock) => lock.run(&global).await,
        Command::Get(get) => get.run(&global).await,
        Command::Scan(scan) => scan.run(&global).await,
        Command::Put(put) => put.run(&global).await,
        Command::Delete(delete) => delete.run(&global).await,
    }
}
