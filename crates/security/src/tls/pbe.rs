//! Encryption and integrity by a password: PKCS5 (RFC 8018) and PKCS12 (RFC 7292, appendix B).

use std::num::NonZeroU32;

use aes::cipher::{Array, BlockCipherDecrypt, BlockSizeUser, KeyInit};
use ring::{digest, hmac, pbkdf2};

use super::{
    contents::StoreError,
    der::{Der, INTEGER, OCTET_STRING, OID},
};

/// The maximum number of rounds of a key derivation; a hundred times that of Java, about a second.
const MAX_ROUNDS: u32 = 1_000_000;
/// The maximum length of a salt. OpenSSL and Java use 8 to 20 bytes.
const MAX_SALT: usize = 1 << 10;

// Object identifiers, by their bytes.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x07];
const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09];
const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0a];
const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0b];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02];
const AES_192_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x16];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a];
const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];
const SHA1_3DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03];
const SHA1_RC2_128: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x05];
const SHA1_RC2_40: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x06];
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const SHA512: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];

const MALFORMED: StoreError = StoreError::Malformed("PKCS12");

const fn unsupported(what: &'static str) -> StoreError {
    StoreError::Unsupported {
        what,
        instead: "convert the file with keytool -importkeystore -deststoretype PKCS12",
    }
}

/// Decrypts a key in PKCS8, with the algorithm before it.
pub(super) fn decrypt_key(encrypted: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    let mut info = Der::new(encrypted).sequence()?;
    let algorithm = info.sequence()?;
    decrypt(algorithm, info.read(OCTET_STRING)?, password)
}

/// Decrypts data. A wrong password is noticed if it makes the padding invalid.
pub(super) fn decrypt(mut algorithm: Der<'_>, data: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    if password.is_empty() {
        return Err(StoreError::NeedsPassword);
    }
    let oid = algorithm.read(OID)?;
    let mut parameters = algorithm.sequence()?;
    match oid {
        PBES2 => decrypt_pbes2(parameters, data, password),
        SHA1_3DES | SHA1_RC2_128 | SHA1_RC2_40 => {
            let salt = parameters.read(OCTET_STRING)?;
            let rounds = parameters.number()?;
            let derive = |id, length| {
                derive(
                    &digest::SHA1_FOR_LEGACY_USE_ONLY,
                    id,
                    password,
                    salt,
                    rounds,
                    length,
                )
            };
            let iv = derive(Purpose::Iv, 8)?;
            match oid {
                SHA1_3DES => cbc(&cipher::<des::TdesEde3>(&derive(Purpose::Key, 24)?)?, &iv, data),
                SHA1_RC2_128 => {
                    let rc2 = rc2::Rc2::new_with_eff_key_len(&derive(Purpose::Key, 16)?, 128);
                    cbc(&rc2, &iv, data)
                }
                _ => {
                    let rc2 = rc2::Rc2::new_with_eff_key_len(&derive(Purpose::Key, 5)?, 40);
                    cbc(&rc2, &iv, data)
                }
            }
        }
        _ => Err(unsupported("its encryption")),
    }
}

fn decrypt_pbes2(mut parameters: Der<'_>, data: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    let mut derivation = parameters.sequence()?;
    if derivation.read(OID)? != PBKDF2 {
        return Err(unsupported("its key derivation"));
    }
    let mut derivation = derivation.sequence()?;
    let salt = derivation.read(OCTET_STRING)?;
    let rounds = rounds(derivation.number()?)?;
    derivation.optional(INTEGER)?; // the length of the key, which the cipher determines
    let prf = if derivation.is_empty() {
        HMAC_SHA1
    } else {
        derivation.sequence()?.read(OID)?
    };
    let prf = match prf {
        HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
        HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
        HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
        HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return Err(unsupported("its key derivation")),
    };
    let mut encryption = parameters.sequence()?;
    let oid = encryption.read(OID)?;
    let length = match oid {
        AES_128_CBC => 16,
        AES_192_CBC | DES_EDE3_CBC => 24,
        AES_256_CBC => 32,
        _ => return Err(unsupported("its encryption")),
    };
    let iv = encryption.read(OCTET_STRING)?;
    let mut key = vec![0; length];
    pbkdf2::derive(prf, rounds, salt, password.as_bytes(), &mut key);
    match oid {
        AES_128_CBC => cbc(&cipher::<aes::Aes128>(&key)?, iv, data),
        AES_192_CBC => cbc(&cipher::<aes::Aes192>(&key)?, iv, data),
        AES_256_CBC => cbc(&cipher::<aes::Aes256>(&key)?, iv, data),
        _ => cbc(&cipher::<des::TdesEde3>(&key)?, iv, data),
    }
}

