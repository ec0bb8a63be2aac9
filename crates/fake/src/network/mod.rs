//! Connections, frames and faults.
