//! The first token of the server: what it offers.

use std::fmt;

/// The maximum size of a challenge (RFC 2831, 2.1.1).
const MAX_CHALLENGE: usize = 2048;
/// The maximum size of a wrapped message if the server names none.
const DEFAULT_MAX_BUFFER: u32 = 65_536;

/// Why a challenge or the token after it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// A token is too long.
    #[error("a token has {0} bytes, and {MAX_CHALLENGE} are the most that are accepted")]
    TooLong(usize),
    /// A token has another syntax.
    #[error("a token is not a list of directives")]
    Syntax,
    /// A directive is missing.
    #[error("a challenge has no {0}")]
    Missing(&'static str),
    /// A directive is there more than once.
    #[error("a challenge has more than one {0}")]
    Repeated(&'static str),
    /// The value of a directive is invalid.
    #[error("a challenge has an invalid {0}")]
    Invalid(&'static str),
}

/// The protection of the messages after the authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Qop {
    /// Messages are sent as they are.
    Authentication,
    /// Messages have a sum.
    Integrity,
    /// Messages are encrypted too.
    Privacy,
}

impl Qop {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Authentication => "auth",
            Self::Integrity => "auth-int",
            Self::Privacy => "auth-conf",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        [Self::Authentication, Self::Integrity, Self::Privacy]
            .into_iter()
            .find(|qop| qop.name().eq_ignore_ascii_case(name))
    }
}

/// A cipher of messages. Weaker ones of the standard are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CipherName {
    /// Triple DES with two keys.
    TripleDes,
    /// RC4 with a key of 128 bits.
    Rc4,
}

impl CipherName {
    /// All ciphers, the best one first.
    const ALL: [Self; 2] = [Self::TripleDes, Self::Rc4];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TripleDes => "3des",
            Self::Rc4 => "rc4",
        }
    }
}

/// What a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(super) realm: String,
    pub(super) nonce: String,
    qops: Vec<Qop>,
    ciphers: Vec<String>,
    /// The maximum size of a wrapped message to the server.
    pub(crate) max_buffer: u32,
}

impl Challenge {
    /// Decodes a challenge.
    pub(crate) fn decode(token: &[u8]) -> Result<Self, DigestError> {
        let directives = directives(token)?;
        let optional = |name| single(&directives, name);
        let list = |name| -> Result<Vec<&str>, DigestError> {
            let value = optional(name)?.unwrap_or_default();
            Ok(value
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .collect())
        };
        let nonce = optional("nonce")?.ok_or(DigestError::Missing("nonce"))?;
        match optional("algorithm")? {
            Some(algorithm) if algorithm.eq_ignore_ascii_case("md5-sess") => {}
            Some(_) => return Err(DigestError::Invalid("algorithm")),
            None => return Err(DigestError::Missing("algorithm")),
        }
        if optional("charset")?.is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
            return Err(DigestError::Invalid("charset"));
        }
        let max_buffer = match optional("maxbuf")? {
            Some(size) => size.parse().map_err(|_| DigestError::Invalid("maxbuf"))?,
            None => DEFAULT_MAX_BUFFER,
        };
        let mut qops: Vec<_> = list("qop")?.into_iter().filter_map(Qop::of_name).collect();
        if optional("qop")?.is_none() {
            qops.push(Qop::Authentication);
        }
        // A server may have several realms. One of HBase has one.
        let realm = directives.iter().find(|(name, _)| name == "realm");
        Ok(Self {
            realm: realm.map(|(_, realm)| realm.clone()).unwrap_or_default(),
            nonce: nonce.to_owned(),
            qops,
            ciphers: list("cipher")?.into_iter().map(str::to_ascii_lowercase).collect(),
            max_buffer,
        })
    }

    /// Returns whether the server offers this protection.
    pub(crate) fn offers(&self, qop: Qop) -> bool {
        self.qops.contains(&qop)
    }

    /// Returns the best cipher that both sides have.
    pub(crate) fn cipher(&self) -> Option<CipherName> {
        CipherName::ALL
            .into_iter()
            .find(|cipher| self.ciphers.iter().any(|offered| offered == cipher.name()))
    }
}

type Directive = (String, String);

/// Reads a list of `name=value`, where the value may be in quotes.
pub(super) fn directives(token: &[u8]) -> Result<Vec<Directive>, DigestError> {
    if token.len() > MAX_CHALLENGE {
        return Err(DigestError::TooLong(token.len()));
    }
    let text = std::str::from_utf8(token).map_err(|_| DigestError::Syntax)?;
    let is_gap = |c: char| c.is_ascii_whitespace() || c == ',';
    let mut directives = Vec::new();
    let mut rest = text.trim_start_matches(is_gap);
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').ok_or(DigestError::Syntax)?;
        let name = name.trim();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
            return Err(DigestError::Syntax);
        }
        let value = value.trim_start();
        let after;
        let value = match value.strip_prefix('"') {
            Some(quoted) => {
                let (value, behind) = unquote(quoted).ok_or(DigestError::Syntax)?;
                after = behind;
                value
            }
            None => {
                let end = value.find(is_gap).unwrap_or(value.len());
                after = &value[end..];
                value[..end].to_owned()
            }
        };
        directives.push((name.to_ascii_lowercase(), value));
        if !after.is_empty() && !after.starts_with(is_gap) {
            return Err(DigestError::Syntax);
        }
        rest = after.trim_start_matches(is_gap);
    }
    Ok(directives)
}

