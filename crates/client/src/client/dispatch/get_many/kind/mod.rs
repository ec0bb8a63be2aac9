//! Gets, as operations of a [`Dispatch`](crate::client::dispatch::Dispatch).

use std::mem;

use bytes::Bytes;

use crate::{
    client::{
        CallKind,
        dispatch::{
            ActionResult, Item, Kind,
            flow::{FlowLimits, LANES},
            results::{OperationResults, bad},
        },
    },
    error::Effect,
    model::{RegionInfo, Row},
    rpc::CallError,
    wire::{cell_block::CellBlockDecoder, convert, frame::RemoteFault, multi::EncodedRegionAction, pb},
};

/// The maximum number of gets in an action, and of bytes unless one get is larger: a large region has
/// several actions, with which its calls can be filled.
const MOST_TOGETHER: usize = 1_250;
const MOST_BYTES_TOGETHER: usize = 256 << 10;

/// Gets, encoded.
#[derive(Clone, Copy)]
pub(super) struct Gets {
    limits: FlowLimits,
}

impl Gets {
    /// In as few calls as possible.
    pub(super) const IN_FEW_CALLS: Self = Self {
        limits: FlowLimits {
            lanes: LANES,
            // Servers log a warning above this number (`hbase.rpc.rows.warning.threshold`).
            operations: 5_000,
            bytes: 1 << 20,
        },
    };
    /// With early answers: the first rows do not wait for the last ones.
    pub(super) const SOON: Self = Self {
        limits: FlowLimits {
            lanes: 4,
            operations: 1_250,
            ..Self::IN_FEW_CALLS.limits
        },
    };
}

impl Kind for Gets {
    type Payload = Bytes;
    type Output = Option<Row>;

    const CALL_KIND: CallKind = CallKind::Read;

    fn limits(self) -> FlowLimits {
        self.limits
    }

    fn actions(self, gets: Vec<Item<Bytes>>) -> Vec<Vec<Item<Bytes>>> {
        let (mut actions, mut action, mut bytes) = (Vec::new(), Vec::new(), 0);
        for get in gets {
            bytes += get.weight;
            let is_full = action.len() == MOST_TOGETHER || bytes > MOST_BYTES_TOGETHER;
            if is_full && !action.is_empty() {
                actions.push(mem::take(&mut action));
                bytes = get.weight;
            }
            action.push(get);
        }
        actions.push(action);
        actions
    }

    fn message(self, region: &RegionInfo, gets: &[Item<Bytes>]) -> Bytes {
        let messages = gets.iter().map(|get| get.payload.len()).sum();
        let mut action = EncodedRegionAction::new(region).with_room(gets.len(), messages);
        for get in gets {
            action.get(&get.payload);
        }
        action.finish()
    }

    fn read(
        self,
        gets: &[Item<Bytes>],
        _is_repeated: bool,
        result: pb::RegionActionResult,
        block: &mut CellBlockDecoder,
    ) -> Result<ActionResult<Option<Row>>, CallError> {
        if let Some(exception) = &result.exception {
            return Ok(Err(failure(exception)));
        }
        let mut rows = OperationResults::new(gets.len());
        // Cells are in the order of the message.
        for part in result.result_or_exception {
            let (place, row) = rows.place(part.index)?;
            *row = Some(match (&part.exception, part.result) {
                (Some(exception), _) => Err(failure(exception)),
                (None, Some(result)) => Ok(read_row(&gets[place].row, result, block)?),
                (None, None) => return Err(bad("no result to a get")),
            });
        }
        Ok(Ok(rows.all()?))
    }
}

fn read_row(
    wanted: &Bytes,
    result: pb::Result,
    block: &mut CellBlockDecoder,
) -> Result<Option<Row>, CallError> {
    if result.exists == Some(true) {
        return Ok(Some(Row::new(wanted.clone(), Vec::new())));
    }
    let row = convert::row(result, block).map_err(|error| bad(error.to_string()))?;
    if row.as_ref().is_some_and(|row| row.key() != wanted) {
        return Err(bad("another row than the one that was asked for"));
    }
    Ok(row)
}

/// The exception of a get, or of a region with all its gets. Gets have no effect on the server.
fn failure(exception: &pb::NameBytesPair) -> CallError {
    CallError::Action {
        fault: RemoteFault::of_action(exception).into(),
        effect: Effect::None,
    }
}

#[cfg(test)]
mod tests;
