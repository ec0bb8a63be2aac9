//! The encryption of messages. Each direction has a cipher, which continues from message to message.

use des::{
    TdesEde2,
    cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit},
};
use rc4::{Rc4, StreamCipher};

use super::challenge::CipherName;

const BLOCK: usize = 8;

/// A cipher of one direction.
pub(super) enum Cipher {
    /// Triple DES with two keys, whose blocks are chained.
    TripleDes {
        keys: TdesEde2,
        previous: [u8; BLOCK],
    },
    Rc4(Rc4),
}

impl Cipher {
    /// Creates a cipher from its 16 bytes of key.
    pub(super) fn new(name: CipherName, key: [u8; 16]) -> Self {
        match name {
            CipherName::TripleDes => {
                let [first, second] = [0, 7].map(|at| spread(&key[at..at + 7]));
                let mut keys = [0; 16];
                keys[..BLOCK].copy_from_slice(&first);
                keys[BLOCK..].copy_from_slice(&second);
                let mut previous = [0; BLOCK];
                previous.copy_from_slice(&key[BLOCK..]);
                Self::TripleDes {
                    keys: TdesEde2::new(&keys.into()),
                    previous,
                }
            }
            CipherName::Rc4 => {
                let mut sized = [0; 32];
                sized[..16].copy_from_slice(&key);
                sized[16..].copy_from_slice(&key);
                // RC4 repeats a key up to 256 bytes, so this is the same as the key itself.
                Self::Rc4(Rc4::new(&sized.into()))
            }
        }
    }

    /// Returns the number of bytes of padding after a message with its sum.
    pub(super) fn padding(&self, length: usize) -> usize {
        match self {
            Self::TripleDes { .. } => BLOCK - length % BLOCK,
            Self::Rc4(_) => 0,
        }
    }

    /// Returns whether messages are padded.
    pub(super) fn pads(&self) -> bool {
        matches!(self, Self::TripleDes { .. })
    }

    /// Encrypts whole blocks in place.
    pub(super) fn encrypt(&mut self, bytes: &mut [u8]) {
        match self {
            Self::TripleDes { keys, previous } => {
                for block in bytes.as_chunks_mut::<BLOCK>().0 {
                    for (byte, previous) in block.iter_mut().zip(&*previous) {
                        *byte ^= previous;
                    }
                    let mut encrypted = (*block).into();
                    keys.encrypt_block(&mut encrypted);
                    *block = encrypted.into();
                    *previous = *block;
                }
            }
            Self::Rc4(rc4) => rc4.apply_keystream(bytes),
        }
    }

    /// Decrypts whole blocks in place. Returns `false` if they are not whole.
    pub(super) fn decrypt(&mut self, bytes: &mut [u8]) -> bool {
        match self {
            Self::TripleDes { keys, previous } => {
                let (blocks, rest) = bytes.as_chunks_mut::<BLOCK>();
                if !rest.is_empty() {
                    return false;
                }
                for block in blocks {
                    let encrypted = *block;
                    let mut decrypted = encrypted.into();
                    keys.decrypt_block(&mut decrypted);
                    *block = decrypted.into();
                    for (byte, previous) in block.iter_mut().zip(&*previous) {
                        *byte ^= previous;
                    }
                    *previous = encrypted;
                }
            }
            Self::Rc4(rc4) => rc4.apply_keystream(bytes),
        }
        true
    }
}

/// Spreads 56 bits over the upper seven bits of eight bytes, as a key of DES has them. The lowest bit,
/// a parity, is not used.
fn spread(bits: &[u8]) -> [u8; BLOCK] {
    let bits = bits.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    std::array::from_fn(|byte| ((bits >> (49 - 7 * byte)) as u8) << 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_bits_are_spread() {
        assert_eq!(spread(&[0xff; 7]), [0xfe; 8]);
        assert_eq!(spread(&[0x80, 0, 0, 0, 0, 0, 1]), [0x80, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(spread(&[1, 0, 0, 0, 0, 0, 0]), [0, 0x80, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn decryption_continues_from_message_to_message() {
        for name in [CipherName::TripleDes, CipherName::Rc4] {
            let key = std::array::from_fn(|byte| byte as u8 * 17);
            let (mut sender, mut receiver) = (Cipher::new(name, key), Cipher::new(name, key));
            let mut seen = Vec::new();
            for _ in 0..3 {
                let mut message = *b"sixteen bytes...";
                sender.encrypt(&mut message);
                assert!(!seen.contains(&message));
                seen.push(message);
                assert!(receiver.decrypt(&mut message));
                assert_eq!(&message, b"sixteen bytes...");
            }
        }
    }

    /// A vector of RFC 6229, for the key 0102…10.
    #[test]
    fn key_stream_of_rc4_is_that_of_the_standard() {
        let mut stream = [0; 16];
        Cipher::new(CipherName::Rc4, std::array::from_fn(|byte| byte as u8 + 1)).encrypt(&mut stream);
        assert_eq!(
            stream,
            0x9ac7_cc9a_609d_1ef7_b293_2899_cde4_1b97_u128.to_be_bytes()
        );
    }
}
