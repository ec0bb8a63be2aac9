//! The prefix of messages that HBase stores in ZooKeeper and in `hbase:meta`.

use bytes::{Buf, Bytes};
use prost::Message;

/// Precedes every stored message except the table states of `hbase:meta`.
const MAGIC: &[u8] = b"PBUF";

/// Why stored bytes are not the expected message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MagicError {
    #[error("the stored bytes do not begin with PBUF")]
    NoMagic,
    #[error("the stored message can't be read: {0}")]
    Malformed(#[source] prost::DecodeError),
}

/// Reads a message after `PBUF`: a value of `hbase:meta`.
pub(crate) fn decode_stored<M: Message + Default>(bytes: Bytes) -> Result<M, MagicError> {
    M::decode(strip_magic(bytes)?).map_err(MagicError::Malformed)
}

fn strip_magic(mut bytes: Bytes) -> Result<Bytes, MagicError> {
    if !bytes.starts_with(MAGIC) {
        return Err(MagicError::NoMagic);
    }
    bytes.advance(MAGIC.len());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pb;

    #[test]
    fn a_value_of_meta_has_no_writer() {
        let region = pb::RegionInfo {
            region_id: 5,
            start_key: Some("a".into()),
            ..Default::default()
        };
        let mut value = b"PBUF".to_vec();
        region.encode(&mut value).unwrap();
        assert_eq!(
            decode_stored::<pb::RegionInfo>(value.clone().into()).unwrap(),
            region
        );
        value.splice(0..0, *b"\xff\x00\x00\x00\x00");
        assert!(matches!(
            decode_stored::<pb::RegionInfo>(value.into()),
            Err(MagicError::NoMagic)
        ));
    }
}
