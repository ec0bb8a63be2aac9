//! The rows of `hbase:meta`.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::{mutation_proto as mutation, region_state::State};
use prost::Message;

use super::{
    names::{RegionInfo, TableName},
    world::World,
};
use crate::{cell::Cells, exception::Result};

/// What precedes stored messages.
const MAGIC: &[u8] = b"PBUF";
const INFO: Bytes = Bytes::from_static(b"info");
const TABLE: Bytes = Bytes::from_static(b"table");

/// A column of a row and its new value.
type Column = (String, Bytes);

impl World {
    /// Records a region: its key range, and whether it is open.
    pub(super) fn record_region(&mut self, encoded: &[u8]) -> Result<()> {
        let hosted = self.hosted(encoded)?;
        let name = hosted.info.name.clone();
        let columns = vec![
            column("regioninfo", stored(&hosted.info)),
            column("state", state_text(hosted.state)),
        ];
        self.put_meta(name, INFO, columns)
    }

    /// Records the state of a region, and where it is being opened.
    pub(super) fn record_state(&mut self, encoded: &[u8]) -> Result<()> {
        let hosted = self.hosted(encoded)?;
        if hosted.info.is_meta() {
            return Ok(());
        }
        let mut columns = vec![column("state", state_text(hosted.state))];
        if let Some(server) = hosted.serving {
            let name = self.server(server).name.to_string();
            columns.push(column("sn", name.into()));
        }
        let row = hosted.info.name.clone();
        self.put_meta(row, INFO, columns)
    }

    /// Records the server of an open region, or the one that a new region is about to open on.
    pub(super) fn record_location(&mut self, encoded: &[u8]) -> Result<()> {
        let hosted = self.hosted(encoded)?;
        let Some(server) = hosted.location.clone().filter(|_| !hosted.info.is_meta()) else {
            return Ok(());
        };
        let row = hosted.info.name.clone();
        let columns = vec![
            column("server", server.address().into()),
            column("serverstartcode", number(server.start_code)),
            column("seqnumDuringOpen", number(hosted.open_sequence)),
            column("sn", server.to_string().into()),
            column("state", state_text(hosted.state)),
        ];
        self.put_meta(row, INFO, columns)
    }

    /// Records that a region was split.
    pub(super) fn record_split(&mut self, parent: &[u8], daughters: [&RegionInfo; 2]) -> Result<()> {
        let hosted = self.hosted(parent)?;
        let columns = vec![
            column("regioninfo", stored(&hosted.info)),
            column("state", state_text(State::Split)),
            column("splitA", stored(daughters[0])),
            column("splitB", stored(daughters[1])),
        ];
        let row = hosted.info.name.clone();
        self.put_meta(row, INFO, columns)
    }

    /// Records the state of a table.
    pub(super) fn record_table_state(&mut self, table: &TableName) -> Result<()> {
        let state = pb::TableState {
            state: self.table(table)?.state.into(),
        };
        let columns = vec![column("state", state.encode_to_vec().into())];
        self.put_meta(table.to_string().into(), TABLE, columns)
    }

    pub(super) fn delete_meta_row(&mut self, row: Bytes) -> Result<()> {
        self.change_meta(row, mutation::MutationType::Delete, Vec::new())
    }

    fn put_meta(&mut self, row: Bytes, family: Bytes, columns: Vec<Column>) -> Result<()> {
        let values = columns
            .into_iter()
            .map(|(qualifier, value)| mutation::column_value::QualifierValue {
                qualifier: Some(qualifier.into()),
                value: Some(value),
                timestamp: None,
                delete_type: None,
                tags: None,
            });
        let column_value = mutation::ColumnValue {
            family,
            qualifier_value: values.collect(),
        };
        self.change_meta(row, mutation::MutationType::Put, vec![column_value])
    }

    fn change_meta(
        &mut self,
        row: Bytes,
        kind: mutation::MutationType,
        column_value: Vec<mutation::ColumnValue>,
    ) -> Result<()> {
        // A row that is deleted and made again in one millisecond would be hidden.
        self.meta_timestamp = self.wall.max(self.meta_timestamp + 1);
        let now = self.meta_timestamp;
        let request = pb::MutateRequest {
            region: RegionInfo::meta().specifier(),
            mutation: pb::MutationProto {
                row: Some(row),
                mutate_type: Some(kind.into()),
                column_value,
                timestamp: Some(now),
                ..pb::MutationProto::default()
            },
            condition: None,
            nonce_group: None,
        };
        self.meta()?
            .mutate(&request, &mut Cells::new(Bytes::new(), false), now)
            .map(drop)
    }
}

fn column(qualifier: &str, value: Bytes) -> Column {
    (qualifier.to_owned(), value)
}

fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn state_text(state: State) -> Bytes {
    Bytes::from_static(state.as_str_name().as_bytes())
}

fn stored(info: &RegionInfo) -> Bytes {
    [MAGIC, &info.message().encode_to_vec()].concat().into()
}
