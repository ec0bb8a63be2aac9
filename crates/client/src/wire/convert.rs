//! Conversions between HBase's messages and the model.
//!
//! A decoder does not report missing required fields, so incoming messages are checked here, for
//! example for an empty name, or a row that differs from that of its cells.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::{
    cell_block::{CellBlockDecoder, CellBlockError, Codec, SHORTEST_CELL, Tags},
    filter,
    frame::RemoteFault,
    magic, parts, pb,
    read_filter::{only_rows, read_filter_message},
};
use crate::{
    error::RemoteException,
    model::{
        Cell, CellKind, Consistency, Durability, FamilyDescriptor, Get, IsolationLevel, Permission,
        QueryMetrics, ReadType, RegionInfo, Row, Scan, Selection, ServerName, TableDescriptor, TableName,
        TableState, TimeRange, VISIBILITY_ATTRIBUTE,
    },
};

/// An answer that can be parsed but is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ConvertError(Reason);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("{0}")]
    Meaningless(String),
    #[error("the cell block can't be read: {0}")]
    CellBlock(#[source] CellBlockError),
    #[error("the cell block ends before the cells that the message announces")]
    MissingCells,
}

const MISSING_CELLS: ConvertError = ConvertError(Reason::MissingCells);

impl From<CellBlockError> for ConvertError {
    fn from(error: CellBlockError) -> Self {
        Self(Reason::CellBlock(error))
    }
}

fn meaningless(what: impl Into<String>) -> ConvertError {
    ConvertError(Reason::Meaningless(what.into()))
}

/// Converts the name of a server.
///
/// # Errors
///
/// Returns an error if its port is not valid.
pub fn server_name(message: &pb::ServerName) -> Result<ServerName, ConvertError> {
    let port = message.port.and_then(|port| u16::try_from(port).ok());
    let name = ServerName::new(
        &message.host_name,
        port.unwrap_or_default(),
        message.start_code.unwrap_or(0),
    );
    name.ok_or_else(|| meaningless(format!("{:?}:{:?} is no server", message.host_name, message.port)))
}

/// Returns the name of a server as a message.
#[must_use]
pub fn server_name_message(server: &ServerName) -> pb::ServerName {
    pb::ServerName {
        host_name: server.host.clone(),
        port: Some(u32::from(server.port)),
        start_code: Some(server.start_code),
    }
}

/// Converts the name of a table.
///
/// # Errors
///
/// Returns an error if it is not valid.
pub fn table_name(message: &pb::TableName) -> Result<TableName, ConvertError> {
    let text = |bytes: &Bytes| std::str::from_utf8(bytes).map(str::to_owned);
    match (text(&message.namespace), text(&message.qualifier)) {
        (Ok(namespace), Ok(qualifier)) => {
            TableName::new(&namespace, &qualifier).map_err(|error| meaningless(error.to_string()))
        }
        _ => Err(meaningless("a table's name is not text")),
    }
}

/// Returns the name of a table as a message.
#[must_use]
pub fn table_name_message(table: &TableName) -> pb::TableName {
    pb::TableName {
        namespace: Bytes::copy_from_slice(table.namespace().as_bytes()),
        qualifier: Bytes::copy_from_slice(table.qualifier().as_bytes()),
    }
}

/// Converts a region of `hbase:meta`; `name` is its row key there.
///
/// # Errors
///
/// Returns an error if the region has no valid table.
pub fn region_info(name: Bytes, message: pb::RegionInfo) -> Result<RegionInfo, ConvertError> {
    Ok(RegionInfo {
        table: table_name(&message.table_name)?,
        start_key: message.start_key.unwrap_or_default(),
        end_key: message.end_key.unwrap_or_default(),
        region_id: message.region_id,
        name,
        split: message.split.unwrap_or(false),
        offline: message.offline.unwrap_or(false),
    })
}

/// Converts a region that is sent without its name, and computes the name.
///
/// # Errors
///
/// Returns an error if the region has no valid table.
pub fn named_region_info(message: pb::RegionInfo) -> Result<RegionInfo, ConvertError> {
    region_info(Bytes::new(), message).map(RegionInfo::named)
}

