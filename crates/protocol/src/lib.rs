//! HBase's messages, generated from `schemas/proto` by `tests/codegen.rs`.
//!
//! A decoder does not report missing required fields: it reads such a field as empty, zero, or the
//! first value of its enum. A reader of an answer must not take such a value for one that the
//! server sent.
//!
//! Applications do not need it, and it changes with minor releases. The crates `hbase-client` and
//! `hbase-fake` are built on it.

#![allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::match_same_arms,
    reason = "generated"
)]

use std::fmt;

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("identifier", &self.identifier)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

include!("generated/hbase.pb.rs");
