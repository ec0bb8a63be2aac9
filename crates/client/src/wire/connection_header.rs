//! The connection header: the client's description of itself, sent once per connection.

use bytes::{BufMut, Bytes, BytesMut};
use hbase_security::{AuthMethod, preamble};
use prost::Message;

use super::{cell_block::Codec, compression::Compression, convert, pb};

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
    /// Locks of names, on the active master.
    Lock,
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
            Self::Lock => "LockService",
            Self::ClientMeta => "ClientMetaService",
        }
    }
}

/// The client's description of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    pub(crate) service: Service,
    pub(crate) codec: Codec,
    pub(crate) compression: Option<Compression>,
    /// The user as whom the client acts. Without one it is the authenticated user.
    pub(crate) effective_user: Option<&'a str>,
    /// The cipher of all messages after the header, whose keys the server sends.
    pub(crate) cipher: Option<&'a str>,
    pub(crate) attributes: &'a [(String, Bytes)],
}

impl Header<'_> {
    /// Returns the preamble of SIMPLE authentication and the header in one piece: some servers are slow
    /// with pieces.
    ///
    /// The server does not answer it; requests may follow in the same write.
    pub(crate) fn opening(&self) -> Bytes {
        let mut out = BytesMut::from(&preamble(AuthMethod::Simple)[..]);
        self.put_framed(&mut out);
        out.freeze()
    }

    /// Returns the header with its length.
    pub(crate) fn framed(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.put_framed(&mut out);
        out.freeze()
    }

    fn put_framed(&self, out: &mut BytesMut) {
        let header = self.message().encode_to_vec();
        // Unlike the parts of later frames, the header has a fixed-width length instead of a varint.
        out.put_i32(i32::try_from(header.len()).unwrap_or(i32::MAX));
        out.put_slice(&header);
    }

    fn message(&self) -> pb::ConnectionHeader {
        pb::ConnectionHeader {
            user_info: self.effective_user.map(|user| pb::UserInformation {
                effective_user: user.to_owned(),
                real_user: None,
            }),
            service_name: Some(self.service.name().to_owned()),
            cell_block_codec_class: Some(self.codec.class().to_owned()),
            cell_block_compressor_class: self.compression.map(|compression| compression.class().to_owned()),
            version_info: Some(version_info()),
            rpc_crypto_cipher_transformation: self.cipher.map(str::to_owned),
            attribute: convert::header_attributes(self.attributes),
        }
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

    fn header(service: Service, codec: Codec, user: &str) -> Header<'_> {
        Header {
            service,
            codec,
            compression: None,
            effective_user: Some(user),
            cipher: None,
            attributes: &[],
        }
    }

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
        assert_eq!(header(Service::Client, Codec::KeyValue, "bob").opening(), wanted);
    }

    #[test]
    fn names_the_service_the_codec_and_the_user() {
        for (service, name) in [
            (Service::Client, "ClientService"),
            (Service::Admin, "AdminService"),
            (Service::Master, "MasterService"),
            (Service::Lock, "LockService"),
            (Service::ClientMeta, "ClientMetaService"),
        ] {
            let opening = header(service, Codec::KeyValueWithTags, "Zoë").opening();
            let header = pb::ConnectionHeader::decode(&opening[10..]).unwrap();
            assert_eq!(header.service_name(), name);
            assert_eq!(
                header.cell_block_codec_class(),
                "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags"
            );
            assert_eq!(header.user_info.unwrap().effective_user, "Zoë");
        }
    }

    #[test]
    fn authenticated_header_has_no_preamble_and_no_user() {
        let header = Header {
            effective_user: None,
            cipher: Some("AES/CTR/NoPadding"),
            ..header(Service::Client, Codec::KeyValue, "bob")
        };
        let framed = header.framed();
        let read = pb::ConnectionHeader::decode(&framed[4..]).unwrap();
        assert_eq!(read.user_info, None);
        assert_eq!(read.rpc_crypto_cipher_transformation(), "AES/CTR/NoPadding");
    }
}
