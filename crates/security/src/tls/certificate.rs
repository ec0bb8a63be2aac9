//! The parts of a certificate that its verification by rustls does not provide.

use std::collections::BTreeSet;

use super::der::{
    BIT_STRING, BOOLEAN, Der, INTEGER, Malformed, OCTET_STRING, OID, SEQUENCE, context, element,
};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `id-ecPublicKey`.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// `id-ce-basicConstraints` and `id-ce-keyUsage`.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// The tags of `issuerUniqueID` and `subjectUniqueID`.
const UNIQUE_IDS: [u8; 2] = [0x81, 0x82];
/// The version number of certificates with extensions.
const V3: u32 = 2;

/// What a certificate's key is for: bits of the first byte of `KeyUsage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Usage {
    /// Signing the handshakes of TLS: `digitalSignature`.
    Handshakes = 0x80,
    /// Signing other certificates: `keyCertSign`.
    Certificates = 0x04,
}

/// A certificate, as far as it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Certificate<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    /// The first and the last second of its validity, since 1970.
    validity: (i64, i64),
    /// The contents of `subjectPublicKey`, without the count of unused bits.
    public_key: &'a [u8],
    version: u32,
    /// Whether its extensions call it a certificate authority.
    is_authority: bool,
    /// The bits of its `KeyUsage`, or none if its key is for everything.
    usage: Option<u8>,
}

impl<'a> Certificate<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self, Malformed> {
        let mut certificate = Der::new(der).sequence()?.sequence()?;
        let version = match certificate.optional(context(0))? {
            Some(version) => Der::new(version).number()?,
            None => 0,
        };
        certificate.read(INTEGER)?; // serial number
        certificate.read(SEQUENCE)?; // signature algorithm
        let issuer = certificate.whole()?;
        let mut validity = certificate.sequence()?;
        let validity = (time(&mut validity)?, time(&mut validity)?);
        let subject = certificate.whole()?;
        let mut key = certificate.sequence()?;
        key.read(SEQUENCE)?; // algorithm
        let public_key = key.read(BIT_STRING)?.strip_prefix(&[0]).ok_or(Malformed)?;
        for unique_id in UNIQUE_IDS {
            certificate.optional(unique_id)?;
        }
        let mut read = Self {
            issuer,
            subject,
            validity,
            public_key,
            version,
            is_authority: false,
            usage: None,
        };
        if let Some(extensions) = certificate.optional(context(3))? {
            read.read_extensions(Der::new(extensions).sequence()?)?;
        }
        Ok(read)
    }

    fn read_extensions(&mut self, mut extensions: Der<'a>) -> Result<(), Malformed> {
        let mut names = BTreeSet::new();
        while !extensions.is_empty() {
            let mut extension = extensions.sequence()?;
            let name = extension.read(OID)?;
            if !names.insert(name) {
                return Err(Malformed);
            }
            extension.optional(BOOLEAN)?; // critical
            let mut value = Der::new(extension.read(OCTET_STRING)?);
            match name {
                BASIC_CONSTRAINTS => {
                    let authority = value.sequence()?.optional(BOOLEAN)?;
                    self.is_authority = authority.is_some_and(|value| value != [0]);
                }
                KEY_USAGE => {
                    let (_unused_bits, bits) = value.read(BIT_STRING)?.split_first().ok_or(Malformed)?;
                    self.usage = Some(bits.first().copied().unwrap_or(0));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it may have issued others, if it is trusted: it says that it is a certificate authority,
    /// or is of a version that has no means to say so.
    pub(super) fn may_issue(&self) -> bool {
        self.version < V3 || (self.is_authority && self.may_sign(Usage::Certificates))
    }

    /// Whether its key is for this.
    pub(super) fn may_sign(&self, what: Usage) -> bool {
        self.usage.is_none_or(|usage| usage & what as u8 != 0)
    }

    /// Whether this second, counted from 1970, is after its validity.
    pub(super) fn has_expired_at(&self, now: u64) -> bool {
        i64::try_from(now).is_ok_and(|now| now > self.validity.1)
    }

    /// Whether this second, counted from 1970, is before its validity.
    pub(super) fn is_not_yet_valid_at(&self, now: u64) -> bool {
        i64::try_from(now).is_ok_and(|now| now < self.validity.0)
    }

    /// Returns a private key in PKCS8 with the public key of the certificate in it, if it is an
    /// elliptic-curve key without one. Java leaves it out of all key stores, and ring needs it.
    pub(super) fn complete_ec_key(&self, pkcs8: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let mut info = Der::new(pkcs8).sequence()?;
        info.number()?; // version
        let algorithm = info.whole()?;
        if Der::new(algorithm).sequence()?.any()?.1 != EC_PUBLIC_KEY {
            return Ok(None);
        }
        let mut key = Der::new(info.read(OCTET_STRING)?).sequence()?;
        key.number()?; // version
        let private = key.read(OCTET_STRING)?;
        key.optional(context(0))?; // the curve, which the algorithm names too
        if key.peek() == Some(context(1)) {
            return Ok(None);
        }
        // An uncompressed point: 4, then two coordinates of the length of a private key.
        let length = self.public_key.len() / 2;
        let padding = vec![0; length.saturating_sub(private.len())];
        let point = element(BIT_STRING, &[&[0], self.public_key]);
        let key = element(
            SEQUENCE,
            &[
                &[INTEGER, 1, 1],
                &element(OCTET_STRING, &[&padding, private]),
                &element(context(1), &[&point]),
            ],
        );
        let info = [&[INTEGER, 1, 0], algorithm, &element(OCTET_STRING, &[&key])];
        Ok(Some(element(SEQUENCE, &info)))
    }
}

/// Reads a time, as seconds since 1970.
fn time(der: &mut Der<'_>) -> Result<i64, Malformed> {
    let (tag, text) = der.any()?;
    let digits = text.strip_suffix(b"Z").ok_or(Malformed)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (year + if year < 50 { 2000 } else { 1900 }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return Err(Malformed),
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return Err(Malformed);
    }
    // Years begin in March here, so that a leap day is the last of its year.
    let year = if month < 3 { year - 1 } else { year };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    /// The days from March of the year 0 to 1970.
    const EPOCH: i64 = 719_468;
    Ok(((days - EPOCH) * 24 + hour) * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(UTC_TIME, "700101000000Z", Ok(0))]
    #[case(UTC_TIME, "240229235959Z", Ok(1_709_251_199))]
    #[case(UTC_TIME, "491231235959Z", Ok(2_524_607_999))]
    #[case(UTC_TIME, "500101000000Z", Ok(-631_152_000))]
    #[case(GENERALIZED_TIME, "20500101000000Z", Ok(2_524_608_000))]
    #[case(GENERALIZED_TIME, "21260301123456Z", Ok(4_928_042_096))]
    #[case(GENERALIZED_TIME, "99991231235959Z", Ok(253_402_300_799))]
    #[case(UTC_TIME, "701301000000Z", Err(Malformed))]
    #[case(UTC_TIME, "7001010000Z", Err(Malformed))]
    #[case(UTC_TIME, "70010100000+Z", Err(Malformed))]
    #[case(GENERALIZED_TIME, "20500101000000+0100", Err(Malformed))]
    #[case(0x04, "700101000000Z", Err(Malformed))]
    fn times_are_read(#[case] tag: u8, #[case] text: &str, #[case] expected: Result<i64, Malformed>) {
        let bytes = element(tag, &[text.as_bytes()]);
        assert_eq!(time(&mut Der::new(&bytes)), expected);
    }
}