fn cipher<C: KeyInit>(key: &[u8]) -> Result<C, StoreError> {
    C::new_from_slice(key).map_err(|_| MALFORMED)
}

/// Decrypts in CBC mode, and removes the padding.
fn cbc<C: BlockCipherDecrypt + BlockSizeUser>(
    cipher: &C,
    iv: &[u8],
    data: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let size = C::block_size();
    if iv.len() != size || data.is_empty() || !data.len().is_multiple_of(size) {
        return Err(MALFORMED);
    }
    let mut plain = Vec::with_capacity(data.len());
    let mut previous = iv;
    for encrypted in data.chunks(size) {
        let mut block = Array::<u8, C::BlockSize>::try_from(encrypted).map_err(|_| MALFORMED)?;
        cipher.decrypt_block(&mut block);
        plain.extend(block.iter().zip(previous).map(|(byte, mask)| byte ^ mask));
        previous = encrypted;
    }
    let padding = usize::from(plain.last().copied().unwrap_or_default());
    let length = plain
        .len()
        .checked_sub(padding)
        .filter(|_| (1..=size).contains(&padding));
    match length {
        Some(length) if plain[length..].iter().all(|byte| usize::from(*byte) == padding) => {
            plain.truncate(length);
            Ok(plain)
        }
        _ => Err(StoreError::WrongPassword),
    }
}

/// Checks the integrity of a PKCS12 file by its `MacData`.
pub(super) fn check_integrity(mut mac: Der<'_>, data: &[u8], password: &str) -> Result<(), StoreError> {
    let mut info = mac.sequence()?;
    let (digest, hmac) = match info.sequence()?.read(OID)? {
        SHA1 => (
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        SHA256 => (&digest::SHA256, hmac::HMAC_SHA256),
        SHA384 => (&digest::SHA384, hmac::HMAC_SHA384),
        SHA512 => (&digest::SHA512, hmac::HMAC_SHA512),
        _ => return Err(unsupported("its integrity check")),
    };
    let expected = info.read(OCTET_STRING)?;
    let salt = mac.read(OCTET_STRING)?;
    let rounds = if mac.is_empty() { 1 } else { mac.number()? };
    let key = derive(digest, Purpose::Mac, password, salt, rounds, digest.output_len())?;
    hmac::verify(&hmac::Key::new(hmac, &key), data, expected).map_err(|_| StoreError::WrongPassword)
}

fn rounds(rounds: u32) -> Result<NonZeroU32, StoreError> {
    NonZeroU32::new(rounds)
        .filter(|rounds| rounds.get() <= MAX_ROUNDS)
        .ok_or(MALFORMED)
}

/// What PKCS12 derives from a password.
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Derives bytes from a password by the algorithm of PKCS12.
fn derive(
    digest: &'static digest::Algorithm,
    purpose: Purpose,
    password: &str,
    salt: &[u8],
    count: u32,
    length: usize,
) -> Result<Vec<u8>, StoreError> {
    let count = rounds(count)?;
    if salt.len() > MAX_SALT || password.len() > MAX_SALT {
        return Err(MALFORMED);
    }
    let block = digest.block_len();
    // UTF-16 with a terminating zero.
    let password: Vec<u8> = password
        .encode_utf16()
        .chain([0])
        .flat_map(u16::to_be_bytes)
        .collect();
    let filled = |bytes: &[u8]| -> Vec<u8> {
        let whole = bytes.len().next_multiple_of(block);
        bytes.iter().copied().cycle().take(whole).collect()
    };
    let mut input = [filled(salt), filled(&password)].concat();
    let mut derived = Vec::new();
    while derived.len() < length {
        let mut hash = digest::Context::new(digest);
        hash.update(&vec![purpose as u8; block]);
        hash.update(&input);
        let mut hash = hash.finish();
        for _ in 1..count.get() {
            hash = digest::digest(digest, hash.as_ref());
        }
        derived.extend_from_slice(hash.as_ref());
        for chunk in input.chunks_mut(block) {
            // Adds the hash, repeated to the length of a block, and one.
            let mut carry = 1;
            let repeated = (0..block).map(|at| hash.as_ref()[at % digest.output_len()]);
            for (byte, added) in chunk.iter_mut().rev().zip(repeated.rev()) {
                carry += u16::from(*byte) + u16::from(added);
                *byte = carry as u8;
                carry >>= 8;
            }
        }
    }
    derived.truncate(length);
    Ok(derived)
}
