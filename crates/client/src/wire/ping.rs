//! A request that every server answers at once, whatever its load.
//!
//! HBase has no ping with an answer (`RpcClient.PING_CALL_ID` was one way). Region servers receive
//! a read of a region that does not exist, with the priority of system tables, whose handlers
//! users' calls never occupy. The answer is a `NotServingRegionException`, which servers do not log
//! and for which they check no permissions.

use std::time::Duration;

use bytes::Bytes;

use super::{
    connection_header::Service,
    frame::{FrameError, MAX_FRAME, RequestFrame, RequestOptions, encode_request},
    pb,
};

/// No region has this name, because region names begin with the table's name and end with a hash.
const NO_REGION: &[u8] = b"ping";
/// The procedure executor numbers procedures from 1.
const NO_PROCEDURE: u64 = 0;
/// `HConstants.SYSTEMTABLE_QOS`: without it a call for a system table waits behind users' calls.
pub(crate) const SYSTEM_PRIORITY: u32 = 200;

/// A put of an empty row, as a block of cells.
pub(crate) const CELL: &[u8] = b"\0\0\0\x14\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04";

/// Returns a ping of a service.
pub(crate) fn request(service: Service, call_id: u32, timeout: Duration) -> Result<RequestFrame, FrameError> {
    with_cells(service, call_id, timeout, Bytes::new())
}

/// Returns a ping of a service with cells after the message, which a server decodes and ignores.
pub(crate) fn with_cells(
    service: Service,
    call_id: u32,
    timeout: Duration,
    cells: Bytes,
) -> Result<RequestFrame, FrameError> {
    let no_cells = Bytes::new();
    let plain = RequestOptions {
        timeout,
        ..RequestOptions::default()
    };
    let prior = RequestOptions {
        priority: Some(SYSTEM_PRIORITY),
        ..plain.clone()
    };
    match service {
        Service::Client => {
            let request = pb::GetRequest {
                region: pb::RegionSpecifier {
                    r#type: pb::region_specifier::RegionSpecifierType::RegionName.into(),
                    value: Bytes::from_static(NO_REGION),
                },
                get: pb::Get {
                    row: Bytes::from_static(NO_REGION),
                    ..pb::Get::default()
                },
            };
            encode_request(call_id, "Get", &request, cells, prior, MAX_FRAME)
        }
        Service::Lock => {
            let request = pb::LockHeartbeatRequest {
                proc_id: NO_PROCEDURE,
                keep_alive: None,
            };
            encode_request(call_id, "LockHeartbeat", &request, no_cells, plain, MAX_FRAME)
        }
        // The messages of the other services are empty.
        Service::Admin => encode_request(call_id, "GetServerInfo", &(), no_cells, prior, MAX_FRAME),
        Service::Master => encode_request(call_id, "IsMasterRunning", &(), no_cells, plain, MAX_FRAME),
        Service::ClientMeta => encode_request(call_id, "GetClusterId", &(), no_cells, plain, MAX_FRAME),
    }
}
