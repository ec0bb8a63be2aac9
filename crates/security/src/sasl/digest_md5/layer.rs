//! The protection of messages after the authentication (RFC 2831, 2.3 and 2.4).

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::{
    challenge::{CipherName, Qop},
    cipher::Cipher,
};
use crate::sasl::hmac_md5::{SUM, is_equal, sum};

/// The version and the number behind a message and its sum.
const TRAILER: usize = 6;
/// The maximum difference between the size of a wrapped message and its contents.
const OVERHEAD: u32 = 26;
/// The maximum size of a wrapped message.
const MAX_BUFFER: u32 = 65_536;
const VERSION: [u8; 2] = [0, 1];

/// Why a message of the server is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayerError {
    #[error("a wrapped message is too short")]
    TooShort,
    #[error("a message was altered, repeated or left out")]
    Altered,
}

/// The keys and the numbers of messages in both directions.
pub(crate) struct Layer {
    sent: Direction,
    received: Direction,
    max_message: usize,
}

/// One direction.
struct Direction {
    sum_key: [u8; 16],
    cipher: Option<Cipher>,
    number: u32,
}

impl Layer {
    /// Creates the layer of a client. Returns `None` if messages are not protected.
    pub(crate) fn new(
        session_key: &[u8; 16],
        qop: Qop,
        cipher: Option<CipherName>,
        max_buffer: u32,
    ) -> Option<Self> {
        if qop == Qop::Authentication {
            return None;
        }
        let direction = |path: &str| {
            let key = |what: &str| {
                let text = format!("{what} magic constant");
                md5::compute([&session_key[..], text.as_bytes()].concat()).0
            };
            Direction {
                sum_key: key(&format!("Digest session key to {path} signing key")),
                cipher: cipher
                    .map(|name| Cipher::new(name, key(&format!("Digest H(A1) to {path} sealing key")))),
                number: 0,
            }
        };
        Some(Self {
            sent: direction("client-to-server"),
            received: direction("server-to-client"),
            // A message is copied and sealed in one step, so it is not as large as a server may allow.
            max_message: max_buffer.min(MAX_BUFFER).saturating_sub(OVERHEAD).max(1) as usize,
        })
    }

    /// Returns whether messages are encrypted.
    pub(crate) fn is_private(&self) -> bool {
        self.sent.cipher.is_some()
    }

    /// Returns the maximum size of a message before it is wrapped.
    pub(crate) fn max_message(&self) -> usize {
        self.max_message
    }

    /// Protects a message to the server.
    pub(crate) fn wrap(&mut self, message: &[u8]) -> Bytes {
        let sum = self.sent.sum(message);
        let number = self.sent.next_number();
        let mut out = BytesMut::with_capacity(message.len() + OVERHEAD as usize);
        out.extend_from_slice(message);
        if let Some(cipher) = &mut self.sent.cipher {
            let padding = cipher.padding(message.len() + SUM);
            out.resize(message.len() + padding, padding as u8);
            out.extend_from_slice(&sum);
            cipher.encrypt(&mut out);
        } else {
            out.extend_from_slice(&sum);
        }
        out.extend_from_slice(&VERSION);
        out.extend_from_slice(&number);
        out.freeze()
    }

    /// Checks and reads a message of the server. After an error no other message can be read.
    pub(crate) fn unwrap(&mut self, mut wrapped: BytesMut) -> Result<Bytes, LayerError> {
        let direction = &mut self.received;
        let Some(end) = wrapped.len().checked_sub(TRAILER) else {
            return Err(LayerError::TooShort);
        };
        let trailer = wrapped.split_off(end);
        let mut length = end.checked_sub(SUM).ok_or(LayerError::TooShort)?;
        if let Some(cipher) = &mut direction.cipher {
            if !cipher.decrypt(&mut wrapped) {
                return Err(LayerError::Altered);
            }
            if cipher.pads() {
                let padding = length.checked_sub(1).map_or(0, |last| usize::from(wrapped[last]));
                if !(1..=8).contains(&padding) {
                    return Err(LayerError::Altered);
                }
                length = length.checked_sub(padding).ok_or(LayerError::Altered)?;
            }
        }
        let sum = wrapped.split_off(end - SUM);
        wrapped.truncate(length);
        let expected = direction.sum(&wrapped);
        let number = direction.next_number();
        if !is_equal(&expected, &sum) || trailer != [&VERSION[..], &number].concat() {
            return Err(LayerError::Altered);
        }
        Ok(wrapped.freeze())
    }
}

impl Direction {
    /// Returns the sum of the next message.
    fn sum(&self, message: &[u8]) -> [u8; SUM] {
        sum(&self.sum_key, &[&self.number.to_be_bytes(), message])
    }

