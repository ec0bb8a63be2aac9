//! Files of delegation tokens.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use hbase_security::{
    DelegationToken, TokenFileError, TokenFileFormat, decode_token_file, encode_token_file, read_token_file,
};

use crate::error::{Error, ErrorKind, Result};

/// The environment variable that names the file of tokens.
const LOCATION: &str = "HADOOP_TOKEN_FILE_LOCATION";

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
        match read_token_file(path) {
            Ok(tokens) => Ok(Self { tokens }),
            Err(error) => Err(unusable(error).at_operation(format!("token file {}", path.display()))),
        }
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
        let tokens = decode_token_file(Bytes::copy_from_slice(bytes)).map_err(unusable)?;
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
        encode_token_file(&self.tokens, format)
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

/// Returns the error of a file that cannot be used.
fn unusable(error: TokenFileError) -> Error {
    match error {
        TokenFileError::Unreadable(error) => Error::invalid_config("cannot be read").with_source(error),
        TokenFileError::TooLarge => Error::invalid_config(error.to_string()),
        TokenFileError::Format(error) => Error::invalid_config("is not a file of tokens").with_source(error),
        TokenFileError::Token(error) => {
            Error::invalid_config("has an invalid token of HBase").with_source(error)
        }
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
pub(crate) mod tests {
    use hbase_security::decode_token;
    use prost::Message;

    use super::*;
    use crate::wire::pb;

    /// Returns a token of alice.
    pub(crate) fn token_of(cluster_id: &str) -> DelegationToken {
        let message = pb::TokenIdentifier {
            username: "alice@R".into(),
            ..pb::TokenIdentifier::default()
        };
        let message = message.encode_to_vec();
        let identifier = [&(message.len() as i32).to_be_bytes()[..], &message].concat();
        decode_token(identifier.into(), "password".into(), cluster_id.as_bytes()).unwrap()
    }

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
            // Hadoop writes the same bytes for this token alone.
            let alone = fs::read(corpus.join(format!("only_{name}"))).unwrap();
            assert_eq!(file.to_bytes(format), alone);
        }
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
