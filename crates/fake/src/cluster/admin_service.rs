//! `AdminService`: what a region server does to its regions.

use hbase_protocol as pb;

use super::{
    call::{Answer, Call},
    names::encoded_name,
    registry::unknown_method,
    world::World,
};
use crate::exception::{Exception, Result};

impl World {
    pub(super) fn admin_service(&mut self, call: &Call) -> Result<Answer> {
        match call.method.as_str() {
            "FlushRegion" => {
                let pb::FlushRegionRequest {
                    region,
                    if_older_than_ts,
                    write_flush_wal_marker: _,
                    family,
                } = call.decode()?;
                if if_older_than_ts.is_some() || family.is_some() {
                    return Err(Exception::not_modelled("flushes of one family, or by their age"));
                }
                let (target, now) = self.region(call.server, &region)?;
                target.flush(now)?;
                Answer::of(&pb::FlushRegionResponse {
                    last_flush_time: now,
                    flushed: Some(true),
                    wrote_flush_wal_marker: None,
                })
            }
            "CompactRegion" => {
                let pb::CompactRegionRequest {
                    region,
                    major,
                    family,
                } = call.decode()?;
                if family.is_some() {
                    return Err(Exception::not_modelled("compactions of one family"));
                }
                let (target, now) = self.region(call.server, &region)?;
                target.compact(major.unwrap_or(false), now)?;
                Answer::of(&pb::CompactRegionResponse {})
            }
            "GetRegionInfo" => {
                let pb::GetRegionInfoRequest {
                    region,
                    compaction_state,
                    best_split_row,
                } = call.decode()?;
                self.region(call.server, &region)?;
                let encoded = encoded_name(&region);
                let best_split_row = match best_split_row {
                    Some(true) => self.split_point(&encoded).ok(),
                    _ => None,
                };
                let none = pb::get_region_info_response::CompactionState::None;
                Answer::of(&pb::GetRegionInfoResponse {
                    region_info: self.hosted(&encoded)?.info.message(),
                    compaction_state: (compaction_state == Some(true)).then_some(none.into()),
                    best_split_row,
                })
            }
            "GetStoreFile" => {
                let pb::GetStoreFileRequest { region, family } = call.decode()?;
                if !family.is_empty() {
                    return Err(Exception::not_modelled("the files of one family"));
                }
                let (target, _) = self.region(call.server, &region)?;
                let files = target.files().into_iter();
                Answer::of(&pb::GetStoreFileResponse {
                    store_file: files.map(|file| format!("{file:032x}")).collect(),
                })
            }
            method => Err(unknown_method(method)),
        }
    }
}
