//! Entry points for the fuzz targets in `fuzz/`; not part of the API.

use bytes::Bytes;

use crate::frame;

/// A frame of ZooKeeper: its prefix, then an answer to the first request of a session, or a reply.
pub fn zookeeper_frame(data: &[u8]) {
    if let Some(prefix) = data.first_chunk()
        && let Ok(length) = frame::frame_length(*prefix)
    {
        assert!(length <= frame::MAX_FRAME);
    }
    let reply = Bytes::copy_from_slice(data.get(frame::PREFIX..).unwrap_or_default());
    let _ = frame::decode_connect_response(reply.clone());
    let xid = reply.first_chunk().map_or(0, |xid| i32::from_be_bytes(*xid));
    if let Ok(Ok(body)) = frame::decode_reply(reply, xid) {
        let _ = frame::decode_stat(&body);
        if let Ok(data) = frame::decode_data(body.clone()) {
            assert!(data.len() < body.len(), "more was read than there is");
        }
        if let Ok(Some(token)) = frame::decode_token(body.clone()) {
            assert!(token.len() < body.len(), "more was read than there is");
        }
    }
}
