//! A cell, and the cells of one row.

use std::{fmt, num::NonZeroU64};

use bytes::Bytes;

use super::{BytesBinary, FromValue, comparison::Shown, limits::in_row};
use crate::error::{Error, ErrorKind, Result};

/// One version of one column of a row.
///
/// Its parts are slices of the frame in which it arrived, so keeping one cell keeps the whole
/// frame. Copy the parts that you keep for long, or [detach](Row::detach) the row.
///
/// Two cells are equal if all their fields are, [the time of expiry](Self::expires_at) included.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// The row key.
    pub row: Bytes,
    /// The column family.
    pub family: Bytes,
    /// The column qualifier; may be empty.
    pub qualifier: Bytes,
    /// The version: milliseconds since 1970 unless a writer chose otherwise.
    pub timestamp: u64,
    /// A value, or one of the delete markers.
    pub kind: CellKind,
    /// The value; may be empty.
    pub value: Bytes,
    pub(crate) expiry: Option<NonZeroU64>,
    pub(crate) has_access_rules: bool,
}

/// The kind of a cell: a value, or a delete marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CellKind {
    /// A value.
    Put,
    /// Deletes one version.
    Delete,
    /// Deletes the versions of one timestamp in the whole family.
    DeleteFamilyVersion,
    /// Deletes all versions of the column up to the timestamp.
    DeleteColumn,
    /// Deletes all versions of the family up to the timestamp.
    DeleteFamily,
    /// A code that this client does not know.
    Other(u8),
}

impl CellKind {
    /// Returns the kind of a type code of HBase's `KeyValue`.
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            4 => Self::Put,
            8 => Self::Delete,
            10 => Self::DeleteFamilyVersion,
            12 => Self::DeleteColumn,
            14 => Self::DeleteFamily,
            other => Self::Other(other),
        }
    }

    /// Returns the type code of HBase's `KeyValue`.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Put => 4,
            Self::Delete => 8,
            Self::DeleteFamilyVersion => 10,
            Self::DeleteColumn => 12,
            Self::DeleteFamily => 14,
            Self::Other(code) => code,
        }
    }
}

