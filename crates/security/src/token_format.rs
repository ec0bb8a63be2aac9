//! Delegation tokens, as servers issue them and files contain them.

use bytes::{Buf, Bytes};
use hbase_protocol as pb;
use prost::Message;

use crate::delegation_token::DelegationToken;

/// The kind of HBase's tokens in files.
pub(crate) const KIND: &str = "HBASE_AUTH_TOKEN";

/// The maximum sizes of the identifier and the password, which are sent as texts of two thirds more.
const MAX_IDENTIFIER: usize = 1 << 10;
const MAX_PASSWORD: usize = 1 << 10;
/// Times are milliseconds of at most 48 bits, until the year 10889.
const MAX_TIME: u64 = 1 << 48;

/// Why bytes are not a token of HBase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The identifier is too long.
    #[error("its identifier has {0} bytes, and {MAX_IDENTIFIER} are the most that are accepted")]
    IdentifierTooLong(usize),
    /// The password is empty or too long.
    #[error("its password has {0} bytes, and 1 to {MAX_PASSWORD} are accepted")]
    Password(usize),
    /// The identifier is not the message of a token.
    #[error("its identifier cannot be read")]
    Identifier,
    /// The service is not the id of a cluster.
    #[error("its service is not the id of a cluster")]
    Service,
}

/// Reads a token from its parts: the identifier, the password, and the id of the cluster as the service.
///
/// # Errors
///
/// Returns an error if they are not those of a token of HBase.
pub fn decode_token(
    identifier: Bytes,
    password: Bytes,
    service: &[u8],
) -> Result<DelegationToken, TokenError> {
    if identifier.len() > MAX_IDENTIFIER {
        return Err(TokenError::IdentifierTooLong(identifier.len()));
    }
    if !(1..=MAX_PASSWORD).contains(&password.len()) {
        return Err(TokenError::Password(password.len()));
    }
    let cluster_id = std::str::from_utf8(service).map_err(|_| TokenError::Service)?;
    if cluster_id.is_empty() || cluster_id.chars().any(char::is_control) {
        return Err(TokenError::Service);
    }
    let mut message = identifier.clone();
    let length = message.try_get_i32().map_err(|_| TokenError::Identifier)?;
    if usize::try_from(length) != Ok(message.len()) {
        return Err(TokenError::Identifier);
    }
    let message = pb::TokenIdentifier::decode(message).map_err(|_| TokenError::Identifier)?;
    let user = std::str::from_utf8(&message.username).map_err(|_| TokenError::Identifier)?;
    if user.is_empty() || user.chars().any(char::is_control) {
        return Err(TokenError::Identifier);
    }
    let time = |millis: Option<i64>| match u64::try_from(millis.unwrap_or(0)) {
        Ok(millis) if millis < MAX_TIME => Ok(millis),
        _ => Err(TokenError::Identifier),
    };
    Ok(DelegationToken {
        cluster_id: cluster_id.to_owned(),
        user: user.to_owned(),
        key_id: message.key_id,
        sequence_number: message.sequence_number.unwrap_or(0),
        issue_date: time(message.issue_date)?,
        expiration_date: time(message.expiration_date)?,
        identifier,
        password,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use rstest::rstest;

    use super::*;

    /// Returns a token of alice, which is valid from 1 s to 2 s after 1970.
    pub(crate) fn token_of(cluster_id: &str) -> DelegationToken {
        decode_token(identifier(), "password".into(), cluster_id.as_bytes()).unwrap()
    }

    fn identifier() -> Bytes {
        let message = pb::TokenIdentifier {
            kind: 0,
            username: "alice@R".into(),
            key_id: 3,
            issue_date: Some(1_000),
            expiration_date: Some(2_000),
            sequence_number: Some(7),
        };
        let message = message.encode_to_vec();
        [&(message.len() as i32).to_be_bytes()[..], &message]
            .concat()
            .into()
    }

    #[test]
    fn identifier_is_decoded_and_the_password_never_printed() {
        let token = token_of("c-1");
        assert_eq!((token.cluster_id(), token.user()), ("c-1", "alice@R"));
        assert_eq!((token.key_id(), token.sequence_number()), (3, 7));
        let life = token.expires().duration_since(token.issued()).unwrap();
        assert_eq!(life.as_secs(), 1);
        let printed = format!("{token:?} {token:#?}");
        assert!(
            printed.contains("alice@R") && !printed.contains("password"),
            "{printed}"
        );
        assert!(!printed.contains("112, 97, 115"), "{printed}");
    }

    #[rstest]
    #[case(b"", TokenError::Identifier)]
    #[case(b"\0\0\0\x05\x08\0", TokenError::Identifier)]
    #[case(b"\xff\xff\xff\xff", TokenError::Identifier)]
    #[case(b"\0\0\0\x02\x12\x7f", TokenError::Identifier)]
    #[case(b"\0\0\0\x03\x12\x01\xff", TokenError::Identifier)]
    #[case(b"\0\0\0\x03\x12\x01\n", TokenError::Identifier)]
    #[case(b"\0\0\0\0", TokenError::Identifier)]
    #[case(
        b"\0\0\0\x0e\x12\x01a\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        TokenError::Identifier
    )]
    #[case(&[0; 1025], TokenError::IdentifierTooLong(1025))]
    fn hostile_identifier_is_refused(#[case] identifier: &'static [u8], #[case] error: TokenError) {
        let decoded = decode_token(Bytes::from_static(identifier), "p".into(), b"c");
        assert_eq!(decoded.unwrap_err(), error);
    }

    #[test]
    fn hostile_passwords_and_services_are_refused() {
        for length in [0, 1025] {
            let decoded = decode_token(identifier(), vec![0; length].into(), b"c");
            assert_eq!(decoded.unwrap_err(), TokenError::Password(length));
        }
        for service in [&b""[..], b"\xff", b"a\nb"] {
            let decoded = decode_token(identifier(), "p".into(), service);
            assert_eq!(decoded.unwrap_err(), TokenError::Service);
        }
    }
}