    fn next_number(&mut self) -> [u8; 4] {
        let number = self.number.to_be_bytes();
        self.number = self.number.wrapping_add(1);
        number
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer")
            .field("is_private", &self.is_private())
            .field("sent", &self.sent.number)
            .field("received", &self.received.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use rstest::rstest;

    use super::{
        super::{
            answer::{Answer, Login},
            challenge::{Challenge, directives, single},
        },
        *,
    };

    const KEY: [u8; 16] = *b"a session key...";

    /// A client, and a server that has its directions the other way round.
    fn sides(cipher: Option<CipherName>) -> (Layer, Layer) {
        let side = || {
            let qop = match cipher {
                Some(_) => Qop::Privacy,
                None => Qop::Integrity,
            };
            Layer::new(&KEY, qop, cipher, 65_536).unwrap()
        };
        let (client, mut server) = (side(), side());
        std::mem::swap(&mut server.sent, &mut server.received);
        (client, server)
    }

    fn mutable(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[rstest]
    fn flipped_bits_and_repeated_messages_are_refused(
        #[values(None, Some(CipherName::TripleDes), Some(CipherName::Rc4))] cipher: Option<CipherName>,
    ) {
        let (mut client, mut server) = sides(cipher);
        let wrapped = client.wrap(b"message");
        for bit in 0..wrapped.len() * 8 {
            let (_, mut server) = sides(cipher);
            let mut altered = mutable(&wrapped);
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(server.unwrap(altered), Err(LayerError::Altered), "bit {bit}");
        }
        assert_eq!(server.unwrap(mutable(&wrapped)).unwrap(), "message");
        server.unwrap(mutable(&wrapped)).unwrap_err();
        let (_, mut server) = sides(cipher);
        let second = client.wrap(b"second");
        server.unwrap(mutable(&second)).unwrap_err();
        let mut own = sides(cipher).0;
        own.unwrap(mutable(&wrapped)).unwrap_err();
    }

    #[rstest]
    fn cut_messages_are_refused(
        #[values(None, Some(CipherName::TripleDes), Some(CipherName::Rc4))] cipher: Option<CipherName>,
    ) {
        let wrapped = sides(cipher).0.wrap(b"");
        for length in 0..wrapped.len() {
            sides(cipher).1.unwrap(mutable(&wrapped[..length])).unwrap_err();
        }
    }

    /// Exchanges of the JDK with itself, by `tests/java/fixtures/DigestTranscripts.java`.
    #[test]
    fn java_sends_and_reads_the_same_bytes() {
        let mut seen = Vec::new();
        for line in include_str!("transcripts.tsv").lines() {
            let (qop, rest) = line.split_once('\t').unwrap();
            let parts: Vec<_> = rest.split('\t').map(bytes_of_hex).collect();
            let challenge = Challenge::decode(&parts[0]).unwrap();
            let sent = directives(&parts[1]).unwrap();
            let client_nonce = single(&sent, "cnonce").unwrap().unwrap();
            let qops = [Qop::Authentication, Qop::Integrity, Qop::Privacy];
            let qop = qops.into_iter().find(|known| known.name() == qop).unwrap();
            assert!(challenge.offers(qop));
            let cipher = match single(&sent, "cipher").unwrap() {
                Some("rc4") => Some(CipherName::Rc4),
                Some(_) => challenge.cipher(),
                None => None,
            };
            let login = Login {
                username: "AAAAJggAEhBhbGljZQ==",
                password: "c2VjcmV0",
                digest_uri: "null/default",
            };
            let answer = Answer::new(&challenge, login, client_nonce, qop, cipher);
            assert_eq!(answer.token, parts[1]);
            assert_eq!(answer.is_proven_by(&parts[2]), Ok(true));
            let layer = Layer::new(&answer.session_key, qop, cipher, challenge.max_buffer);
            if let Some(mut layer) = layer {
                let messages = ["first", "second message"];
                for (message, wrapped) in messages.into_iter().zip(&parts[3..5]) {
                    assert_eq!(layer.wrap(message.as_bytes()), wrapped);
                }
                for (message, wrapped) in messages.into_iter().zip(&parts[5..7]) {
                    assert_eq!(layer.unwrap(mutable(wrapped)).unwrap(), message);
                }
            }
            seen.push((qop, cipher));
        }
        let [triple_des, rc4] = [CipherName::TripleDes, CipherName::Rc4].map(Some);
        let protections = [
            (Qop::Authentication, None),
            (Qop::Integrity, None),
            (Qop::Privacy, triple_des),
            (Qop::Privacy, rc4),
        ];
        assert_eq!(seen, protections);
    }

    fn bytes_of_hex(text: &str) -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn nothing_of_a_layer_is_printed() {
        let text = format!("{:?}", sides(Some(CipherName::Rc4)).0);
        assert_eq!(text, "Layer { is_private: true, sent: 0, received: 0, .. }");
    }

    #[test]
    fn messages_fit_into_the_buffer_of_the_server() {
        for cipher in [None, Some(CipherName::TripleDes), Some(CipherName::Rc4)] {
            for max_buffer in [40, 41, 47, 65_536] {
                let mut layer = Layer::new(&KEY, Qop::Privacy, cipher, max_buffer).unwrap();
                let longest = vec![0; layer.max_message()];
                assert!(layer.wrap(&longest).len() <= max_buffer as usize);
            }
        }
        assert!(Layer::new(&KEY, Qop::Authentication, None, 1).is_none());
    }

    proptest! {
        #[test]
        fn messages_come_back(
            messages in vec(vec(any::<u8>(), 0..100), 1..10),
            cipher in prop_oneof![
                Just(None),
                Just(Some(CipherName::TripleDes)),
                Just(Some(CipherName::Rc4)),
            ],
        ) {
            let (mut client, mut server) = sides(cipher);
            for message in messages {
                let wrapped = client.wrap(&message);
                prop_assert_eq!(&server.unwrap(mutable(&wrapped)).unwrap(), &message);
                let wrapped = server.wrap(&message);
                prop_assert_eq!(&client.unwrap(mutable(&wrapped)).unwrap(), &message);
            }
        }

        #[test]
        fn arbitrary_messages_are_refused(
            wrapped in vec(any::<u8>(), 0..200),
            cipher in prop_oneof![Just(None), Just(Some(CipherName::TripleDes))],
        ) {
            sides(cipher).0.unwrap(mutable(&wrapped)).unwrap_err();
        }
    }
}