/// Specifies a region for region servers, by its full name.
#[must_use]
pub fn region_specifier(region: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName.into(),
        value: region.name.clone(),
    }
}

/// Specifies a region for the master, by its encoded name.
#[must_use]
pub fn encoded_region_specifier(region: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::EncodedRegionName.into(),
        value: Bytes::copy_from_slice(region.encoded_name()),
    }
}

/// Specifies a region for a split by the master.
#[must_use]
pub fn region_info_message(region: &RegionInfo) -> pb::RegionInfo {
    pb::RegionInfo {
        region_id: region.region_id,
        table_name: table_name_message(&region.table),
        start_key: Some(region.start_key.clone()),
        end_key: Some(region.end_key.clone()),
        offline: Some(region.offline),
        split: Some(region.split),
        replica_id: Some(0),
    }
}

fn columns(selection: &Selection) -> Vec<pb::Column> {
    selection
        .columns
        .iter()
        .map(|(family, qualifiers)| pb::Column {
            family: family.clone(),
            qualifier: qualifiers.clone(),
        })
        .collect()
}

pub(super) fn time_range(range: TimeRange) -> pb::TimeRange {
    pb::TimeRange {
        from: Some(range.from),
        to: Some(range.to),
    }
}

fn family_time_ranges(selection: &Selection) -> Vec<pb::ColumnFamilyTimeRange> {
    selection
        .family_time_ranges
        .iter()
        .map(|(family, range)| pb::ColumnFamilyTimeRange {
            column_family: family.clone(),
            time_range: time_range(*range),
        })
        .collect()
}

/// Returns the attributes of a connection or a request.
pub(crate) fn header_attributes(attributes: &[(String, Bytes)]) -> Vec<pb::NameBytesPair> {
    let pairs = attributes
        .iter()
        .map(|(name, value)| attribute(name, value.clone()));
    pairs.collect()
}

fn attribute(name: &str, value: Bytes) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: name.to_owned(),
        value: Some(value),
    }
}

/// Returns the attributes of a read: those of the user, and those that carry its options.
fn attributes(selection: &Selection, raw: bool) -> Vec<pb::NameBytesPair> {
    /// `Bytes.toBytes(true)`.
    const TRUE: &[u8] = &[0xff];
    const READ_UNCOMMITTED: &[u8] = &[1];
    let is_uncommitted = selection.isolation == IsolationLevel::ReadUncommitted;
    let authorizations = selection.authorizations.as_ref().map(|labels| {
        let labels = pb::Authorizations {
            label: labels.clone(),
        };
        attribute(VISIBILITY_ATTRIBUTE, labels.encode_to_vec().into())
    });
    let own = selection.attributes.iter();
    own.map(|(name, value)| attribute(name, value.clone()))
        .chain(raw.then(|| attribute("_raw_", Bytes::from_static(TRUE))))
        .chain(is_uncommitted.then(|| attribute("_isolationlevel_", Bytes::from_static(READ_UNCOMMITTED))))
        .chain(authorizations)
        .collect()
}

pub(crate) fn get_message(get: &Get) -> pb::Get {
    let selection = &get.selection;
    pb::Get {
        row: get.row.clone(),
        column: columns(selection),
        attribute: attributes(selection, false),
        time_range: selection.time_range.map(time_range),
        cf_time_range: family_time_ranges(selection),
        max_versions: selection.max_versions,
        store_limit: selection.max_results_per_family,
        store_offset: selection.offset_per_family,
        load_column_families_on_demand: selection.load_families_on_demand,
        cache_blocks: (!get.cache_blocks).then_some(false),
        filter: selection.filter.as_deref().map(read_filter_message),
        consistency: consistency(selection.consistency),
        query_metrics_enabled: selection.query_metrics.then_some(true),
        ..pb::Get::default()
    }
}

