//! The audit log of administrative changes: `--change-log`.
//!
//! Each change of the administration is a line of JSON before it is sent, and another one with the same
//! `id` when it has ended. A line without the other one is a change whose outcome this process did not
//! learn. A change whose first line can't be written is not sent.

use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use hbase_client::Error;
use hbase_txn::{
    admin::{AdminChange, ChangeLog},
    client::{BytesBinary, Config, Connection, TableDescriptor},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{exit::Failure, output};

/// The log of one process.
#[derive(Debug)]
pub(crate) struct ChangeFile {
    path: PathBuf,
    /// Open since the first change.
    file: OnceLock<File>,
    cluster: String,
    host: String,
    /// Known before the first change.
    user: OnceLock<String>,
}

#[derive(Serialize)]
struct Begins<'a> {
    time: String,
    event: &'static str,
    id: String,
    user: &'a str,
    host: &'a str,
    pid: u32,
    cluster: &'a str,
    command: Vec<String>,
    change: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<TableObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<TableObject>,
    /// What is changed, where no whole table says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
}

#[derive(Serialize)]
struct Ends {
    time: String,
    event: &'static str,
    id: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct TableObject {
    table: String,
    attributes: BTreeMap<String, String>,
    families: BTreeMap<String, BTreeMap<String, String>>,
}

impl ChangeFile {
    pub(crate) fn new(path: &Path, config: &Config) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            file: OnceLock::new(),
            cluster: config.address().to_string(),
            host: host(),
            user: OnceLock::new(),
        })
    }

    /// Learns the name by which the cluster knows the user.
    pub(crate) async fn identify(&self, connection: &Connection) -> Result<(), Failure> {
        let user = user(connection).await?;
        self.user.get_or_init(|| user);
        Ok(())
    }

    /// Opens the file for the first change. Only its owner can read it if it is new.
    fn opened(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&self.path)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Appends a line in one write, so that lines of several processes do not mix.
    fn append(&self, line: &impl Serialize) -> io::Result<()> {
        let mut line = output::json_text(line)?;
        line.push('\n');
        let mut file = self.opened()?;
        file.write_all(line.as_bytes())?;
        match file.sync_data() {
            // Not a file, but a pipe or a terminal.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}

impl ChangeLog for ChangeFile {
    fn begins(&self, change: &AdminChange<'_>) -> io::Result<()> {
        let line = Begins {
            time: now(),
            event: "begins",
            id: id(change),
            user: self.user.get().map_or("", String::as_str),
            host: &self.host,
            pid: process::id(),
            cluster: &self.cluster,
            command: env::args_os()
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            change: change.method,
            before: change.before.map(TableObject::of),
            after: change.after.map(TableObject::of),
            request: change.after.is_none().then(|| change.request()),
        };
        self.append(&line).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{}: {}", self.path.display(), output::plain(&error)),
            )
        })
    }

    fn ended(&self, change: &AdminChange<'_>, result: Result<(), &Error>) {
        let line = Ends {
            time: now(),
            event: "ends",
            id: id(change),
            result: match result {
                Ok(()) => "done",
                Err(error) if error.is_outcome_unknown() => "unknown",
                Err(_) => "failed",
            },
            error: result.err().map(ToString::to_string),
        };
        if let Err(error) = self.append(&line) {
            output::complain(&format!(
                "hbase-txn: the end of {} is missing in the log of changes {}: {}",
                change.method,
                self.path.display(),
                output::plain(&error)
            ));
        }
    }
}

impl TableObject {
    fn of(table: &TableDescriptor) -> Self {
        let attributes = |attributes: &BTreeMap<Bytes, Bytes>| {
            let texts = attributes.iter().map(|(key, value)| (text(key), text(value)));
            texts.collect()
        };
        let families = table.families.iter();
        Self {
            table: table.name.to_string(),
            attributes: attributes(&table.attributes),
            families: families
                .map(|family| (text(&family.name), attributes(&family.attributes)))
                .collect(),
        }
    }
}

/// Returns who makes a change now: time, user and host.
pub(crate) async fn signature(connection: &Connection) -> Result<String, Failure> {
    Ok(format!("{} {}@{}", now(), user(connection).await?, host()))
}

/// Returns the user of a connection as the cluster knows it.
pub(crate) async fn user(connection: &Connection) -> Result<String, Failure> {
    let config = connection.config();
    Ok(match config.kerberos() {
        Some(_) => connection.authenticated_user().await?.name,
        None => config.user().to_owned(),
    })
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn text(bytes: &Bytes) -> String {
    BytesBinary(bytes).to_string()
}

fn id(change: &AdminChange<'_>) -> String {
    format!("{:016x}", change.id)
}

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
