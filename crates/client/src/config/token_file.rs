//! Files of delegation tokens.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    error::{Error, ErrorKind, Result},
    model::DelegationToken,
    wire::{
        delegation_token::{KIND, decode_token},
        token_file::{StoredToken, TokenFileFormat, decode_token_file, encode_token_file},
    },
};

/// The environment variable that names the file of tokens.
const LOCATION: &str = "HADOOP_TOKEN_FILE_LOCATION";
/// The maximum size of a file.
const MAX_FILE: u64 = 16 << 20;

/// The delegation tokens of HBase in a file of Hadoop's tokens, which YARN, Spark and Oozie give to
/// their tasks.
///
/// # Example
///
/// ```
/// use hbase_client::{TokenFile, TokenFileFormat};
///
/// let file = TokenFile::default().to_bytes(TokenFileFormat::Writable);
/// assert!(TokenFile::from_bytes(&file).unwrap().tokens().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFile {
    tokens: Vec<DelegationToken>,
}

impl TokenFile {
    /// Creates a file of these tokens.
    #[must_use]
    pub fn new(tokens: impl IntoIterator<Item = DelegationToken>) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
        }
    }

    /// Reads a file of either format.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`](ErrorKind::InvalidConfig) if the file cannot be read, is not a file
    /// of tokens, or has an invalid token of HBase. Tokens of other services are skipped.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error: Error| error.at_operation(format!("token file {}", path.display()));
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| failed(Error::invalid_config("cannot be read").with_source(error)))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(failed(Error::invalid_config(format!(
                "has more than {MAX_FILE} bytes"
            ))));
        }
        Self::from_bytes(&bytes).map_err(failed)
    }

    /// Reads the file that the environment variable `HADOOP_TOKEN_FILE_LOCATION` names. Returns `None`
    /// if the variable is not set.
    ///
    /// # Errors
    ///
    /// Returns an error as [`read`](Self::read) does.
    pub fn from_env() -> Result<Option<Self>> {
        match Self::location() {
            Some(path) => Self::read(path)
                .map(Some)
                .map_err(|error| error.with_hint(format!("{LOCATION} names the file"))),
            None => Ok(None),
        }
    }

    /// Returns the file that the environment variable names.
    pub(super) fn location() -> Option<PathBuf> {
        let path = env::var_os(LOCATION)?;
        (!path.is_empty()).then(|| path.into())
    }

    /// Reads the contents of a file.
    ///
    /// # Errors
    ///
    /// Returns an error as [`read`](Self::read) does.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let stored = decode_token_file(Bytes::copy_from_slice(bytes))
            .map_err(|error| Error::invalid_config("is not a file of tokens").with_source(error))?;
        let mut tokens = Vec::new();
        for StoredToken {
            identifier,
            password,
            kind,
            service,
        } in stored
        {
            if kind == KIND {
                let token = decode_token(identifier, password, &service);
                tokens.push(token.map_err(|error| {
                    Error::invalid_config("has an invalid token of HBase").with_source(error)
                })?);
            }
        }
        Ok(Self { tokens })
    }

    /// Returns the tokens.
    #[must_use]
    pub fn tokens(&self) -> &[DelegationToken] {
        &self.tokens
    }

    /// Returns the contents of a file with these tokens. They contain the passwords.
    #[must_use]
    pub fn to_bytes(&self, format: TokenFileFormat) -> Bytes {
        let stored = |token: &DelegationToken| StoredToken {
            identifier: token.identifier.clone(),
            password: token.password.clone(),
            kind: KIND.into(),
            service: token.cluster_id.clone().into(),
        };
        let stored: Vec<_> = self.tokens.iter().map(stored).collect();
        encode_token_file(&stored, format).freeze()
    }

    /// Writes the file, which only its owner can read. An existing file is replaced as a whole.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ErrorKind::InvalidInput) if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, format: TokenFileFormat) -> Result<()> {
        let path = path.as_ref();
        replace(path, &self.to_bytes(format)).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "cannot be written")
                .with_source(error)
                .at_operation(format!("token file {}", path.display()))
        })
    }
}

/// Writes a new file for its owner alone, and gives it the name of the old one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{:016x}", fastrand::u64(..)));
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The error of the write is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::delegation_token::tests::token_of;

    #[test]
    fn written_file_is_read_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, "old").unwrap();
        let file = TokenFile::new([token_of("a"), token_of("b")]);
        for format in [TokenFileFormat::Writable, TokenFileFormat::Protobuf] {
            file.write(&path, format).unwrap();
            assert_eq!(TokenFile::read(&path).unwrap(), file);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let nowhere = folder.path().join("none/tokens");
        let error = file.write(&nowhere, TokenFileFormat::Writable).unwrap_err();
        assert!(error.to_string().contains("none/tokens"), "{error}");
    }

    /// Files of `tests/java/fixtures/TokenFiles.java`.
    #[test]
    fn files_are_those_of_hadoop() {
        let corpus = Path::new(env!("REPOSITORY")).join("fuzz/corpus/token_file");
        for (name, format) in [
            ("writable", TokenFileFormat::Writable),
            ("protobuf", TokenFileFormat::Protobuf),
        ] {
            let file = TokenFile::read(corpus.join(name)).unwrap();
            let [token] = file.tokens() else {
                panic!("{name}: {file:?}");
            };
            assert_eq!(
                (token.cluster_id(), token.user()),
                ("cluster-1", "alice@HBASE.TEST")
            );
            assert_eq!(token.key_id(), 3);
            let life = token.expires().duration_since(token.issued()).unwrap();
            assert_eq!(life.as_secs(), 7 * 24 * 60 * 60);
            assert_eq!(token.password, "a password of 20 b..");
            // Hadoop writes the same bytes for this token alone.
            let alone = fs::read(corpus.join(format!("only_{name}"))).unwrap();
            assert_eq!(file.to_bytes(format), alone);
        }
    }

    #[test]
    fn tokens_of_other_services_are_skipped() {
        let stored = |kind: &'static str| StoredToken {
            identifier: "not HBase's".into(),
            password: "p".into(),
            kind: kind.into(),
            service: "s".into(),
        };
        let other = encode_token_file(&[stored("HDFS_DELEGATION_TOKEN")], TokenFileFormat::Writable);
        assert!(TokenFile::from_bytes(&other).unwrap().tokens().is_empty());
        let broken = encode_token_file(&[stored(KIND)], TokenFileFormat::Writable);
        let error = TokenFile::from_bytes(&broken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(
            error
                .to_string()
                .contains("an invalid token of HBase: its identifier"),
            "{error}"
        );
    }

    #[test]
    fn unreadable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let missing = TokenFile::read(&path).unwrap_err();
        fs::write(&path, "<xml/>").unwrap();
        let other = TokenFile::read(&path).unwrap_err();
        for error in [&missing, &other] {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        assert!(other.to_string().contains("does not begin with HDTS"), "{other}");
    }
}
