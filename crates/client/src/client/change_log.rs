//! The audit log of administrative changes.

use std::{fmt, io, sync::Arc};

use crate::{error::Error, model::TableDescriptor};

/// An audit log of the changes that the administration (the crate `hbase-admin`) makes by a connection.
///
/// It receives each call to the master that changes the cluster, also those of the other crates of this
/// workspace. It does not receive calls to region servers and changes of rows: flushes, compactions,
/// visibility labels.
///
/// # Example
///
/// ```
/// use std::{io, sync::{Arc, Mutex}};
///
/// use hbase_admin::Admin;
/// use hbase_client::{AdminChange, ChangeLog, Connection, Error};
///
/// #[derive(Debug, Default)]
/// struct Lines(Mutex<Vec<String>>);
///
/// impl ChangeLog for Lines {
///     fn begins(&self, change: &AdminChange<'_>) -> io::Result<()> {
///         self.0.lock().unwrap().push(format!("{} begins", change.method));
///         Ok(())
///     }
///
///     fn ended(&self, change: &AdminChange<'_>, result: Result<(), &Error>) {
///         self.0.lock().unwrap().push(format!("{}: {}", change.method, result.is_ok()));
///     }
/// }
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// let lines = Arc::new(Lines::default());
/// # let builder = Connection::builder(hbase.config()).connector(hbase.connector());
/// # let builder = builder.environment(hbase.environment());
/// let connection = builder.change_log(Arc::clone(&lines)).connect().await?;
/// Admin::new(&connection).create_namespace("shop").await?;
/// assert_eq!(*lines.0.lock().unwrap(), ["CreateNamespace begins", "CreateNamespace: true"]);
/// # Ok(()) });
/// ```
pub trait ChangeLog: Send + Sync + fmt::Debug + 'static {
    /// Is called before a change is sent.
    ///
    /// # Errors
    ///
    /// The change is not sent, and fails with this error as its source.
    fn begins(&self, change: &AdminChange<'_>) -> io::Result<()>;

    /// Is called when the master has answered, and has finished if the change is a procedure. It is not
    /// called if the future of the change is dropped before.
    fn ended(&self, change: &AdminChange<'_>, result: Result<(), &Error>);
}

/// A [`ChangeLog`] can be shared by several connections.
impl<L: ChangeLog + ?Sized> ChangeLog for Arc<L> {
    fn begins(&self, change: &AdminChange<'_>) -> io::Result<()> {
        (**self).begins(change)
    }

    fn ended(&self, change: &AdminChange<'_>, result: Result<(), &Error>) {
        (**self).ended(change, result);
    }
}

/// A change of the cluster, for a [`ChangeLog`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AdminChange<'a> {
    /// A random number, the same when the change begins and ends.
    pub id: u64,
    /// HBase's name of the call to the master, such as `ModifyTable`.
    pub method: &'static str,
    /// The table before its descriptor is changed, or its rows are deleted.
    pub before: Option<&'a TableDescriptor>,
    /// The table as it is to be, if the call has a whole descriptor.
    pub after: Option<&'a TableDescriptor>,
    request: &'a (dyn fmt::Debug + Sync),
}

impl<'a> AdminChange<'a> {
    /// Creates a change that names no table.
    #[must_use]
    pub fn new(id: u64, method: &'static str, request: &'a (dyn fmt::Debug + Sync)) -> Self {
        Self {
            id,
            method,
            before: None,
            after: None,
            request,
        }
    }

    /// Returns the request as it is sent. Its form is for people, and may change.
    #[must_use]
    pub fn request(&self) -> String {
        format!("{:?}", self.request)
    }
}

impl fmt::Debug for AdminChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.method, self.request)
    }
}
