//! The connection header: the client's description of itself, sent once per connection.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::{
    cell_block::Codec,
    compression::Compression,
    pb,
    preamble::{AuthMethod, preamble},
};

/// The service of a connection. A connection is bound to one service, so the same server may need
/// several connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Service {
    /// Reads and writes of rows, on region servers.
    Client,
    /// Maintenance of regions, on region servers.
    Admin,
    /// Tables and regions, on the active master.
    Master,
    /// The RPC registry: the locations of `hbase:meta` and the active master.
    ClientMeta,
}

impl Service {
    /// Returns the short name of the service on the server.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "ClientService",
            Self::Admin => "AdminService",
            Self::Master => "MasterService",
            Self::ClientMeta => "ClientMetaService",
        }
    }
}

/// Returns the preamble and the connection header in one piece: some servers are slow with pieces.
///
/// The server does not answer it; requests may follow in the same write.
pub(crate) fn opening(
    service: Service,
    codec: Codec,
    compression: Option<Compression>,
    effective_user: &str,
) -> Bytes {
    let header = header(service, codec, compression, effective_user).encode_to_vec();
    let preamble = preamble(AuthMethod::Simple);
    let mut out = BytesMut::with_capacity(preamble.len() + 4 + header.len());
    out.put_slice(&preamble);
    // Unlike the parts of later frames, the header has a fixed-width length instead of a varint.
    out.put_i32(i32::try_from(header.len()).unwrap_or(i32::MAX));
    out.put_slice(&header);
    out.freeze()
}

fn header(
    service: Service,
    codec: Codec,
    compression: Option<Compression>,
    effective_user: &str,
) -> pb::ConnectionHeader {
    pb::ConnectionHeader {
        user_info: Some(pb::UserInformation {
            effective_user: effective_user.to_owned(),
            real_user: None,
        }),
        service_name: Some(service.name().to_owned()),
        cell_block_codec_class: Some(codec.class().to_owned()),
        cell_block_compressor_class: compression.map(|compression| compression.class().to_owned()),
        version_info: Some(version_info()),
        ..pb::ConnectionHeader::default()
    }
}

/// Without a version the server answers as to a client before 1.2: with inline cells, other
/// exceptions and blocking calls. It reads only the two numbers.
fn version_info() -> pb::VersionInfo {
    pb::VersionInfo {
        version: "2.6.0".to_owned(),
        version_major: Some(2),
        version_minor: Some(6),
        ..pb::VersionInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let wanted = [
            b"HBas\x00\x50".as_slice(),
            // length: 7 + 15 + 45 + 23
            b"\x00\x00\x00\x5a",
            // 1 user_info { 1 effective_user }
            b"\x0a\x05\x0a\x03bob",
            // 2 service_name
            b"\x12\x0dClientService",
            // 3 cell_block_codec_class
            b"\x1a\x2borg.apache.hadoop.hbase.codec.KeyValueCodec",
            // 5 version_info { 1 version, 2 to 6 empty, 7 major, 8 minor }
            b"\x2a\x15\x0a\x052.6.0\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x02\x40\x06",
        ]
        .concat();
        assert_eq!(opening(Service::Client, Codec::KeyValue, None, "bob"), wanted);
    }

    #[test]
    fn names_the_service_the_codec_and_the_user() {
        for (service, name) in [
            (Service::Client, "ClientService"),
            (Service::Admin, "AdminService"),
            (Service::Master, "MasterService"),
            (Service::ClientMeta, "ClientMetaService"),
        ] {
            let opening = opening(service, Codec::KeyValueWithTags, None, "Zoë");
            let header = pb::ConnectionHeader::decode(&opening[10..]).unwrap();
            assert_eq!(header.service_name(), name);
            assert_eq!(
                header.cell_block_codec_class(),
                "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags"
            );
            assert_eq!(header.user_info.unwrap().effective_user, "Zoë");
        }
    }
}