/// Returns the message of a get that asks only whether the row has a requested cell.
pub(crate) fn existence_message(get: &Get) -> pb::Get {
    pb::Get {
        existence_only: Some(true),
        ..get_message(get)
    }
}

/// Returns the request of a scan for one region, from `start` on.
pub(crate) fn scan_message(
    scan: &Scan,
    start: &Bytes,
    include_start: bool,
    max_result_size: u64,
) -> pb::Scan {
    let selection = &scan.selection;
    pb::Scan {
        column: columns(selection),
        start_row: Some(start.clone()),
        include_start_row: Some(include_start),
        stop_row: Some(scan.stop.clone()),
        include_stop_row: Some(scan.include_stop),
        reversed: scan.reversed.then_some(true),
        time_range: selection.time_range.map(time_range),
        cf_time_range: family_time_ranges(selection),
        max_versions: selection.max_versions,
        store_limit: selection.max_results_per_family,
        store_offset: selection.offset_per_family,
        load_column_families_on_demand: selection.load_families_on_demand,
        batch_size: scan.batch,
        allow_partial_results: scan.partial_results.then_some(true),
        filter: scan_filter(scan),
        cache_blocks: Some(scan.cache_blocks),
        attribute: attributes(selection, scan.raw),
        max_result_size: Some(max_result_size),
        caching: scan.caching,
        mvcc_read_point: scan.read_point,
        read_type: match scan.read_type {
            ReadType::Default => None,
            ReadType::Stream => Some(pb::scan::ReadType::Stream.into()),
            ReadType::Pread => Some(pb::scan::ReadType::Pread.into()),
        },
        consistency: consistency(selection.consistency),
        query_metrics_enabled: selection.query_metrics.then_some(true),
        need_cursor_result: Some(true),
    }
}

fn consistency(consistency: Consistency) -> Option<i32> {
    match consistency {
        Consistency::Strong => None,
        Consistency::Timeline => Some(pb::Consistency::Timeline.into()),
    }
}

fn scan_filter(scan: &Scan) -> Option<pb::Filter> {
    // A single row is the range itself.
    let only_rows = (scan.rows.len() > 1).then(|| only_rows(&scan.rows));
    let filter = scan.selection.filter.as_deref().map(read_filter_message);
    match (only_rows, filter) {
        (Some(only_rows), Some(filter)) => Some(filter::all(vec![only_rows, filter])),
        (only_rows, filter) => only_rows.or(filter),
    }
}

/// Returns the number of a durability in `MutationProto`.
#[must_use]
pub fn durability_code(durability: Durability) -> i32 {
    use pb::mutation_proto::Durability as Code;
    match durability {
        Durability::UseDefault => Code::UseDefault,
        Durability::SkipWal => Code::SkipWal,
        Durability::AsyncWal => Code::AsyncWal,
        Durability::SyncWal => Code::SyncWal,
        Durability::FsyncWal => Code::FsyncWal,
    }
    .into()
}

/// Returns the cells of a result, all of one row, or `None` if it has none.
pub(crate) fn row(result: pb::Result, block: &mut CellBlockDecoder) -> Result<Option<Row>, ConvertError> {
    let metrics = result.metrics.map(query_metrics);
    let row = row_of(cells(result, block)?)?;
    Ok(row.map(|row| row.with_query_metrics(metrics)))
}

/// Returns what a server has read for a result.
pub(crate) fn query_metrics(message: pb::QueryMetrics) -> QueryMetrics {
    QueryMetrics::new(message.block_bytes_scanned.unwrap_or(0))
}

/// Returns the cells of a result, from the message or from the cell block.
pub(crate) fn cells(result: pb::Result, block: &mut CellBlockDecoder) -> Result<Vec<Cell>, ConvertError> {
    let codec = block.codec();
    let mut cells = result
        .cell
        .into_iter()
        .map(|cell| inline_cell(cell, codec))
        .collect::<Result<Vec<Cell>, _>>()?;
    let in_block = usize::try_from(result.associated_cell_count.unwrap_or(0));
    let in_block = in_block.map_err(|_| meaningless("a result with fewer than no cells"))?;
    cells.extend(take_cells(block, in_block)?);
    Ok(cells)
}