impl Cell {
    /// Returns whether the cell is after another one of its row, in HBase's order.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        let place = |cell: &Self| (cell.timestamp, cell.kind.code());
        let column = (&self.family, &self.qualifier).cmp(&(&other.family, &other.qualifier));
        column.then_with(|| place(other).cmp(&place(self))).is_gt()
    }

    /// Creates a cell. Its [`expires_at`](Self::expires_at) is `None`, and it has no
    /// [access rules](Self::has_access_rules).
    #[must_use]
    pub fn new(
        row: Bytes,
        family: Bytes,
        qualifier: Bytes,
        timestamp: u64,
        kind: CellKind,
        value: Bytes,
    ) -> Self {
        Self {
            row,
            family,
            qualifier,
            timestamp,
            kind,
            value,
            expiry: None,
            has_access_rules: false,
        }
    }

    /// Sets what the tags of the cell say.
    pub(crate) fn tagged(self, expiry: Option<NonZeroU64>, has_access_rules: bool) -> Self {
        Self {
            expiry,
            has_access_rules,
            ..self
        }
    }

    /// Returns when the cell expires because of the TTL that it was written with: its timestamp
    /// plus that TTL, in milliseconds since 1970, by the server's clock. The server still returns
    /// the cell at this time, but no longer a millisecond later.
    ///
    /// Returns `None` if the cell was written without a TTL, and always if it was not read from a
    /// [`Table`](crate::Table) [`with_expiry`](crate::Table::with_expiry). The family's own TTL is
    /// not included, and may end the cell earlier.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        self.expiry.map(NonZeroU64::get)
    }

    /// Returns whether the cell has a visibility expression or an ACL of its own. A copy of its
    /// value has neither: more users may read it than the expression allows, and the users of the
    /// ACL lose what it grants.
    ///
    /// Always `false` if the cell was not read from a [`Table`](crate::Table)
    /// [`with_expiry`](crate::Table::with_expiry). The expression and the ACL themselves are not
    /// available: servers return labels as numbers.
    #[must_use]
    pub const fn has_access_rules(&self) -> bool {
        self.has_access_rules
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidValue`](ErrorKind::InvalidValue), with the cell and the length of its
    /// value, if the value is not one of that type.
    pub fn decode<'a, T: FromValue<'a>>(&'a self) -> Result<T> {
        T::from_value(&self.value).map_err(|source| {
            let what = format!(
                "cannot read cell {}:{} of {} bytes",
                Shown(&self.family),
                Shown(&self.qualifier),
                self.value.len()
            );
            in_row(
                Error::new(ErrorKind::InvalidValue, what).with_source(source),
                &self.row,
            )
        })
    }

    /// Returns the number of bytes of row, family, qualifier and value together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.row.len() + self.family.len() + self.qualifier.len() + self.value.len()
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}:{} @{}",
            BytesBinary(&self.row),
            BytesBinary(&self.family),
            BytesBinary(&self.qualifier),
            self.timestamp,
        )?;
        // Only a raw scan returns other kinds.
        if self.kind != CellKind::Put {
            write!(f, " {:?}", self.kind)?;
        }
        write!(f, " {:?}", BytesBinary(&self.value))?;
        match self.expiry {
            Some(at) => write!(f, " until {at}"),
            None => Ok(()),
        }
    }
}

/// The cells of one row, as the result of a get or a scan. HBase calls this a `Result`.
///
/// Cells are in HBase's order: by family, then qualifier, then newest version first.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// Empty if there are cells: each has the key, and a copy costs every scanned row two counts of
    /// references.
    key_without_cells: Bytes,
    cells: Vec<Cell>,
    is_partial: bool,
    is_stale: bool,
    /// See [`QueryMetrics`]; [`NOT_REPORTED`] without them.
    block_bytes_scanned: u64,
}

/// No answer is that expensive.
const NOT_REPORTED: u64 = u64::MAX;

/// What a server has read for a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryMetrics {
    /// The number of bytes of all blocks of files that were read, from disk or from the block cache.
    /// 0 if the result came from the memstore alone.
    pub block_bytes_scanned: u64,
}

impl Row {
    /// Creates a row of these cells. The cells must be of the row `key` and in HBase's order;
    /// neither is checked.
    #[must_use]
    pub fn new(key: Bytes, cells: Vec<Cell>) -> Self {
        Self {
            key_without_cells: if cells.is_empty() { key } else { Bytes::new() },
            ..Self::of(cells)
        }
    }

    /// Creates a row of the cells' row. There must be a cell.
    pub(crate) const fn of(cells: Vec<Cell>) -> Self {
        Self {
            key_without_cells: Bytes::new(),
            cells,
            is_partial: false,
            is_stale: false,
            block_bytes_scanned: NOT_REPORTED,
        }
    }

    /// Appends the next part of the row.
    pub(crate) fn append(&mut self, part: Self) {
        let metrics = QueryMetrics::sum(self.query_metrics(), part.query_metrics());
        self.block_bytes_scanned = QueryMetrics::to_number(metrics);
        self.cells.extend(part.cells);
    }

    /// Sets what the server has read for the row, if it reported that.
    pub(crate) fn with_query_metrics(self, metrics: Option<QueryMetrics>) -> Self {
        Self {
            block_bytes_scanned: QueryMetrics::to_number(metrics),
            ..self
        }
    }

    /// Returns what the server has read for this row, also to pass over others before it. `None`
    /// unless the [get](super::Get::query_metrics) or [scan](super::Scan::query_metrics) requested
    /// it, and from releases without such reports.
    #[must_use]
    pub fn query_metrics(&self) -> Option<QueryMetrics> {
        let reported = self.block_bytes_scanned != NOT_REPORTED;
        reported.then_some(QueryMetrics {
            block_bytes_scanned: self.block_bytes_scanned,
        })
    }

    /// Marks the row as a part of one, or as whole.
    pub(crate) fn with_partial(self, is_partial: bool) -> Self {
        Self { is_partial, ..self }
    }

    /// Returns whether these may not be all requested cells of the row, in a scan that
    /// [returns rows in parts](super::Scan::batch): the next part of the row then follows, unless
    /// there is none. A row of any other read is whole.
    #[must_use]
    pub const fn may_have_more_cells(&self) -> bool {
        self.is_partial
    }

    /// Marks the row as read from a replica.
    pub(crate) fn with_stale(self, is_stale: bool) -> Self {
        Self { is_stale, ..self }
    }

    /// Returns whether a replica of the region was read, which may lack the last writes. Only reads
    /// with [`Consistency::Timeline`](super::Consistency::Timeline) have such rows.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Returns the row key.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        self.cells
            .first()
            .map_or(&self.key_without_cells, |cell| &cell.row)
    }

    /// Returns all cells.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Converts the row into its cells.
    #[must_use]
    pub fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    /// Copies the row out of the frame in which it arrived, so that keeping the row does not keep
    /// the other rows of that frame in memory. All cells then share one buffer.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Scan;
    ///
    /// # use hbase_client::Put;
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("a").cell("f", "q", "v")).await?;
    /// let mut rows = table.scan(Scan::new())?;
    /// let mut cache = Vec::new();
    /// while let Some(row) = rows.next().await? {
    ///     cache.push(row.detach());
    /// }
    /// # assert_eq!(cache[0].value("f", "q").map(|value| &value[..]), Some(&b"v"[..]));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn detach(mut self) -> Self {
        let key = self.key().clone();
        let columns = |cell: &Cell| cell.size() - cell.row.len();
        let size = key.len() + self.cells.iter().map(columns).sum::<usize>();
        let mut copy = Vec::with_capacity(size);
        copy.extend_from_slice(&key);
        for cell in &self.cells {
            copy.extend_from_slice(&cell.family);
            copy.extend_from_slice(&cell.qualifier);
            copy.extend_from_slice(&cell.value);
        }
        let mut copy = Bytes::from(copy);
        let key = copy.split_to(key.len());
        for cell in &mut self.cells {
            cell.row = key.clone();
            cell.family = copy.split_to(cell.family.len());
            cell.qualifier = copy.split_to(cell.qualifier.len());
            cell.value = copy.split_to(cell.value.len());
        }
        if self.cells.is_empty() {
            self.key_without_cells = key;
        }
        self
    }

    /// Returns the newest cell of a column.
    #[must_use]
    pub fn cell(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&Cell> {
        let (family, qualifier) = (family.as_ref(), qualifier.as_ref());
        self.cells
            .iter()
            .find(|cell| cell.family == family && cell.qualifier == qualifier)
    }

    /// Reads the newest value of a column as a type. Returns `None` if the row has no such cell.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidValue`](ErrorKind::InvalidValue), with the cell and the length of its
    /// value, if the value is not one of that type.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Get;
    ///
    /// # use hbase_client::Put;
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("xxxabc").cell("f", "total", 1250i64).cell("f", "state", "new")).await?;
    /// if let Some(row) = table.get(Get::new("xxxabc")).await? {
    ///     assert_eq!(row.get::<i64>("f", "total")?, Some(1250));
    ///     let state: Option<&str> = row.get("f", "state")?;
    ///     assert_eq!(state, Some("new"));
    /// }
    /// # Ok(()) });
    /// ```
    pub fn get<'a, T: FromValue<'a>>(
        &'a self,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<T>> {
        self.cell(family, qualifier).map(Cell::decode).transpose()
    }

    /// Returns the bytes of the newest value of a column.
    #[must_use]
    pub fn value(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.cell(family, qualifier).map(|cell| &cell.value)
    }

    /// Returns the number of bytes of all cells together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.cells.iter().map(Cell::size).sum()
    }
}

