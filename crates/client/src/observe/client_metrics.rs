//! The metrics of this crate. `docs/observing.md` explains each of them.

use super::Metric;

pub(crate) static OPERATIONS: Metric = Metric::counter(
    "hbase_client_operations_total",
    &["operation", "outcome"],
    "Operations that have ended: ok, failed, unknown or cancelled.",
);
pub(crate) static OPERATION_DURATION: Metric = Metric::histogram(
    "hbase_client_operation_duration_seconds",
    &["operation"],
    "Time from the beginning of an operation to its end, with waits and retries.",
);
pub(crate) static CALLS: Metric = Metric::counter(
    "hbase_client_calls_total",
    &["method", "outcome"],
    "Calls of servers that have ended: ok, or the reason of their failure.",
);
pub(crate) static CALL_DURATION: Metric = Metric::histogram(
    "hbase_client_call_duration_seconds",
    &["method"],
    "Time from a call's request to its answer or failure.",
);
pub(crate) static CALLS_IN_FLIGHT: Metric = Metric::gauge(
    "hbase_client_calls_in_flight",
    "Calls that wait for a connection, or for their answer.",
);
pub(crate) static RETRIES: Metric = Metric::counter(
    "hbase_client_retries_total",
    &["reason"],
    "Attempts that failed and are repeated, by the reason of the failure.",
);
pub(crate) static CACHE_HITS: Metric = Metric::counter(
    "hbase_client_region_cache_hits_total",
    &[],
    "Locations of rows that were in the region cache.",
);
pub(crate) static CACHE_MISSES: Metric = Metric::counter(
    "hbase_client_region_cache_misses_total",
    &[],
    "Locations of rows that were not in the region cache, and were looked up in hbase:meta.",
);
pub(crate) static CACHE_EVICTIONS: Metric = Metric::counter(
    "hbase_client_region_cache_evictions_total",
    &["reason"],
    "Locations that were removed from the region cache after a failure of the region or its server.",
);
pub(crate) static CONNECTIONS: Metric =
    Metric::gauge("hbase_client_connections", "Open connections to servers.");
pub(crate) static DIALS: Metric = Metric::counter(
    "hbase_client_dials_total",
    &["outcome"],
    "Attempts to open a connection: ok or failed.",
);
pub(crate) static OPERATIONS_WAITING: Metric = Metric::gauge(
    "hbase_client_operations_waiting",
    "Single operations that wait for a call that they share with others.",
);
pub(crate) static COALESCED: Metric = Metric::histogram(
    "hbase_client_coalesced_operations",
    &["kind"],
    "Single gets, or puts and deletes, in one call.",
);

pub(crate) static PUSHBACK_DURATION: Metric = Metric::histogram(
    "hbase_client_pushback_duration_seconds",
    &[],
    "Pauses of a region's bulk writes because of the load that its server reported.",
);

/// Describes all metrics of this crate to the recorder.
pub(crate) fn describe() {
    Metric::describe_all(&[
        &OPERATIONS,
        &OPERATION_DURATION,
        &CALLS,
        &CALL_DURATION,
        &CALLS_IN_FLIGHT,
        &RETRIES,
        &CACHE_HITS,
        &CACHE_MISSES,
        &CACHE_EVICTIONS,
        &CONNECTIONS,
        &DIALS,
        &OPERATIONS_WAITING,
        &COALESCED,
        &PUSHBACK_DURATION,
    ]);
}
