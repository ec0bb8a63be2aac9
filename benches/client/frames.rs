//! Frames that are encoded once and sent many times, and the check of their answers.

use std::ops::Range;

use bytes::{BufMut as _, Bytes};
use hbase_client::low_level::{MutationMessage, pb};
use hbase_txn::client::{Durability, Put};
use prost::Message;

use super::{
    floor::Placed,
    setup::Failure,
    workload::{
        FAMILY, ONLY_PARTITION, Operation, QUALIFIER, ROWS_OF_PARTITION, Request, VALUE, nth_row, row,
    },
};

/// The number of rows in all frames of a workload: too many for the processor's caches.
const ROWS: usize = 16_000;
/// The commits of one frame, in a workload of one partition.
const FOLDED: usize = 100;
/// The call id of the first slot. From here on, ids have five bytes, so that a frame's length does
/// not depend on its slot.
const FIRST_ID: u32 = 1 << 28;
/// The position of the call id: behind the length, the length of the header, and the tag.
const ID_AT: usize = 6;

/// One call, without its id.
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// The rows or commits of the call.
    pub(crate) done: u64,
}

impl Frame {
    fn new(method: &str, param: &impl Message, cells: &[u8], done: usize) -> Result<Self, Failure> {
        let header = pb::RequestHeader {
            call_id: Some(FIRST_ID),
            method_name: Some(method.to_owned()),
            request_param: Some(true),
            cell_block_meta: (!cells.is_empty()).then_some(pb::CellBlockMeta {
                length: Some(cells.len() as u32),
            }),
            timeout: Some(60_000),
            ..pb::RequestHeader::default()
        };
        let mut body = header.encode_length_delimited_to_vec();
        param.encode_length_delimited(&mut body)?;
        body.extend_from_slice(cells);
        let mut bytes = Vec::with_capacity(4 + body.len());
        bytes.put_u32(u32::try_from(body.len())?);
        bytes.append(&mut body);
        Ok(Self {
            bytes,
            done: done as u64,
        })
    }

    /// Appends the frame with the call id of this slot.
    pub(crate) fn write(&self, slot: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..ID_AT]);
        prost::encoding::encode_varint((FIRST_ID as usize + slot) as u64, out);
        out.extend_from_slice(&self.bytes[ID_AT + 5..]);
    }
}

/// Returns the first bytes of a connection.
pub(crate) fn opening() -> Result<Vec<u8>, Failure> {
    let header = pb::ConnectionHeader {
        user_info: Some(pb::UserInformation {
            effective_user: "bench".to_owned(),
            real_user: None,
        }),
        service_name: Some("ClientService".to_owned()),
        cell_block_codec_class: Some("org.apache.hadoop.hbase.codec.KeyValueCodec".to_owned()),
        version_info: Some(pb::VersionInfo {
            version: "2.6.0".to_owned(),
            version_major: Some(2),
            version_minor: Some(6),
            ..pb::VersionInfo::default()
        }),
        ..pb::ConnectionHeader::default()
    }
    .encode_to_vec();
    let mut bytes = b"HBas\x00\x50".to_vec();
    bytes.put_u32(u32::try_from(header.len())?);
    bytes.extend(header);
    Ok(bytes)
}

/// Encodes the calls of a workload, each with the address of its server.
pub(crate) fn encode<'a>(request: &Request, regions: &'a [Placed]) -> Result<Vec<(&'a str, Frame)>, Failure> {
    let of_row = |row: &[u8]| {
        let found = regions.iter().find(|place| place.region.contains(row));
        found.ok_or("a row is in no region")
    };
    let partition = || match request.partitions {
        1 => ONLY_PARTITION,
        partitions => fastrand::usize(..partitions),
    };
    let mut frames = Vec::new();
    match request.operation {
        Operation::Get | Operation::Put => {
            for _ in 0..ROWS {
                let row = row(partition(), fastrand::usize(..ROWS_OF_PARTITION));
                let place = of_row(&row)?;
                let region = specifier(place);
                let frame = match request.operation {
                    Operation::Get => {
                        let get = pb::Get {
                            row,
                            ..pb::Get::default()
                        };
                        Frame::new("Get", &pb::GetRequest { region, get }, &[], 1)?
                    }
                    _ => {
                        let put = pb::MutateRequest {
                            region,
                            mutation: put(row)?,
                            ..pb::MutateRequest::default()
                        };
                        Frame::new("Mutate", &put, &[], 1)?
                    }
                };
                frames.push((&*place.server, frame));
            }
        }
        Operation::Bulk => {
            let mut rows: Vec<Vec<_>> = regions.iter().map(|_| Vec::new()).collect();
            let mut next = (0..).map(nth_row);
            while frames.len() < 4 * regions.len() {
                let Some(row) = next.next() else { break };
                let index = regions.iter().position(|place| place.region.contains(&row));
                let index = index.ok_or("a row is in no region")?;
                rows[index].push(row);
                if rows[index].len() == request.rows {
                    let place = &regions[index];
                    frames.push((&*place.server, multi(place, std::mem::take(&mut rows[index]))?));
                }
            }
        }
        Operation::Commit => {
            let folded = match request.partitions {
                1 => FOLDED,
                _ => 1,
            };
            let rows = request.rows * folded;
            // As many as are in flight have no row in common.
            for number in 0..(ROWS / rows).max(request.outstanding) {
                let first = number % request.outstanding * rows;
                let partition = partition();
                let place = of_row(&row(partition, 0))?;
                let rows = (first..first + rows).map(|number| row(partition, number));
                frames.push((&*place.server, mutate_rows(place, rows.collect(), folded)?));
            }
        }
        operation => return Err(format!("the floor does not {operation:?}").into()),
    }
    Ok(frames)
}