/// Returns the only value of a directive, or `None` if there is none.
pub(super) fn single<'a>(
    directives: &'a [Directive],
    name: &'static str,
) -> Result<Option<&'a str>, DigestError> {
    let mut values = directives.iter().filter(|directive| directive.0 == name);
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => Err(DigestError::Repeated(name)),
        (value, _) => Ok(value.map(|(_, value)| value.as_str())),
    }
}

/// Reads up to the closing quote, and returns the rest behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// A value in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The challenge of HBase 2.6.4.
    const HBASE: &str = r#"realm="default",nonce="u2h8Ws2Ln9HV2y7kLxvzzNOqOLCsGUyxBbvjzVkZ",qop="auth,auth-int,auth-conf",charset=utf-8,cipher="3des,rc4,des,rc4-56,rc4-40",algorithm=md5-sess"#;

    #[test]
    fn the_challenge_of_hbase_is_read() {
        let challenge = Challenge::decode(HBASE.as_bytes()).unwrap();
        assert_eq!(challenge.realm, "default");
        assert_eq!(challenge.nonce, "u2h8Ws2Ln9HV2y7kLxvzzNOqOLCsGUyxBbvjzVkZ");
        for qop in [Qop::Authentication, Qop::Integrity, Qop::Privacy] {
            assert!(challenge.offers(qop));
        }
        assert_eq!(challenge.cipher(), Some(CipherName::TripleDes));
        assert_eq!(challenge.max_buffer, 65_536);
    }

    #[test]
    fn spaces_cases_and_unknown_directives_do_not_matter() {
        let text = " NONCE = \"a\\\"b\\\\\" ,, QOP=\"AUTH-INT , later\"\r\n,Algorithm=MD5-sess,x=\"y\",maxbuf=100,cipher=\"RC4,des\"";
        let challenge = Challenge::decode(text.as_bytes()).unwrap();
        assert_eq!(
            (challenge.nonce.as_str(), challenge.realm.as_str()),
            ("a\"b\\", "")
        );
        assert!(!challenge.offers(Qop::Authentication));
        assert_eq!(challenge.qops, [Qop::Integrity]);
        assert_eq!(challenge.cipher(), Some(CipherName::Rc4));
        assert_eq!(challenge.max_buffer, 100);
        let without_qop = Challenge::decode(b"nonce=a,algorithm=md5-sess").unwrap();
        assert_eq!(without_qop.qops, [Qop::Authentication]);
    }

    #[test]
    fn weak_ciphers_are_not_used() {
        let text = r#"nonce="a",algorithm=md5-sess,qop="auth-conf",cipher="des,rc4-56,rc4-40""#;
        assert_eq!(Challenge::decode(text.as_bytes()).unwrap().cipher(), None);
    }

    #[rstest]
    #[case("", DigestError::Missing("nonce"))]
    #[case("nonce=\"a\"", DigestError::Missing("algorithm"))]
    #[case("nonce=\"a\",algorithm=md5", DigestError::Invalid("algorithm"))]
    #[case("nonce=\"a\",nonce=\"b\",algorithm=md5-sess", DigestError::Repeated("nonce"))]
    #[case(
        "nonce=\"a\",algorithm=md5-sess,qop=auth,qop=auth",
        DigestError::Repeated("qop")
    )]
    #[case(
        "nonce=\"a\",algorithm=md5-sess,charset=latin-1",
        DigestError::Invalid("charset")
    )]
    #[case("nonce=\"a\",algorithm=md5-sess,maxbuf=-1", DigestError::Invalid("maxbuf"))]
    #[case(
        "nonce=\"a\",algorithm=md5-sess,maxbuf=99999999999",
        DigestError::Invalid("maxbuf")
    )]
    #[case("nonce=\"a", DigestError::Syntax)]
    #[case("nonce=\"a\\", DigestError::Syntax)]
    #[case("nonce=\"a\"b", DigestError::Syntax)]
    #[case("nonce", DigestError::Syntax)]
    #[case("=a", DigestError::Syntax)]
    #[case("no nce=a", DigestError::Syntax)]
    fn hostile_challenge_is_refused(#[case] text: &str, #[case] error: DigestError) {
        assert_eq!(Challenge::decode(text.as_bytes()), Err(error));
    }

    #[test]
    fn long_and_binary_challenges_are_refused() {
        let long = format!("{HBASE},x=\"{}\"", "y".repeat(MAX_CHALLENGE));
        assert_eq!(
            Challenge::decode(long.as_bytes()),
            Err(DigestError::TooLong(long.len()))
        );
        assert_eq!(Challenge::decode(b"nonce=\"\xff\""), Err(DigestError::Syntax));
    }

    proptest! {
        #[test]
        fn quoted_values_come_back(value: String) {
            let text = format!("a={}, b=c", Quoted(&value));
            prop_assume!(text.len() <= MAX_CHALLENGE);
            let read = directives(text.as_bytes()).unwrap();
            prop_assert_eq!(read, [("a".to_owned(), value), ("b".to_owned(), "c".to_owned())]);
        }
    }
}
