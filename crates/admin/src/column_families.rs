//! Changes of single column families, which do not undo those of other clients to the same table.

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Effect, Error, ErrorKind, FamilyDescriptor, IntoBytes, IntoTableName, Result, TableName,
    low_level::{Pauses, convert, pb},
};
use tokio::time::Instant;

use crate::{
    admin::{Admin, is_class},
    change::{Request, Tables},
    procedure::{Ended, Started, seen_after_change},
};

/// The class of the server for all families that a change is not possible for.
const INVALID: &str = "InvalidFamilyOperationException";
/// The class of the server for a table that another procedure has changed since the master read it.
const CONFLICT: &str = "ConcurrentTableModificationException";

impl Admin {
    /// Adds a column family to a table. HBase reopens the regions as for [`modify_table`](Self::modify_table).
    ///
    /// # Errors
    ///
    /// Returns [`FamilyExists`](ErrorKind::FamilyExists) if the table has a family of that name,
    /// [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist, and an error if the
    /// master rejects the family.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::Admin;
    /// use hbase_client::{Connection, FamilyDescriptor};
    ///
    /// # async fn example(connection: &Connection) -> hbase_client::Result<()> {
    /// let archive = FamilyDescriptor::new("archive").with_attribute("COMPRESSION", "GZ");
    /// Admin::new(connection).add_column_family("orders", &archive).await?;
    /// # Ok(()) }
    /// ```
    pub async fn add_column_family(
        &self,
        table: impl IntoTableName,
        family: &FamilyDescriptor,
    ) -> Result<()> {
        let table = &table.into_table_name()?;
        let request = || pb::AddColumnRequest {
            table_name: convert::table_name_message(table),
            column_families: convert::family_schema(family),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let refusal = ErrorKind::FamilyExists;
        self.set_family::<_, pb::AddColumnResponse>("adding", "AddColumn", refusal, request, table, family)
            .await
    }

    /// Replaces the attributes of a column family of a table. HBase reopens the regions as for [`modify_table`](Self::modify_table).
    ///
    /// # Errors
    ///
    /// Returns [`FamilyNotFound`](ErrorKind::FamilyNotFound) if the table has no family of that
    /// name, [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist, and an error
    /// if the master rejects the attributes.
    pub async fn modify_column_family(
        &self,
        table: impl IntoTableName,
        family: &FamilyDescriptor,
    ) -> Result<()> {
        let table = &table.into_table_name()?;
        let request = || pb::ModifyColumnRequest {
            table_name: convert::table_name_message(table),
            column_families: convert::family_schema(family),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let refusal = ErrorKind::FamilyNotFound;
        self.set_family::<_, pb::ModifyColumnResponse>(
            "modifying",
            "ModifyColumn",
            refusal,
            request,
            table,
            family,
        )
        .await
    }

    /// Deletes a column family of a table, with all its cells.
    ///
    /// # Errors
    ///
    /// Returns [`FamilyNotFound`](ErrorKind::FamilyNotFound) if the table has no family of that
    /// name, [`InvalidInput`](ErrorKind::InvalidInput) if it has no other, and
    /// [`TableNotFound`](ErrorKind::TableNotFound) if the table does not exist.
    pub async fn delete_column_family(
        &self,
        table: impl IntoTableName,
        family: impl IntoBytes,
    ) -> Result<()> {
        let (table, family) = (&table.into_table_name()?, family.into_bytes());
        let in_context = in_context("deleting", &family, table);
        check_name(&family).map_err(&in_context)?;
        let request = || pb::DeleteColumnRequest {
            table_name: convert::table_name_message(table),
            column_name: family.clone(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let deadline = self.deadline();
        let ended = self
            .change_family::<_, pb::DeleteColumnResponse>("DeleteColumn", request, table, deadline)
            .await;
        let ended = match ended {
            Ok(ended) => ended,
            // The master has one class for both.
            Err(error) if is_class(&error, INVALID) && says_only_family(&error) => {
                let what = "the only column family of the table";
                return Err(in_context(Error::invalid(what).with_source(error)));
            }
            Err(error) => return Err(in_context(as_kind(error, ErrorKind::FamilyNotFound))),
        };
        let found = self.until(deadline).found(ended, table, &family).await;
        match found.map_err(&in_context)? {
            Some(Some(_)) => Err(in_context(not_done())),
            _ => Ok(()),
        }
    }

    /// Runs a procedure that adds or modifies a family, and checks that the table has the family then.
    /// `refusal` is the kind of the master's error for a family that exists, or does not.
    async fn set_family<M: Request, R: Started>(
        &self,
        change: &str,
        method: &'static str,
        refusal: ErrorKind,
        request: impl Fn() -> M,
        table: &TableName,
        family: &FamilyDescriptor,
    ) -> Result<()> {
        let in_context = in_context(change, &family.name, table);
        check_name(&family.name).map_err(&in_context)?;
        let deadline = self.deadline();
        let ended = self
            .change_family::<_, R>(method, request, table, deadline)
            .await
            .map_err(|error| in_context(as_kind(error, refusal)))?;
        let found = self.until(deadline).found(ended, table, &family.name).await;
        match found.map_err(&in_context)? {
            None => Ok(()),
            Some(Some(found)) if found == *family => Ok(()),
            Some(None) => Err(in_context(not_done())),
            // The master completes a family, so another one may be the effect too.
            Some(Some(_)) => Err(in_context(not_done().with_effect(Effect::Unknown))),
        }
    }

    /// Runs the procedure of a change, again if another client has changed the table meanwhile: the
    /// master then has not applied it.
    async fn change_family<M: Request, R: Started>(
        &self,
        method: &'static str,
        request: impl Fn() -> M,
        table: &TableName,
        deadline: Instant,
    ) -> Result<Ended> {
        let mut pauses = Pauses::after_conflicts();
        loop {
            let tables = Tables::of(self.until(deadline).before_change(table).await?);
            let ended = self.run_on::<_, R>(tables, method, &request(), deadline).await;
            match ended {
                Err(error) if is_class(&error, CONFLICT) && pauses.wait_before(deadline).await => {}
                ended => return ended,
            }
        }
    }

    /// Returns the family that the table has, if the master has forgotten how the change ended.
    async fn found(
        &self,
        ended: Ended,
        table: &TableName,
        family: &Bytes,
    ) -> Result<Option<Option<FamilyDescriptor>>> {
        if ended == Ended::Done {
            return Ok(None);
        }
        let descriptor = seen_after_change(self.descriptor(table).await)?;
        let mut families = descriptor.families.into_iter();
        Ok(Some(families.find(|found| found.name == *family)))
    }
}

pub(crate) fn in_context<'a>(
    change: &'a str,
    family: &'a Bytes,
    table: &'a TableName,
) -> impl Fn(Error) -> Error + 'a {
    move |error| {
        let operation = format!("{change} column family {}", BytesBinary(family));
        error.at_operation(operation).at_table(table)
    }
}

/// Rejects what the master would take for another family.
fn check_name(family: &Bytes) -> Result<()> {
    if family.is_empty() {
        Err(Error::invalid("a column family without a name"))
    } else {
        Ok(())
    }
}

/// Gives the master's error for an impossible change its kind.
fn as_kind(error: Error, kind: ErrorKind) -> Error {
    if !is_class(&error, INVALID) {
        return error;
    }
    let what = match kind {
        ErrorKind::FamilyExists => "the table has the column family",
        _ => "the table has no such column family",
    };
    Error::new(kind, what).with_source(error)
}

fn says_only_family(error: &Error) -> bool {
    error
        .remote()
        .is_some_and(|remote| remote.message.contains("only column family"))
}

fn not_done() -> Error {
    Error::new(ErrorKind::Server, "the table does not have the change")
}
