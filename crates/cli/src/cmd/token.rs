//! `hbase-txn token`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hbase_txn::{
    Error,
    client::{Connection, DelegationToken, TokenFile, TokenFileFormat},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Obtain delegation tokens, and show those of a file
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(Get),
    Show(Show),
}

/// Obtain a delegation token with a Kerberos ticket, and write it to a file
///
/// Programs use the token if HADOOP_TOKEN_FILE_LOCATION names the file. Only its owner can read the file. The connection
/// must be encrypted, by TLS or by the protection privacy.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn token get app.token")]
struct Get {
    /// File to write, or to replace
    file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum, default_value = "writable")]
    format: FileFormat,
    /// Obtain the token also over a connection without TLS and without the protection privacy
    #[arg(long)]
    allow_unencrypted: bool,
}

/// Show the tokens of a file without their passwords
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn token show app.token")]
struct Show {
    /// File to read; by default the one that HADOOP_TOKEN_FILE_LOCATION names
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileFormat {
    /// The format that all versions of Hadoop read
    Writable,
    /// The format of Hadoop 3
    Protobuf,
}

#[derive(Serialize)]
struct TokenObject<'a> {
    cluster_id: &'a str,
    user: &'a str,
    key_id: i32,
    sequence_number: i64,
    issued: String,
    expires: String,
}

impl Token {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Get(Get {
                file,
                format,
                allow_unencrypted,
            }) => {
                let config = global.config()?.with_unencrypted_tokens(allow_unencrypted);
                let connection = Connection::builder(config).connect().await?;
                let token = connection.delegation_token().await?;
                let format = match format {
                    FileFormat::Writable => TokenFileFormat::Writable,
                    FileFormat::Protobuf => TokenFileFormat::Protobuf,
                };
                let tokens = TokenFile::new([token]);
                tokens.write(file, format)?;
                print(global, tokens.tokens())?;
            }
            Action::Show(Show { file }) => {
                let file = match file {
                    Some(file) => Some(TokenFile::read(file)?),
                    None => TokenFile::from_env()?,
                };
                let none = || Error::invalid("no file is named, and HADOOP_TOKEN_FILE_LOCATION is not set");
                print(global, file.ok_or_else(none)?.tokens())?;
            }
        }
        Ok(Exit::Done)
    }
}

fn print(global: &Global, tokens: &[DelegationToken]) -> Result<(), Failure> {
    let time = |time| Timestamp::try_from(time).map_or_else(|_| "-".to_owned(), |time| time.to_string());
    if global.output == Format::Table {
        let rows = tokens.iter().map(|token| {
            [
                token.cluster_id().to_owned(),
                token.user().to_owned(),
                time(token.issued()),
                time(token.expires()),
            ]
        });
        output::page(&output::table(["cluster id", "user", "issued", "expires"], rows))?;
        return Ok(());
    }
    for token in tokens {
        output::json(&TokenObject {
            cluster_id: token.cluster_id(),
            user: token.user(),
            key_id: token.key_id(),
            sequence_number: token.sequence_number(),
            issued: time(token.issued()),
            expires: time(token.expires()),
        })?;
    }
    Ok(())
}
