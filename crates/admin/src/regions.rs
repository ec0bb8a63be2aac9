//! Regions: those of a table, a region by its name, and the removal of its rows.

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Comparison, Error, ErrorKind, Get, IntoBytes, IntoTableName, ReadFilter, Regex, RegionInfo,
    Result, Row, Scan, TableRegion,
    low_level::{convert, pb, region_of_meta_row, table_regions},
};

use crate::{
    admin::{Admin, bad_answer},
    procedure::Ended,
};

/// The length of an encoded name: an MD5 digest as hexadecimal text.
const ENCODED: usize = 32;

impl Admin {
    /// Returns the regions of a table, in order, with their replicas, as `hbase:meta` has them now. The registry
    /// has the region of `hbase:meta` itself.
    ///
    /// It also caches their locations: the first calls of a program need no look-ups after it.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn regions(&self, table: impl IntoTableName) -> Result<Vec<TableRegion>> {
        let table = &table.into_table_name()?;
        table_regions(&self.connection, table, self.deadline()).await
    }

    /// Deletes all rows of a region, and leaves its boundaries. Its rows cannot be read or written
    /// meanwhile, and rows that are written at the same time may be deleted or not. Replicas of the region
    /// lose the rows too.
    ///
    /// HBase 2.6 and later; the preview 3.0.0-alpha-4 does not have it. On other releases, delete the rows,
    /// or [truncate the table](Self::truncate_table).
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`](ErrorKind::Unsupported) if the master's release cannot do it,
    /// [`InvalidInput`](ErrorKind::InvalidInput) for the region of `hbase:meta`, and an error of the server
    /// if the table is disabled or the region does not exist. If the master has forgotten how it ended, the
    /// [outcome is unknown](Error::is_outcome_unknown).
    pub async fn truncate_region(&self, region: &RegionInfo) -> Result<()> {
        let in_context = |error: Error| error.at_operation("truncating a region").at_table(&region.table);
        if region.table == RegionInfo::meta().table {
            let what = "hbase:meta is not truncated: it has the locations of all regions";
            return Err(in_context(Error::invalid(what)));
        }
        let request = pb::TruncateRegionRequest {
            region_info: convert::region_info_message(region),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        self.run::<_, pb::TruncateRegionResponse>("TruncateRegion", &request, self.deadline())
            .await
            .and_then(Ended::certain)
            .map_err(in_context)
    }

    /// Returns a region by its full name or its encoded name, as they are in logs and on the pages of
    /// servers, and the server of it. Reads `hbase:meta`: one row by a full name, and all rows by an encoded
    /// one, which is slow on a cluster with many regions.
    ///
    /// The region may be one that was split and waits for its cleanup ([`RegionInfo::split`]).
    ///
    /// # Errors
    ///
    /// Returns [`RegionNotFound`](ErrorKind::RegionNotFound) if no region has the name, and
    /// [`AccessDenied`](ErrorKind::AccessDenied) if the user may not read `hbase:meta`.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::Admin;
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// let found = Admin::new(connection).region("d41d8cd98f00b204e9800998ecf8427e").await?;
    /// println!("{} on {:?}", found.region.range_text(), found.server);
    /// # Ok(()) }
    /// ```
    pub async fn region(&self, name: impl IntoBytes) -> Result<TableRegion> {
        let name = name.into_bytes();
        let in_context = |error: Error| {
            let operation = format!("looking up region {}", BytesBinary(&name));
            error.at_operation(operation)
        };
        let meta = RegionInfo::meta();
        let found = if name == meta.name || name == meta.encoded_name() {
            self.regions(&meta.table)
                .await
                .map(|regions| regions.into_iter().next())
        } else {
            self.row_of_region(&name).await.and_then(region)
        };
        let not_found = || Error::new(ErrorKind::RegionNotFound, "no region has this name");
        found
            .and_then(|found| found.ok_or_else(not_found))
            .map_err(in_context)
    }

    /// Returns the row of a region in `hbase:meta`.
    async fn row_of_region(&self, name: &Bytes) -> Result<Option<Row>> {
        let meta = self.connection.table(RegionInfo::meta().table)?;
        let meta = meta.with_operation_timeout(self.operation_timeout);
        let is_encoded = name.len() == ENCODED && name.iter().all(u8::is_ascii_hexdigit);
        match std::str::from_utf8(name).ok().filter(|_| is_encoded) {
            Some(encoded) => {
                let ending = Regex::new(format!("\\.{encoded}\\.$"));
                let filter = ReadFilter::row(Comparison::Equal, ending);
                meta.scan(Scan::new().family("info").filter(filter).limit(1))?
                    .next()
                    .await
            }
            None if name.is_empty() => Ok(None),
            None => meta.get(Get::new(name.clone()).family("info")).await,
        }
    }
}

fn region(row: Option<Row>) -> Result<Option<TableRegion>> {
    let found = row.map(region_of_meta_row).transpose();
    Ok(found.map_err(|error| bad_answer(&error))?.flatten())
}
