//! The contents of a znode: a stored message, with or without the id of its writer.

use bytes::{Buf, Bytes};
use prost::Message;

use super::magic::{MagicError, decode_stored};

/// The first byte of a znode that contains the id of its writer.
const WRITER_FOLLOWS: u8 = 0xff;

/// Why a znode does not contain the expected message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZnodeError {
    #[error("the id of the writer has the length {0}, which is not there")]
    Writer(i32),
    #[error("the stored bytes end too early")]
    Truncated,
    #[error(transparent)]
    Stored(#[from] MagicError),
}

/// Reads the message in a znode, with or without its writer's id.
pub(crate) fn decode_znode<M: Message + Default>(mut data: Bytes) -> Result<M, ZnodeError> {
    if data.first() == Some(&WRITER_FOLLOWS) {
        data.advance(1);
        let announced = data.try_get_i32().map_err(|_| ZnodeError::Truncated)?;
        match usize::try_from(announced) {
            Ok(len) if len <= data.len() => data.advance(len),
            _ => return Err(ZnodeError::Writer(announced)),
        }
    }
    Ok(decode_stored(data)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::pb;

    fn cluster_id(data: &'static [u8]) -> Result<String, ZnodeError> {
        decode_znode::<pb::ClusterId>(Bytes::from_static(data)).map(|found| found.cluster_id)
    }

    #[test]
    fn a_znode_is_read_with_and_without_its_writer() {
        assert_eq!(
            cluster_id(b"\xff\x00\x00\x00\x03abcPBUF\x0a\x02id").unwrap(),
            "id"
        );
        assert_eq!(cluster_id(b"\xff\x00\x00\x00\x00PBUF\x0a\x02id").unwrap(), "id");
        assert_eq!(cluster_id(b"PBUF\x0a\x02id").unwrap(), "id");
    }

    #[test]
    fn hostile_znodes_are_refused_by_name() {
        for (data, wanted) in [
            (b"".as_slice(), "the stored bytes do not begin with PBUF"),
            (b"PBU", "the stored bytes do not begin with PBUF"),
            (b"bare text", "the stored bytes do not begin with PBUF"),
            (b"\xff\x00\x00\x00", "the stored bytes end too early"),
            (
                b"\xff\x00\x00\x00\x09PBUF",
                "the id of the writer has the length 9,",
            ),
            (
                b"\xff\xff\xff\xff\xffPBUF",
                "the id of the writer has the length -1,",
            ),
            (
                b"\xff\x7f\xff\xff\xffPBUF",
                "the id of the writer has the length 2147483647,",
            ),
            (
                b"\xff\x00\x00\x00\x01aPBU",
                "the stored bytes do not begin with PBUF",
            ),
            (b"PBUF\x0a\x09id", "the stored message can't be read:"),
        ] {
            let found = cluster_id(data).unwrap_err().to_string();
            assert!(found.starts_with(wanted), "{data:x?}: {found}");
        }
    }

    /// The data of `/hbase/master` in ZooKeeper 3.8.4, by HBase 2.6.
    #[test]
    fn the_master_is_read_as_hbase_writes_it() {
        const MASTER: &[u8] =
            b"\xff\0\0\0\x14master:23464\xbf\x72\xdf\xeb\x72\xa1\x87\x72PBUF\x0a\x16\x0a\x09127.0.0.1\
            \x10\xa8\xb7\x01\x18\xfd\xfa\xed\xb5\xa1\x34\x10\0\x18\xff\xff\xff\xff\x0f";
        let master: pb::Master = decode_znode(MASTER.into()).unwrap();
        assert_eq!(master.master.port, Some(23464));
    }

    proptest! {
        #[test]
        fn the_writer_does_not_matter(writer: Vec<u8>, id: String) {
            let mut data = vec![0xff];
            data.extend_from_slice(&i32::try_from(writer.len()).unwrap().to_be_bytes());
            data.extend_from_slice(&writer);
            data.extend_from_slice(b"PBUF");
            pb::ClusterId { cluster_id: id.clone() }.encode(&mut data).unwrap();
            prop_assert_eq!(decode_znode::<pb::ClusterId>(data.into()).unwrap().cluster_id, id);
        }
    }
}
