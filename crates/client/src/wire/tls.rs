//! The parts of TLS that distinguish it from HBase's protocol.

/// The number of bytes of an answer that distinguish them.
pub(crate) const BEGINNING: usize = 3;

const ALERT: u8 = 0x15;
const HANDSHAKE: u8 = 0x16;

/// Returns whether the first bytes of a server are the beginning of a TLS record: an alert or a
/// handshake, of SSL 3.0 to TLS 1.3. No frame of HBase's is that long.
pub(crate) fn is_answer(bytes: &[u8]) -> bool {
    matches!(bytes, [ALERT | HANDSHAKE, 3, 0..=4, ..])
}

/// Returns a `ClientHello` that any TLS server answers, if only with an alert.
pub(crate) fn client_hello() -> Vec<u8> {
    // TLS 1.2, 32 random bytes without significance, no session, common cipher suites, no
    // compression.
    let suites = [0xc02f_u16, 0xc030, 0xc02b, 0xc02c, 0x009c, 0x009d, 0x002f, 0x0035];
    let mut body = vec![3, 3];
    body.extend([0x48; 32]);
    body.push(0);
    body.extend([0, 2 * suites.len() as u8]);
    body.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
    body.extend([1, 0]);
    let length = body.len() as u8;
    [&[HANDSHAKE, 3, 1, 0, length + 4, 1, 0, 0, length], &body[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hello_is_a_record_of_its_length() {
        let hello = client_hello();
        assert_eq!(usize::from(hello[4]), hello.len() - 5);
        assert_eq!(usize::from(hello[8]), hello.len() - 9);
        assert!(is_answer(&hello));
    }

    #[test]
    fn alerts_and_handshakes_are_told_from_frames() {
        assert!(is_answer(b"\x15\x03\x03\x00\x02\x02\x28"));
        assert!(is_answer(b"\x16\x03\x01"));
        for other in [
            &b"\x00\x00\x00\x15"[..],
            b"\x15\x03",
            b"",
            b"HTTP/1.1",
            b"\x15\x03\x05",
        ] {
            assert!(!is_answer(other), "{other:?}");
        }
    }
}
