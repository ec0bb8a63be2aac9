//! Messages encrypted by AES with keys of HBase (`hbase.rpc.crypto.encryption.aes.enabled`).
//!
//! A wrapped message is the encryption of the contents and their sum, and then the number of the
//! message. All messages of a direction share one key stream.

use std::{fmt, io};

use aes::Aes128;
use bytes::{BufMut, Bytes, BytesMut};
use ctr::{
    Ctr128BE,
    cipher::{KeyIvInit, StreamCipher},
};

use hbase_protocol as pb;

use super::{
    hmac_md5::{SUM, is_equal, sum},
    mechanism::SecurityLayer,
};
use crate::authentication_error::AuthenticationError;

/// The cipher, as the connection header names it.
pub(super) const CIPHER: &str = "AES/CTR/NoPadding";

/// The maximum size of the contents of a message.
const MAX_MESSAGE: usize = (64 << 10) - SUM - NUMBER;
/// The size of the number of a message.
const NUMBER: usize = 4;

/// Both directions of a connection.
pub(super) struct AesLayer {
    outgoing: Direction,
    incoming: Direction,
}

/// The key stream, the key of the sums, and the number of the next message.
struct Direction {
    cipher: Ctr128BE<Aes128>,
    key: [u8; 16],
    number: u32,
}

impl AesLayer {
    /// Creates the layer with the keys that the server sent, which it names from the client's view.
    pub(super) fn new(keys: &pb::CryptoCipherMeta) -> Result<Self, AuthenticationError> {
        if keys.transformation != CIPHER {
            return Err(AuthenticationError::BadCipher(
                "keys for a cipher that is not supported",
            ));
        }
        Ok(Self {
            outgoing: Direction::new(keys.out_key(), keys.out_iv())?,
            incoming: Direction::new(keys.in_key(), keys.in_iv())?,
        })
    }
}

impl Direction {
    fn new(key: &[u8], iv: &[u8]) -> Result<Self, AuthenticationError> {
        let block = |bytes: &[u8]| {
            <[u8; 16]>::try_from(bytes)
                .map_err(|_| AuthenticationError::BadCipher("keys for AES that do not have 128 bits"))
        };
        let (key, iv) = (block(key)?, block(iv)?);
        Ok(Self {
            cipher: Ctr128BE::new(&key.into(), &iv.into()),
            key,
            number: 0,
        })
    }

    /// Encrypts or decrypts.
    fn apply(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.cipher
            .try_apply_keystream(bytes)
            .map_err(|_| io::Error::other("the key of the connection is used up"))
    }
}

impl SecurityLayer for AesLayer {
    fn is_private(&self) -> bool {
        true
    }

    fn max_message(&self) -> usize {
        MAX_MESSAGE
    }

    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes> {
        let direction = &mut self.outgoing;
        let number = direction.number.to_be_bytes();
        direction.number = direction.number.wrapping_add(1);
        let mut out = BytesMut::with_capacity(message.len() + SUM + NUMBER);
        out.put_slice(message);
        out.put_slice(&sum(&direction.key, &[&number, message]));
        direction.apply(&mut out)?;
        out.put_slice(&number);
        Ok(out.freeze())
    }

    fn unwrap(&mut self, mut wrapped: BytesMut) -> io::Result<Bytes> {
        let untrusted = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a message was altered or repeated, or others before it are missing",
            )
        };
        let direction = &mut self.incoming;
        let number = direction.number.to_be_bytes();
        direction.number = direction.number.wrapping_add(1);
        let len = wrapped.len().checked_sub(SUM + NUMBER).ok_or_else(untrusted)?;
        if wrapped.split_off(len + SUM) != number[..] {
            return Err(untrusted());
        }
        direction.apply(&mut wrapped)?;
        let found = wrapped.split_off(len);
        if is_equal(&sum(&direction.key, &[&number, &wrapped]), &found) {
            Ok(wrapped.freeze())
        } else {
            Err(untrusted())
        }
    }
}

impl fmt::Debug for AesLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesLayer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> pb::CryptoCipherMeta {
        let bytes = |start: u8| Some((start..start + 16).collect::<Vec<u8>>().into());
        pb::CryptoCipherMeta {
            transformation: CIPHER.into(),
            in_key: bytes(0),
            in_iv: bytes(16),
            out_key: bytes(32),
            out_iv: bytes(48),
        }
    }

    /// The layers of both sides of a connection.
    fn pair() -> (AesLayer, AesLayer) {
        let ours = keys();
        let theirs = pb::CryptoCipherMeta {
            transformation: CIPHER.into(),
            in_key: ours.out_key.clone(),
            in_iv: ours.out_iv.clone(),
            out_key: ours.in_key.clone(),
            out_iv: ours.in_iv.clone(),
        };
        (AesLayer::new(&ours).unwrap(), AesLayer::new(&theirs).unwrap())
    }

    #[test]
    fn messages_of_both_directions_are_read() {
        let (mut ours, mut theirs) = pair();
        for message in [&b"abc"[..], b"", &[7; MAX_MESSAGE]] {
            for _ in 0..2 {
                let wrapped = ours.wrap(message).unwrap();
                assert_eq!(wrapped.len(), message.len() + SUM + NUMBER);
                assert_eq!(theirs.unwrap(BytesMut::from(&wrapped[..])).unwrap(), message);
                (ours, theirs) = (theirs, ours);
            }
        }
    }

    /// The key stream is that of NIST SP 800-38A, F.5.1.
    #[test]
    fn contents_are_encrypted_by_aes_in_counter_mode() {
        let hex = |text: &str| -> Bytes {
            let bytes = text.as_bytes().chunks(2);
            bytes
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        };
        let keys = pb::CryptoCipherMeta {
            out_key: Some(hex("2b7e151628aed2a6abf7158809cf4f3c")),
            out_iv: Some(hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")),
            ..keys()
        };
        let message = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let wrapped = AesLayer::new(&keys).unwrap().wrap(&message).unwrap();
        let expected = hex("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff");
        assert_eq!(wrapped[..32], expected);
        assert_eq!(wrapped[wrapped.len() - NUMBER..], [0; 4]);
    }

    #[test]
    fn altered_repeated_or_missing_message_is_refused() {
        let (mut ours, _) = pair();
        let first = ours.wrap(b"abc").unwrap();
        let second = ours.wrap(b"def").unwrap();
        for at in 0..first.len() {
            let mut altered = BytesMut::from(&first[..]);
            altered[at] ^= 1;
            pair().1.unwrap(altered).unwrap_err();
        }
        for wrong in [
            &second[..],
            &first[..first.len() - 1],
            b"",
            &[0; SUM + NUMBER - 1],
        ] {
            pair().1.unwrap(BytesMut::from(wrong)).unwrap_err();
        }
        let (_, mut theirs) = pair();
        theirs.unwrap(BytesMut::from(&first[..])).unwrap();
        theirs.unwrap(BytesMut::from(&first[..])).unwrap_err();
    }

    #[test]
    fn other_ciphers_and_sizes_of_keys_are_refused() {
        let cbc = pb::CryptoCipherMeta {
            transformation: "AES/CBC/NoPadding".into(),
            ..keys()
        };
        let long = pb::CryptoCipherMeta {
            in_key: Some(vec![0; 32].into()),
            ..keys()
        };
        for keys in [cbc, long] {
            let error = AesLayer::new(&keys).unwrap_err();
            assert!(matches!(error, AuthenticationError::BadCipher(_)), "{error}");
        }
    }
}
