//! `ClientService`: reads and writes of rows.

mod scan;

use bytes::{Bytes, BytesMut};
use hbase_protocol as pb;

use super::{
    call::{Answer, Call, decode},
    registry::unknown_method,
    server::ServerIndex,
    world::World,
};
use crate::{
    cell::{Cell, Cells, encode_block, to_message},
    exception::{Exception, Result},
    region::{Read, Region},
};

const ENDPOINT_SERVICE: &str = "MultiRowMutationService";

impl World {
    pub(super) fn client_service(&mut self, call: &Call) -> Result<Answer> {
        match call.method.as_str() {
            "Get" => self.get(call),
            "Mutate" => self.mutate(call),
            "Multi" => self.multi(call),
            "Scan" => self.scan(call),
            "ExecService" => self.exec_service(call),
            "ExecRegionServerService" | "BulkLoadHFile" | "PrepareBulkLoad" | "CleanupBulkLoad" => {
                Err(Exception::not_modelled(&call.method))
            }
            method => Err(unknown_method(method)),
        }
    }

    /// Returns a region that a server serves, and the time of the server.
    pub(super) fn region(
        &mut self,
        server: ServerIndex,
        specifier: &pb::RegionSpecifier,
    ) -> Result<(&mut Region, u64)> {
        let now = self.clock(server);
        let hosted = self.open_region(server, specifier)?;
        let region = hosted.region.as_mut();
        Ok((region.ok_or_else(|| Exception::io("the region is gone"))?, now))
    }

    fn get(&mut self, call: &Call) -> Result<Answer> {
        let pb::GetRequest { region, get } = call.decode()?;
        let (region, now) = self.region(call.server, &region)?;
        let read = region.get(&get, now)?;
        let mut block = Vec::new();
        let result = result(read, call.has_codec.then_some(&mut block));
        let response = pb::GetResponse { result: Some(result) };
        Answer::with_cells(&response, encoded(&block, call))
    }

    fn mutate(&mut self, call: &Call) -> Result<Answer> {
        let request: pb::MutateRequest = call.decode()?;
        let (region, now) = self.region(call.server, &request.region)?;
        let mut cells = Cells::new(call.cells.clone(), call.tags);
        let mutated = region.mutate(&request, &mut cells, now)?;
        let mut block = Vec::new();
        let result = mutated.result.map(|cells| {
            let read = Read { cells, exists: None };
            result(read, call.has_codec.then_some(&mut block))
        });
        let response = pb::MutateResponse {
            result,
            processed: mutated.processed,
            metrics: None,
        };
        Answer::with_cells(&response, encoded(&block, call))
    }

    fn multi(&mut self, call: &Call) -> Result<Answer> {
        let pb::MultiRequest {
            region_action,
            nonce_group,
        } = call.decode()?;
        let mut cells = Cells::new(call.cells.clone(), call.tags);
        let mut block = Vec::new();
        let mut results = Vec::new();
        for action in &region_action {
            // Results of an atomic or conditional action are inside the message.
            let inline = action.atomic == Some(true) || action.condition.is_some() || !call.has_codec;
            let answer = self
                .region(call.server, &action.region)
                .and_then(|(region, now)| region.multi(action, nonce_group.unwrap_or(0), &mut cells, now));
            results.push(match answer {
                Err(exception) => pb::RegionActionResult {
                    exception: Some(pair(&exception)),
                    ..Default::default()
                },
                Ok(answer) => pb::RegionActionResult {
                    processed: answer.processed,
                    exception: None,
                    result_or_exception: answer
                        .actions
                        .into_iter()
                        .map(|(index, done)| {
                            let (result, exception) = match done {
                                Ok(read) => {
                                    let block = (!inline).then_some(&mut block);
                                    (read.map(|read| result(read, block)), None)
                                }
                                Err(exception) => (None, Some(pair(&exception))),
                            };
                            pb::ResultOrException {
                                index: Some(index),
                                result,
                                exception,
                                ..Default::default()
                            }
                        })
                        .collect(),
                },
            });
        }
        let response = pb::MultiResponse {
            region_statistics: self.memstore_load.map(|load| pb::MultiRegionLoadStats {
                stat: vec![
                    pb::RegionLoadStats {
                        mem_store_load: Some(load),
                        ..Default::default()
                    };
                    results.len()
                ],
                region: region_action.into_iter().map(|action| action.region).collect(),
            }),
            region_action_result: results,
        };
        Answer::with_cells(&response, encoded(&block, call))
    }

    fn exec_service(&mut self, call: &Call) -> Result<Answer> {
        let pb::CoprocessorServiceRequest { region, call: exec } = call.decode()?;
        let hosted = self.open_region(call.server, &region)?;
        let has_endpoint = hosted.has_endpoint && exec.service_name == ENDPOINT_SERVICE;
        if !has_endpoint {
            return Err(Exception::new(
                "exceptions.UnknownProtocolException",
                format!(
                    "No registered coprocessor service found for {} in region {}",
                    exec.service_name,
                    hosted.info.name_text()
                ),
            ));
        }
        if exec.method_name != "MutateRows" {
            return Err(unknown_method(&exec.method_name));
        }
        let request: pb::MutateRowsRequest = decode(&exec.request, &exec.method_name)?;
        let (target, now) = self.region(call.server, &region)?;
        let processed = target.mutate_rows(&request, now)?;
        let response = pb::MutateRowsResponse { processed };
        let value = pb::NameBytesPair {
            name:
                "org.apache.hadoop.hbase.shaded.protobuf.generated.MultiRowMutationProtos$MutateRowsResponse"
                    .to_owned(),
            value: Some(prost::Message::encode_to_vec(&response).into()),
        };
        Answer::of(&pb::CoprocessorServiceResponse { region, value })
    }
}

/// Returns a result whose cells are in a block if there is one, and inside otherwise.
fn result(read: Read, block: Option<&mut Vec<Cell>>) -> pb::Result {
    let Read { cells, exists } = read;
    match block {
        Some(block) if exists.is_none() => {
            let count = i32::try_from(cells.len()).unwrap_or(i32::MAX);
            block.extend(cells);
            pb::Result {
                associated_cell_count: Some(count),
                ..Default::default()
            }
        }
        _ => pb::Result {
            exists,
            ..to_message(cells)
        },
    }
}

fn encoded(cells: &[Cell], call: &Call) -> Bytes {
    let mut block = BytesMut::new();
    encode_block(cells, call.tags, &mut block);
    block.freeze()
}

fn pair(exception: &Exception) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: exception.class_name(),
        value: Some(exception.trace().into()),
    }
}
