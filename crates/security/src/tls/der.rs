//! DER: the encoding of certificates, keys and PKCS12 files.

/// The bytes are not the expected DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the expected DER")]
pub(super) struct Malformed;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Returns the tag of a constructed element with a context-specific number.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A reader of elements that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tag of the next element.
    pub(super) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Reads the next element, and returns its tag and its contents.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (tag, rest) = self.0.split_first().ok_or(Malformed)?;
        let (first, rest) = rest.split_first().ok_or(Malformed)?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (length, rest) = rest
                    .split_at_checked(usize::from(first & 0x7f))
                    .ok_or(Malformed)?;
                let length = length
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            // The indefinite length of BER, and lengths of no file.
            _ => return Err(Malformed),
        };
        let (contents, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok((*tag, contents))
    }

    /// Reads the next element, which must have this tag, and returns its contents.
    pub(super) fn read(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.any()? {
            (found, contents) if found == tag => Ok(contents),
            _ => Err(Malformed),
        }
    }

    /// Reads the next element if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Malformed> {
        match self.peek() {
            Some(next) if next == tag => self.read(tag).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads an element that contains others.
    pub(super) fn enter(&mut self, tag: u8) -> Result<Self, Malformed> {
        self.read(tag).map(Self)
    }

    pub(super) fn sequence(&mut self) -> Result<Self, Malformed> {
        self.enter(SEQUENCE)
    }

    /// Reads a whole number of at most 32 bits that is not negative.
    pub(super) fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.read(INTEGER)?;
        match bytes {
            [0..=0x7f, ..] if bytes.len() <= 5 => {
                let number = bytes
                    .iter()
                    .fold(0, |number, byte| number << 8 | u64::from(*byte));
                u32::try_from(number).map_err(|_| Malformed)
            }
            _ => Err(Malformed),
        }
    }

    /// Reads the next element, and returns it with its tag and length.
    pub(super) fn whole(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.0;
        self.any()?;
        Ok(&before[..before.len() - self.0.len()])
    }
}

/// Encodes an element.
pub(super) fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let length: usize = contents.iter().map(|part| part.len()).sum();
    let bytes = length.to_be_bytes();
    let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let mut element = vec![tag];
    match length {
        0..=0x7f => element.push(length as u8),
        _ => {
            element.push(0x80 | significant.len() as u8);
            element.extend_from_slice(significant);
        }
    }
    element.extend(contents.iter().copied().flatten());
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_they_were_written() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let contents = vec![7; length];
            let mut bytes = element(OCTET_STRING, &[&contents[..length / 2], &contents[length / 2..]]);
            bytes.push(9);
            let mut der = Der::new(&bytes);
            assert_eq!(der.clone().read(OCTET_STRING).unwrap(), contents);
            assert_eq!(der.whole().unwrap().len(), bytes.len() - 1);
            assert_eq!(der.peek(), Some(9));
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        for bytes in [
            &b""[..],
            b"\x04",
            b"\x04\x02\x00",
            b"\x04\x80\x00\x00",
            b"\x04\x84\xff\xff\xff\xff\x00",
            b"\x04\x85\x00\x00\x00\x00\x01\x00",
            b"\x04\x82\x00",
        ] {
            assert_eq!(Der::new(bytes).any(), Err(Malformed), "{bytes:x?}");
        }
    }

    #[test]
    fn numbers_have_at_most_32_bits() {
        let number = |bytes: &[u8]| Der::new(&element(INTEGER, &[bytes])).number();
        assert_eq!(number(&[0]), Ok(0));
        assert_eq!(number(&[0x27, 0x10]), Ok(10_000));
        assert_eq!(number(&[0, 0xff, 0xff, 0xff, 0xff]), Ok(u32::MAX));
        for wrong in [
            &[][..],
            &[0x80],
            &[0, 1, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0],
            &[0xff; 9],
        ] {
            assert_eq!(number(wrong), Err(Malformed), "{wrong:x?}");
        }
    }
}
