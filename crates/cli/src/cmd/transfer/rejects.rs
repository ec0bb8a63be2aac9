//! The file of rejected lines.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{self, Path, PathBuf},
    str,
};

use hbase_txn::client::BytesBinary;
use serde::Serialize;

use super::{checkpoint::RejectsState, ledger::PendingLine};
use crate::{exit::Failure, output};

/// Rejected lines, in the order of the file. The file is created with the first one.
#[derive(Debug)]
pub(super) struct Rejects {
    path: PathBuf,
    /// The same path as the checkpoint records it.
    real_path: PathBuf,
    file: Option<BufWriter<File>>,
    size: u64,
}

/// A rejected line. The keys and their order are fixed.
#[derive(Serialize)]
struct RejectObject<'a> {
    line: u64,
    error: &'a str,
    /// The line, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The line in the notation of HBase's shell, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

impl Rejects {
    /// Continues behind the rejects of an earlier run, and removes those that it wrote afterwards. Without
    /// an earlier run removes those of another import.
    pub(super) fn open(path: PathBuf, before: Option<&RejectsState>) -> Result<Self, Failure> {
        let real_path = real(&path).map_err(|error| refused(&path, &error))?;
        match before.filter(|before| before.file == real_path) {
            None => Self::new(path, real_path),
            Some(before) => Self::resume(path, real_path, before.size),
        }
    }

    fn new(path: PathBuf, real_path: PathBuf) -> Result<Self, Failure> {
        let emptied = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            // If it can't be created, the first reject would be too late to notice that.
            _ => File::create_new(&path).and_then(|_| fs::remove_file(&path)),
        };
        emptied.map_err(|error| refused(&path, &error))?;
        Ok(Self {
            path,
            real_path,
            file: None,
            size: 0,
        })
    }

    fn resume(path: PathBuf, real_path: PathBuf, size: u64) -> Result<Self, Failure> {
        let open = || {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            let size = size.min(file.metadata()?.len());
            file.set_len(size)?;
            Ok((file, size))
        };
        let (file, size) = open().map_err(|error| refused(&path, &error))?;
        Ok(Self {
            path,
            real_path,
            file: Some(BufWriter::new(file)),
            size,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line that was rejected.
    pub(super) fn add(&mut self, line: &PendingLine, why: &str) -> Result<(), Failure> {
        let text = line.text.as_deref();
        let utf8 = text.and_then(|text| str::from_utf8(text).ok());
        let object = RejectObject {
            line: line.number,
            error: why,
            text: utf8,
            bytes: text
                .filter(|_| utf8.is_none())
                .map(|text| BytesBinary(text).to_string()),
        };
        let mut text = serde_json::to_string(&object).map_err(io::Error::from)?;
        text.push('\n');
        let written = self.file().and_then(|file| file.write_all(text.as_bytes()));
        written.map_err(|error| refused(&self.path, &error))?;
        self.size += text.len() as u64;
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(File::create(&self.path)?),
        };
        Ok(self.file.insert(file))
    }

    /// Writes all rejects to the disk, and returns the state of the file, if there is one.
    pub(super) fn flush(&mut self) -> Result<Option<RejectsState>, Failure> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        let flushed = file.flush().and_then(|()| file.get_ref().sync_data());
        flushed.map_err(|error| refused(&self.path, &error))?;
        Ok(Some(RejectsState {
            file: self.real_path.clone(),
            size: self.size,
        }))
    }
}

/// Returns the one spelling of a path, which the next run may spell otherwise, in another folder.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    let path = path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Ok(path),
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("writing {}: {}", path.display(), output::plain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::{input_lines::InputLine, transfer::ledger::Ledger};

    fn reject(rejects: &mut Rejects, number: u64, text: &[u8]) {
        let mut ledger = Ledger::default();
        let line = InputLine {
            number,
            end: 0,
            text: Ok(text.to_vec()),
        };
        ledger.add(line, 0);
        rejects.add(&ledger.take_done(0).unwrap(), "why").unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_created_is_refused_before_the_first_reject() {
        let folder = tempfile::tempdir().unwrap();
        // Root may write to a folder without permissions, but no name has 300 bytes.
        let path = folder.path().join("r".repeat(300));
        let refusal = Rejects::open(path, None).unwrap_err().to_string();
        assert!(refusal.contains("writing"), "{refusal}");
    }

    #[test]
    fn resumed_file_has_each_reject_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejects");
        fs::write(&path, "of another import").unwrap();
        let mut rejects = Rejects::open(path.clone(), None).unwrap();
        assert!(!path.exists());
        assert_eq!(rejects.flush().unwrap(), None);
        reject(&mut rejects, 1, b"a");
        let recorded = rejects.flush().unwrap();
        reject(&mut rejects, 2, b"b");
        rejects.flush().unwrap();
        let name = folder.path().file_name().unwrap();
        let spelt_otherwise = folder.path().join("..").join(name).join("rejects");
        let mut rejects = Rejects::open(spelt_otherwise, recorded.as_ref()).unwrap();
        reject(&mut rejects, 2, b"\xff");
        rejects.flush().unwrap();
        let expected = "{\"line\":1,\"error\":\"why\",\"text\":\"a\"}\n\
                        {\"line\":2,\"error\":\"why\",\"bytes\":\"\\\\xFF\"}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);

        let other = folder.path().join("other");
        fs::write(&other, "of another import").unwrap();
        Rejects::open(other.clone(), recorded.as_ref()).unwrap();
        assert!(!other.exists());
    }
}
