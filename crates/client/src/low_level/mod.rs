//! The parts of this client that crates need to extend it: calls of regions and servers, and their
//! messages.
//!
//! Applications do not need it, and it changes with minor releases. The crates `hbase-admin`
//! and `hbase-txn` are built on it.
//!
//! | item | purpose |
//! |---|---|
//! | [`RegionCall`], [`RegionLocation`] | the attempts of a call of the region of a row, whose caller checks each location |
//! | [`Proofs`] | what servers were proven to do |
//! | [`TableCalls`] | settings of tables, and calls with a deadline |
//! | [`call_server`] | calls of the active master, and of a server by its name |
//! | [`table_regions`], [`region_of_meta_row`] | the contents of `hbase:meta` |
//! | [`RowCheck`] | refuses writes of some rows |
//! | [`MultiCall`], [`RegionAction`], [`ActionAnswer`] | several actions on rows of one region in one call |
//! | [`CallKind`] | whether a call may be repeated when its answer is lost |
//! | [`MutationParts`], [`ScanParts`], [`Check`] | the parts of mutations, scans and conditions |
//! | [`key_after_prefix`], [`timestamp_after`], [`Limits`] | limits of keys, timestamps and cells |
//! | [`condition`], [`convert`], [`MutationMessage`], [`pb`] | HBase's messages |
//! | [`CallsInFlight`], [`Pace`] | calls that others wait for, without those that are overdue, and the time that they take |
//! | [`Pauses`], [`Classification`] | pauses between attempts, and the meaning of a Java exception |
//! | [`Metric`], [`Timer`], [`GaugeUnit`] | metrics, if the feature `metrics` is on |
//! | [`KEEP_THE_RUNTIME`] | the hint if the runtime of a connection has ended, or is not driven |
//! | [`OperationSpan`], [`CallerSpan`] | spans, if the feature `spans` is on |

mod calls;
mod parts;
mod servers;

pub use self::{
    calls::{TableCalls, table_openings},
    parts::{MutationParts, MutationStamp, ScanParts},
    servers::{at_master, call_server, change_log, forget_table, nonce, region_of_meta_row, table_regions},
};
pub use crate::{
    client::{
        ActionAnswer, CallInFlight, CallKind, CallsInFlight, CheckAnswer, FailedAttempt, GetAnswer,
        MultiCall, Pace, Pauses, RegionAction, RegionAttempt, RegionCall, RowCheck, ServerTarget,
    },
    cluster::{ProofTurn, Proofs, RegionLocation},
    config::{bounded, login_name, site_properties},
    model::{
        BitOperation, Check, Column, ComparatorKind, Counter, DeleteScope, FilterKind, LATEST_TIMESTAMP,
        Limits, key_after_prefix, timestamp_after,
    },
    observe::{CallerSpan, GaugeUnit, Metric, OperationSpan, Timer},
    rpc::{Classification, KEEP_THE_RUNTIME},
    wire::{condition, convert, mutation::MutationMessage, pb},
};
