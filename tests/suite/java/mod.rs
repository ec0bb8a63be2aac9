//! Java programs and this library on the same tables: HBase's own client, and the Java lock and latch libraries.
//!
//! Each starts a virtual machine, which takes the processor time that the leases of other tests need: on a fake
//! cluster they run after the other tests.

mod configuration_java;
mod filters_java;
mod java_layout;
mod latch_java;
mod lock_java;
mod mixed_fleet;
