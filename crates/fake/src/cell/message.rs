//! Cells inside messages.

use hbase_protocol as pb;

use super::{Cell, Kind};

/// Returns a result with its cells.
pub(crate) fn to_message(cells: Vec<Cell>) -> pb::Result {
    let cell = cells.into_iter().map(|cell| {
        let mut message = pb::Cell {
            row: Some(cell.row),
            family: Some(cell.family),
            qualifier: Some(cell.qualifier),
            timestamp: Some(cell.timestamp),
            value: Some(cell.value),
            ..Default::default()
        };
        message.set_cell_type(match cell.kind {
            Kind::Put => pb::CellType::Put,
            Kind::Delete => pb::CellType::Delete,
            Kind::DeleteFamilyVersion => pb::CellType::DeleteFamilyVersion,
            Kind::DeleteColumn => pb::CellType::DeleteColumn,
            Kind::DeleteFamily => pb::CellType::DeleteFamily,
        });
        message
    });
    pb::Result {
        cell: cell.collect(),
        ..Default::default()
    }
}