/// Returns the row of all cells.
pub(crate) fn row_of(cells: Vec<Cell>) -> Result<Option<Row>, ConvertError> {
    let Some(first) = cells.first() else {
        return Ok(None);
    };
    if cells[1..].iter().all(|cell| cell.row == first.row) {
        Ok(Some(Row::of(cells)))
    } else {
        Err(meaningless("the cells of one result name different rows"))
    }
}

/// Converts a cell inside a message. Reads its tags only with the codec for them, as in a block.
fn inline_cell(cell: pb::Cell, codec: Codec) -> Result<Cell, ConvertError> {
    let kind = u8::try_from(cell.cell_type.unwrap_or(0)).unwrap_or(0);
    let timestamp = cell.timestamp.unwrap_or(0);
    let tags = match codec {
        Codec::KeyValue => Tags::default(),
        Codec::KeyValueWithTags => Tags::read(timestamp, &cell.tags.unwrap_or_default())?,
    };
    Ok(Cell::new(
        cell.row.unwrap_or_default(),
        cell.family.unwrap_or_default(),
        cell.qualifier.unwrap_or_default(),
        timestamp,
        CellKind::from_code(kind),
        cell.value.unwrap_or_default(),
    )
    .tagged(tags.expiry, tags.has_access_rules))
}

/// Takes the next cells of a block. Allocates by the cells themselves, because the peer chooses
/// `count`.
fn take_cells(block: &mut CellBlockDecoder, count: usize) -> Result<Vec<Cell>, ConvertError> {
    let mut cells = Vec::with_capacity(count.min(1_024));
    for _ in 0..count {
        cells.push(block.next().ok_or(MISSING_CELLS)??);
    }
    Ok(cells)
}

