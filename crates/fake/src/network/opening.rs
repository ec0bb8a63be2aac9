//! The opening of a connection: the preamble and the connection header.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use hbase_protocol as pb;
use prost::Message;

use super::frame::{attributes, is_canonical};
use crate::{
    cluster::{ServerIndex, Service},
    exception::Exception,
};

/// The length of a preamble.
pub(super) const PREAMBLE: usize = 6;
const MAGIC: &[u8] = b"HBas";
const VERSION: u8 = 0;
/// The authentication method of a connection without authentication.
const SIMPLE: u8 = 80;
/// The methods with SASL: Kerberos and delegation tokens.
const SASL: [u8; 2] = [81, 82];

/// What a preamble asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Preamble {
    Calls,
    /// `Regist`: the id of the cluster.
    ClusterId,
    /// `Securi`: the principal of the server.
    Principal,
    /// The server answers with the exception, and closes the connection.
    Bad(Exception),
}

/// Reads a preamble. `is_known` says whether the release has the preambles `Regist` and `Securi`.
pub(super) fn preamble(bytes: [u8; PREAMBLE], is_known: bool) -> Preamble {
    match &bytes {
        b"Regist" if is_known => return Preamble::ClusterId,
        b"Securi" if is_known => return Preamble::Principal,
        _ => {}
    }
    let [magic @ .., version, method] = bytes;
    if magic != MAGIC {
        return Preamble::Bad(Exception::new(
            "ipc.FatalConnectionException",
            format!(
                "Expected HEADER=HBas but received HEADER={}",
                magic.escape_ascii()
            ),
        ));
    }
    let versions = format!("serverVersion={VERSION}, clientVersion={version}, authMethod={method}");
    if version != VERSION {
        return Preamble::Bad(Exception::new("ipc.WrongVersionException", versions));
    }
    if SASL.contains(&method) {
        return Preamble::Bad(fatal(&Exception::not_modelled(format_args!(
            "the authentication method {method}"
        ))));
    }
    if method != SIMPLE {
        let message = format!("{versions}, authName=unknown");
        return Preamble::Bad(Exception::new("ipc.BadAuthException", message));
    }
    Preamble::Calls
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionId {
    pub(super) number: u64,
    pub(super) server: ServerIndex,
}

/// What all calls of a connection have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) user: Arc<str>,
    pub(super) service: Service,
    pub(super) has_codec: bool,
    pub(super) tags: bool,
    pub(super) attributes: BTreeMap<String, Bytes>,
}

/// The reason why a connection header is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// HBase throws it in the decoder, and closes the connection without an answer
    /// (`NettyRpcServerRequestDecoder.exceptionCaught`).
    Silent(String),
    /// Something that is not modelled. The server reports it before it closes the connection.
    Reported(Exception),
}

/// Reads a connection header.
pub(super) fn header(frame: &Bytes) -> Result<Opened, Rejection> {
    let silent = |reason: String| Rejection::Silent(reason);
    let refuse = |what: String| Rejection::Reported(fatal(&Exception::not_modelled(what)));
    let header = pb::ConnectionHeader::decode(frame.clone())
        .map_err(|error| silent(format!("unreadable connection header: {error}")))?;
    if !is_canonical(&header, frame) {
        return Err(refuse("a field of ConnectionHeader".to_owned()));
    }
    let pb::ConnectionHeader {
        user_info,
        service_name,
        cell_block_codec_class,
        cell_block_compressor_class,
        version_info,
        rpc_crypto_cipher_transformation,
        attribute,
    } = header;
    let service_name = service_name.unwrap_or_default();
    let service = Service::from_name(&service_name)
        .ok_or_else(|| silent(format!("UnknownServiceException: {service_name}")))?;
    let codec = match cell_block_codec_class.as_deref() {
        None => None,
        Some("org.apache.hadoop.hbase.codec.KeyValueCodec") => Some(false),
        Some("org.apache.hadoop.hbase.codec.KeyValueCodecWithTags") => Some(true),
        Some(class) if class.starts_with("org.apache.hadoop.hbase.codec.") => {
            return Err(refuse(format!("the codec {class}")));
        }
        Some(class) => return Err(silent(format!("UnsupportedCellCodecException: {class}"))),
    };
    if let Some(class) = cell_block_compressor_class {
        return Err(refuse(format!("the compressor {class}")));
    }
    if let Some(cipher) = rpc_crypto_cipher_transformation {
        return Err(refuse(format!("the cipher {cipher}")));
    }
    let Some(pb::UserInformation {
        effective_user,
        real_user,
    }) = user_info
    else {
        return Err(refuse("a connection without a user".to_owned()));
    };
    if real_user.is_some() {
        return Err(refuse("users that act for other users".to_owned()));
    }
    // Servers treat clients before 2.0 and clients without a version differently.
    if version_info.is_none_or(|version| major(&version) < 2) {
        return Err(refuse("clients before 2.0 or without a version".to_owned()));
    }
    Ok(Opened {
        user: effective_user.into(),
        service,
        has_codec: codec.is_some(),
        tags: codec == Some(true),
        attributes: attributes(attribute),
    })
}

fn major(version: &pb::VersionInfo) -> u32 {
    let text = || version.version.split('.').next()?.parse().ok();
    version.version_major.or_else(text).unwrap_or(0)
}

/// Returns the exception as one about the connection.
fn fatal(exception: &Exception) -> Exception {
    Exception::new("ipc.FatalConnectionException", exception.message.clone())
}
