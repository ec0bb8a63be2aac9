//! What crates that extend this client need of its inside: calls of one region, and the messages
//! that they carry.
//!
//! An application does not need it, and it changes with minor releases. The crate `hbase-txn` is
//! built on it.
//!
//! | item | what for |
//! |---|---|
//! | [`TableCalls`] | calls of the region that has a row, where a guard lets them pass |
//! | [`RegionGuard`], [`Verdict`] | decides on each attempt whether the call may go to that region |
//! | [`MultiCall`], [`RegionAction`], [`ActionAnswer`] | several actions on rows of one region in one call |
//! | [`CallKind`] | what may be done when an answer is lost |
//! | [`MutationParts`], [`ScanParts`], [`Check`] | what mutations, scans and conditions are made of |
//! | [`condition`], [`convert`], [`pb`] | HBase's messages |
//! | [`Pauses`], [`Ruling`] | pauses between attempts, and what a Java exception means |

mod calls;
mod parts;

pub use self::{
    calls::{AdminCalls, TableCalls, table_openings},
    parts::{MutationParts, MutationStamp, ScanParts},
};
pub use crate::{
    client::{
        ActionAnswer, AnyRegion, AtOnce, CallKind, GetAnswer, MultiCall, Pauses, RegionAction, RegionGuard,
        ServingRegion, Verdict,
    },
    config::{bounded, login_name, site_properties},
    model::{
        BitOperation, Check, Column, ComparatorKind, Counter, DeleteScope, FilterKind, LATEST_TIMESTAMP,
        Limits, VISIBILITY_ATTRIBUTE, timestamp_after,
    },
    rpc::Ruling,
    wire::{condition, convert, pb},
};
