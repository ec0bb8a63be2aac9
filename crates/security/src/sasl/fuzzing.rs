//! Entry points for the fuzz targets of SASL and tokens.

use bytes::BytesMut;
use hbase_protocol as pb;
use prost::Message;

use super::{
    digest_md5::{
        answer::{Answer, Login},
        challenge::{Challenge, Qop},
        layer::Layer,
    },
    messages::{Reply, decode_reply, take_wrapped},
};

/// Small, so that a message above the limit is found soon.
const LIMIT: usize = 1 << 16;

/// The messages of a server that authenticates the client, and then wrapped ones.
pub fn sasl(data: &[u8]) {
    let mut buf = BytesMut::from(data);
    while let Ok(Some(reply)) = decode_reply(&mut buf) {
        match reply {
            Reply::Token(token) => assert!(token.len() <= data.len(), "more was read than there is"),
            Reply::Error(_) | Reply::UseSimple => {}
            Reply::Frame => return,
        }
    }
    while let Ok(Some(wrapped)) = take_wrapped(&mut buf, LIMIT) {
        assert!(wrapped.len() <= LIMIT, "more was read than is accepted");
        let _ = pb::ConnectionHeaderResponse::decode(&wrapped[..]);
    }
}

/// The challenge of a server to a delegation token, and the messages of a layer after it.
pub fn digest_challenge(data: &[u8]) {
    let Ok(challenge) = Challenge::decode(data) else {
        return;
    };
    let login = Login {
        username: "user",
        password: "password",
        digest_uri: "null/default",
    };
    let cipher = challenge.cipher();
    let answer = Answer::new(&challenge, login, "nonce", Qop::Privacy, cipher);
    assert_ne!(answer.is_proven_by(data), Ok(true), "a challenge is no proof");
    if let Some(mut layer) = Layer::new(&answer.session_key, Qop::Privacy, cipher, challenge.max_buffer) {
        assert!(layer.max_message() > 0);
        assert!(layer.unwrap(data.into()).is_err(), "a forged message was read");
    }
}