/// Returns the rows of a scan's answer in order. One is partial if more of its cells follow in the next
/// answer.
pub(crate) fn scanned_rows(
    answer: &mut pb::ScanResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<Row>, ConvertError> {
    let with_cells = block.len() / SHORTEST_CELL;
    let mut rows = Vec::with_capacity(answer.cells_per_result.len().min(with_cells));
    for result in std::mem::take(&mut answer.results) {
        let is_partial = result.partial.unwrap_or(false);
        let row = row(result, &mut CellBlockDecoder::new(Bytes::new(), block.codec()))?;
        rows.extend(row.map(|row| row.with_partial(is_partial)));
    }
    let is_stale = answer.stale == Some(true);
    let has_metrics = answer.query_metrics.len() == answer.cells_per_result.len();
    for (at, count) in answer.cells_per_result.iter().enumerate() {
        let is_partial = answer.partial_flag_per_result.get(at).copied().unwrap_or(false);
        let metrics = answer.query_metrics.get(at).filter(|_| has_metrics);
        let metrics = metrics.copied().map(query_metrics);
        let row = row_of(take_cells(&mut block, *count as usize)?)?;
        let flagged = |row: Row| row.with_partial(is_partial).with_stale(is_stale);
        rows.extend(row.map(|row| flagged(row).with_query_metrics(metrics)));
    }
    match block.len() {
        0 => Ok(rows),
        _ => Err(meaningless("cells that belong to no row")),
    }
}

/// Converts the schema of a table.
///
/// # Errors
///
/// Returns an error if the message has no valid name of a table.
pub fn table_descriptor(message: pb::TableSchema) -> Result<TableDescriptor, ConvertError> {
    let name = message
        .table_name
        .as_ref()
        .ok_or_else(|| meaningless("a table without a name"))?;
    let mut descriptor = TableDescriptor::from(table_name(name)?);
    descriptor.attributes = pairs(message.attributes);
    descriptor.configuration = strings(message.configuration);
    for family in message.column_families {
        let mut converted = FamilyDescriptor::new(family.name);
        converted.attributes = pairs(family.attributes);
        converted.configuration = strings(family.configuration);
        descriptor = descriptor.with_family(converted);
    }
    Ok(descriptor)
}

/// Returns the schema of a table, as the master receives it.
#[must_use]
pub fn table_schema(descriptor: &TableDescriptor) -> pb::TableSchema {
    pb::TableSchema {
        table_name: Some(table_name_message(&descriptor.name)),
        attributes: pair_messages(&descriptor.attributes),
        configuration: string_messages(&descriptor.configuration),
        column_families: descriptor.families.iter().map(family_schema).collect(),
    }
}

/// Returns the schema of a column family, as the master receives it.
#[must_use]
pub fn family_schema(family: &FamilyDescriptor) -> pb::ColumnFamilySchema {
    pb::ColumnFamilySchema {
        name: family.name.clone(),
        attributes: pair_messages(&family.attributes),
        configuration: string_messages(&family.configuration),
    }
}

/// Returns the number of a permission in HBase's `Permission.Action`.
#[must_use]
pub fn permission_code(permission: Permission) -> i32 {
    permission.code()
}

/// Returns the permission with this number in HBase's `Permission.Action`, if there is one.
#[must_use]
pub fn permission(code: i32) -> Option<Permission> {
    Permission::of_code(code)
}

/// Converts the Java exception of one of several results.
#[must_use]
pub fn remote_exception(exception: &pb::NameBytesPair) -> RemoteException {
    RemoteFault::of_action(exception).into()
}

/// Reads a message that HBase stores in a table, after the prefix `PBUF`.
///
/// # Errors
///
/// Returns an error if the bytes are not such a message.
pub fn stored<M: Message + Default>(bytes: Bytes) -> Result<M, ConvertError> {
    magic::decode_stored(bytes).map_err(|error| meaningless(error.to_string()))
}

/// Reads the answer of a method that is inside another answer.
///
/// # Errors
///
/// Returns an error if the bytes are not such a message, or would take far more memory than their
/// length.
pub fn inner_answer<M: Message + Default>(method: &str, answer: Bytes) -> Result<M, ConvertError> {
    parts::check(method, &answer).map_err(|error| meaningless(error.to_string()))?;
    M::decode(answer).map_err(|error| meaningless(error.to_string()))
}

/// Converts pairs of bytes. The last one of a key wins.
#[must_use]
pub fn pairs(messages: Vec<pb::BytesBytesPair>) -> BTreeMap<Bytes, Bytes> {
    messages
        .into_iter()
        .map(|pair| (pair.first, pair.second))
        .collect()
}

/// Returns pairs of bytes as messages.
#[must_use]
pub fn pair_messages(pairs: &BTreeMap<Bytes, Bytes>) -> Vec<pb::BytesBytesPair> {
    pairs
        .iter()
        .map(|(first, second)| pb::BytesBytesPair {
            first: first.clone(),
            second: second.clone(),
        })
        .collect()
}

/// Converts pairs of text. The last one of a key wins.
#[must_use]
pub fn strings(messages: Vec<pb::NameStringPair>) -> BTreeMap<String, String> {
    messages.into_iter().map(|pair| (pair.name, pair.value)).collect()
}

/// Returns pairs of text as messages.
#[must_use]
pub fn string_messages(pairs: &BTreeMap<String, String>) -> Vec<pb::NameStringPair> {
    pairs
        .iter()
        .map(|(name, value)| pb::NameStringPair {
            name: name.clone(),
            value: value.clone(),
        })
        .collect()
}

/// Converts the state of a table.
#[must_use]
pub fn table_state(message: &pb::TableState) -> TableState {
    match message.state() {
        pb::table_state::State::Enabled => TableState::Enabled,
        pb::table_state::State::Disabled => TableState::Disabled,
        pb::table_state::State::Disabling => TableState::Disabling,
        pb::table_state::State::Enabling => TableState::Enabling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cell_block::{CellRef, encode_cell};

    const fn no_block() -> CellBlockDecoder {
        CellBlockDecoder::new(Bytes::new(), Codec::KeyValue)
    }

    #[test]
    fn cell_in_a_message_has_its_expiry_on_request() {
        let read = |codec, tags: &'static [u8]| {
            let cell = pb::Cell {
                timestamp: Some(1_000),
                tags: Some(tags.into()),
                ..Default::default()
            };
            inline_cell(cell, codec).map(|cell| cell.expires_at())
        };
        let ttl = b"\x00\x09\x08\x00\x00\x00\x00\x00\x00\x00\x05";
        assert_eq!(read(Codec::KeyValueWithTags, ttl), Ok(Some(1_005)));
        assert_eq!(read(Codec::KeyValueWithTags, b""), Ok(None));
        assert!(read(Codec::KeyValueWithTags, b"\x00\x09\x08").is_err());
        assert_eq!(read(Codec::KeyValue, ttl), Ok(None));
    }

    #[test]
    fn a_server_without_name_or_port_is_none() {
        let name = |host: &str, port| pb::ServerName {
            host_name: host.into(),
            port,
            start_code: None,
        };
        assert!(server_name(&name("", Some(1))).is_err());
        assert!(server_name(&name("h", None)).is_err());
        assert!(server_name(&name("h", Some(70_000))).is_err());
        assert_eq!(server_name(&name("h", Some(1))).unwrap().to_string(), "h,1,0");
    }

    #[test]
    fn a_result_that_announces_more_cells_than_came_is_refused() {
        let result = pb::Result {
            associated_cell_count: Some(i32::MAX),
            ..Default::default()
        };
        assert_eq!(row(result, &mut no_block()), Err(MISSING_CELLS));
        let mut answer = pb::ScanResponse {
            cells_per_result: vec![u32::MAX],
            ..Default::default()
        };
        assert_eq!(scanned_rows(&mut answer, no_block()), Err(MISSING_CELLS));
    }

    /// An answer with a row of one cell for each of these letters.
    fn answer_with_rows(rows: &[u8]) -> (pb::ScanResponse, CellBlockDecoder) {
        let mut block = Vec::new();
        for row in rows.chunks(1) {
            let cell = CellRef {
                row,
                family: b"f",
                qualifier: b"q",
                timestamp: 1,
                kind: CellKind::Put,
                value: b"v",
            };
            encode_cell(&mut block, &cell).unwrap();
        }
        let answer = pb::ScanResponse {
            cells_per_result: vec![1; rows.len()],
            ..Default::default()
        };
        (answer, CellBlockDecoder::new(block.into(), Codec::KeyValue))
    }

    #[test]
    fn cells_that_no_result_counts_are_refused() {
        let (mut answer, block) = answer_with_rows(b"ab");
        answer.cells_per_result.pop();
        assert!(scanned_rows(&mut answer, block).is_err());
        let negative = pb::Result {
            associated_cell_count: Some(-1),
            ..Default::default()
        };
        assert!(row(negative, &mut no_block()).is_err());
    }

    #[test]
    fn rows_of_a_scan_have_the_metrics_of_their_results() {
        let metrics = |number| pb::QueryMetrics {
            block_bytes_scanned: number,
        };
        let read = |query_metrics: Vec<pb::QueryMetrics>| {
            let (mut answer, block) = answer_with_rows(b"ab");
            answer.query_metrics = query_metrics;
            let rows = scanned_rows(&mut answer, block).unwrap();
            let numbers = rows.iter().map(Row::query_metrics);
            numbers
                .map(|metrics| metrics.map(|metrics| metrics.block_bytes_scanned))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(vec![]), [None, None]);
        assert_eq!(read(vec![metrics(Some(7)), metrics(None)]), [Some(7), Some(0)]);
        // They cannot be told apart.
        assert_eq!(read(vec![metrics(Some(7))]), [None, None]);
    }

    #[test]
    fn a_result_of_two_rows_is_refused() {
        let cell = |row: &'static str| pb::Cell {
            row: Some(row.into()),
            ..Default::default()
        };
        let result = pb::Result {
            cell: vec![cell("a"), cell("b")],
            ..Default::default()
        };
        assert!(row(result, &mut no_block()).is_err());
    }
}