fn specifier(place: &Placed) -> pb::RegionSpecifier {
    pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName.into(),
        value: place.region.name.clone(),
    }
}

fn put(row: Bytes) -> Result<pb::MutationProto, Failure> {
    let put = Put::new(row).cell(FAMILY, QUALIFIER, &VALUE[..]).into();
    let mut message = Vec::new();
    MutationMessage::new(&put, Durability::UseDefault).encode(&mut message);
    Ok(pb::MutationProto::decode(&*message)?)
}

fn mutate_rows(place: &Placed, rows: Vec<Bytes>, commits: usize) -> Result<Frame, Failure> {
    let first = rows.first().cloned().unwrap_or_default();
    let request = pb::MutateRowsRequest {
        mutation_request: rows.into_iter().map(put).collect::<Result<_, _>>()?,
        ..pb::MutateRowsRequest::default()
    };
    let call = pb::CoprocessorServiceRequest {
        region: specifier(place),
        call: pb::CoprocessorServiceCall {
            row: first,
            service_name: "MultiRowMutationService".to_owned(),
            method_name: "MutateRows".to_owned(),
            request: request.encode_to_vec().into(),
        },
    };
    Frame::new("ExecService", &call, &[], commits)
}

fn multi(place: &Placed, rows: Vec<Bytes>) -> Result<Frame, Failure> {
    let (mut cells, mut actions) = (Vec::new(), Vec::new());
    for (index, row) in (0..).zip(rows) {
        put_cell(&mut cells, &row);
        actions.push(pb::Action {
            index: Some(index),
            mutation: Some(pb::MutationProto {
                row: Some(row),
                mutate_type: Some(pb::mutation_proto::MutationType::Put.into()),
                associated_cell_count: Some(1),
                ..pb::MutationProto::default()
            }),
            ..pb::Action::default()
        });
    }
    let done = actions.len();
    let request = pb::MultiRequest {
        region_action: vec![pb::RegionAction {
            region: specifier(place),
            action: actions,
            ..pb::RegionAction::default()
        }],
        ..pb::MultiRequest::default()
    };
    Frame::new("Multi", &request, &cells, done)
}

/// Appends a put as `KeyValueCodec` writes it.
fn put_cell(out: &mut Vec<u8>, row: &[u8]) {
    const PUT: u8 = 4;
    let key = 2 + row.len() + 1 + FAMILY.len() + QUALIFIER.len() + 8 + 1;
    out.put_u32((8 + key + VALUE.len()) as u32);
    out.put_u32(key as u32);
    out.put_u32(VALUE.len() as u32);
    out.put_u16(row.len() as u16);
    out.put_slice(row);
    out.put_u8(FAMILY.len() as u8);
    out.put_slice(FAMILY.as_bytes());
    out.put_slice(QUALIFIER.as_bytes());
    // The latest timestamp: the server sets its own.
    out.put_u64(i64::MAX as u64);
    out.put_u8(PUT);
    out.put_slice(&VALUE);
}

/// Splits the answers of one connection, and checks that each call succeeded.
pub(crate) struct Reader {
    operation: Operation,
    buffer: Vec<u8>,
    /// The part of the buffer that is not checked yet.
    unread: Range<usize>,
    /// The length of an answer to a `Multi` without exceptions. Others as long as it are not decoded.
    checked: Option<usize>,
}

impl Reader {
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            operation,
            buffer: vec![0; 1 << 20],
            unread: 0..0,
            checked: None,
        }
    }

    /// Returns the space to read into, which is never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        &mut self.buffer[self.unread.end..]
    }

    pub(crate) fn filled(&mut self, count: usize) -> Result<(), Failure> {
        self.unread.end += count;
        match count {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }

    /// Returns the slot of the next answer, if it has arrived as a whole.
    pub(crate) fn next_answer(&mut self) -> Result<Option<usize>, Failure> {
        let unread = &self.buffer[self.unread.clone()];
        let Some((length, rest)) = unread.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        let Some(mut answer) = rest.get(..length) else {
            return Ok(None);
        };
        self.unread.start += 4 + length;
        let header = pb::ResponseHeader::decode_length_delimited(&mut answer)?;
        if let Some(exception) = header.exception {
            return Err(exception.exception_class_name.unwrap_or_default().into());
        }
        match self.operation {
            Operation::Get if header.cell_block_meta.is_none() => return Err("a row is missing".into()),
            Operation::Bulk if self.checked != Some(answer.len()) => {
                let response = pb::MultiResponse::decode_length_delimited(answer)?;
                for region in response.region_action_result {
                    let rows = region.result_or_exception.into_iter();
                    let exception = rows
                        .filter_map(|row| row.exception)
                        .chain(region.exception)
                        .next();
                    if let Some(exception) = exception {
                        return Err(exception.name.into());
                    }
                }
                self.checked = Some(answer.len());
            }
            _ => {}
        }
        let slot = header.call_id.and_then(|id| id.checked_sub(FIRST_ID));
        Ok(Some(slot.ok_or("an answer to no call")? as usize))
    }
}
