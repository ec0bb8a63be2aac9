//! The first six bytes of a connection.

/// The authentication method of the client, which is the last byte of the preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthMethod {
    /// The user's name is in the connection header, and the server does not verify it.
    Simple = 80,
    /// SASL with the mechanism GSSAPI.
    Kerberos = 81,
    /// SASL with the mechanism DIGEST-MD5.
    Digest = 82,
}

/// Returns `HBas`, the version of the protocol (always 0), and the authentication method.
#[must_use]
pub const fn preamble(auth: AuthMethod) -> [u8; 6] {
    [b'H', b'B', b'a', b's', 0, auth as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_six_bytes_with_the_authentication_last() {
        assert_eq!(preamble(AuthMethod::Simple), [0x48, 0x42, 0x61, 0x73, 0x00, 0x50]);
        assert_eq!(preamble(AuthMethod::Kerberos)[5], 0x51);
    }
}
