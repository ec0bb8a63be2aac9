//! The answer of the client, and the proof of the server.

use super::challenge::{Challenge, CipherName, DigestError, Qop, Quoted, directives, single};

/// The maximum size of a wrapped message that the server may send. Servers of HBase do not keep to
/// it.
const MAX_BUFFER: u32 = 65_536;
/// What is hashed instead of the body of a message.
const NO_BODY: &str = ":00000000000000000000000000000000";
const NONCE_COUNT: &str = "00000001";

/// A user of DIGEST-MD5, in ASCII.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) username: &'a str,
    pub(crate) password: &'a str,
    /// The service and its host.
    pub(crate) digest_uri: &'a str,
}

/// An answer to a challenge.
pub(crate) struct Answer {
    /// The token to send.
    pub(crate) token: Vec<u8>,
    /// The value by which the server proves that it has the password too.
    proof: String,
    /// The key that those of a layer are derived from.
    pub(crate) session_key: [u8; 16],
}

impl Answer {
    /// Answers a challenge with a nonce of the client, which must be random.
    pub(crate) fn new(
        challenge: &Challenge,
        login: Login<'_>,
        client_nonce: &str,
        qop: Qop,
        cipher: Option<CipherName>,
    ) -> Self {
        let Login {
            username,
            password,
            digest_uri,
        } = login;
        let Challenge { realm, nonce, .. } = challenge;
        let secret = md5::compute(format!("{username}:{realm}:{password}"));
        let session_key =
            md5::compute([&secret[..], format!(":{nonce}:{client_nonce}").as_bytes()].concat()).0;
        let sum = |method: &str| {
            let body = match qop {
                Qop::Authentication => "",
                Qop::Integrity | Qop::Privacy => NO_BODY,
            };
            let request = md5::compute(format!("{method}:{digest_uri}{body}"));
            let name = qop.name();
            let text = format!("{nonce}:{NONCE_COUNT}:{client_nonce}:{name}:{request:x}");
            format!(
                "{:x}",
                md5::compute(format!("{:x}:{text}", md5::Digest(session_key)))
            )
        };
        let mut token = format!(
            "charset=utf-8,username={},realm={},nonce={},nc={NONCE_COUNT},cnonce={},digest-uri={},\
             maxbuf={MAX_BUFFER},response={},qop={}",
            Quoted(username),
            Quoted(realm),
            Quoted(nonce),
            Quoted(client_nonce),
            Quoted(digest_uri),
            sum("AUTHENTICATE"),
            qop.name(),
        );
        if let Some(cipher) = cipher {
            token += &format!(",cipher={}", Quoted(cipher.name()));
        }
        Self {
            token: token.into_bytes(),
            proof: sum(""),
            session_key,
        }
    }

    /// Returns whether the last token of the server proves that it has the password.
    pub(crate) fn is_proven_by(&self, token: &[u8]) -> Result<bool, DigestError> {
        let directives = directives(token)?;
        let proof = single(&directives, "rspauth")?.ok_or(DigestError::Missing("rspauth"))?;
        Ok(proof.eq_ignore_ascii_case(&self.proof))
    }

    /// Returns the last token of a server that has the password.
    #[cfg(test)]
    pub(crate) fn proof_of_server(&self) -> Vec<u8> {
        format!("rspauth={}", self.proof).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The examples of RFC 2831, section 4.
    #[rstest]
    #[case(
        "OA6MG9tEQGm2hh",
        "OA6MHXh6VqTrRk",
        "imap/elwood.innosoft.com",
        "d388dad90d4bbd760a152321f2143af7",
        "ea40f60335c427b5527b84dbabcdfffd"
    )]
    #[case(
        "OA9BSXrbuRhWay",
        "OA9BSuZWMSpW8m",
        "acap/elwood.innosoft.com",
        "6084c6db3fede7352c551284490fd0fc",
        "2f0b3d7c3c2e486600ef710726aa2eae"
    )]
    fn examples_of_the_standard_are_answered(
        #[case] nonce: &str,
        #[case] client_nonce: &str,
        #[case] digest_uri: &str,
        #[case] response: &str,
        #[case] proof: &str,
    ) {
        let challenge = format!(
            "realm=\"elwood.innosoft.com\",nonce=\"{nonce}\",qop=\"auth\",algorithm=md5-sess,charset=utf-8"
        );
        let challenge = Challenge::decode(challenge.as_bytes()).unwrap();
        let login = Login {
            username: "chris",
            password: "secret",
            digest_uri,
        };
        let answer = Answer::new(&challenge, login, client_nonce, Qop::Authentication, None);
        assert_eq!(
            String::from_utf8(answer.token.clone()).unwrap(),
            format!(
                "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",nonce=\"{nonce}\",nc=00000001,\
                 cnonce=\"{client_nonce}\",digest-uri=\"{digest_uri}\",maxbuf=65536,response={response},qop=auth"
            )
        );
        let proven = |token: &str| answer.is_proven_by(token.as_bytes());
        assert_eq!(proven(&format!("rspauth={proof}")), Ok(true));
        assert_eq!(proven(&format!("rspauth={response}")), Ok(false));
        assert_eq!(proven("rspauth="), Ok(false));
        assert_eq!(proven(""), Err(DigestError::Missing("rspauth")));
        assert_eq!(proven("rspauth"), Err(DigestError::Syntax));
    }
}