impl QueryMetrics {
    pub(crate) fn new(block_bytes_scanned: u64) -> Self {
        Self { block_bytes_scanned }
    }

    /// Adds those of two parts of a result.
    pub(crate) fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (one, other) else {
            return one.or(other);
        };
        let sum = one.block_bytes_scanned.saturating_add(other.block_bytes_scanned);
        Some(Self::new(sum))
    }

    fn to_number(metrics: Option<Self>) -> u64 {
        metrics.map_or(NOT_REPORTED, |metrics| metrics.block_bytes_scanned)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.cells).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_row_is_equal_and_shares_no_bytes() {
        let frame = Bytes::from(b"rowfamqualvalueother".to_vec());
        let row = frame.slice(..3);
        let cell = |qualifier, value| {
            let family = frame.slice(3..6);
            Cell::new(row.clone(), family, qualifier, 7, CellKind::Put, value)
                .tagged(NonZeroU64::new(9), true)
        };
        let cells = vec![
            cell(frame.slice(6..10), frame.slice(10..15)),
            cell(Bytes::new(), frame.slice(15..)),
        ];
        for whole in [
            Row::new(row.clone(), cells).with_stale(true),
            Row::new(row.clone(), Vec::new()),
        ] {
            let detached = whole.clone().detach();
            assert_eq!(detached, whole);
            let frame = frame.as_ptr_range();
            let key = [detached.key()];
            let parts = detached.cells().iter();
            let parts = parts.flat_map(|cell| [&cell.row, &cell.family, &cell.qualifier, &cell.value]);
            for part in parts.chain(key).filter(|part| !part.is_empty()) {
                assert!(!frame.contains(&part.as_ptr()), "{part:?}");
            }
        }
    }
}
