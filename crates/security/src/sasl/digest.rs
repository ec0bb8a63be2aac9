//! The mechanism DIGEST-MD5: delegation tokens.

use std::{fmt, io, mem};

use bytes::{Bytes, BytesMut};

use super::{
    base64::base64,
    digest_md5::{
        answer::{Answer, Login},
        challenge::{Challenge, Qop},
        layer::Layer,
    },
    mechanism::{Mechanism, SecurityLayer},
};
use crate::{
    authentication_error::AuthenticationError, delegation_token::DelegationToken, handshake::Step,
    preamble::AuthMethod, protection::Protection,
};

/// The service and its host, which all servers of HBase expect.
const DIGEST_URI: &str = "null/default";

/// Authenticates by a delegation token, and chooses a protection.
pub(super) struct Digest {
    username: String,
    password: String,
    client_nonce: String,
    /// The protections that the client accepts, in order of preference.
    accepted: Vec<Protection>,
    state: State,
}

enum State {
    /// Before the first token, which is empty.
    Start,
    /// Before the challenge.
    Started,
    /// Before the proof of the server.
    Answered { answer: Answer, layer: Option<Layer> },
    /// After the proof.
    Proven(Option<Layer>),
    /// After a failure.
    Ended,
}

impl Digest {
    /// Creates the mechanism with a nonce, which must be random.
    pub(super) fn new(token: &DelegationToken, client_nonce: String, accepted: Vec<Protection>) -> Self {
        Self {
            username: base64(&token.identifier),
            password: base64(&token.password),
            client_nonce,
            accepted,
            state: State::Start,
        }
    }

    fn answer(&self, token: &[u8]) -> Result<(State, Step), AuthenticationError> {
        let challenge = Challenge::decode(token)?;
        let offered = |protection: &&Protection| challenge.offers(qop(**protection));
        let Some(&chosen) = self.accepted.iter().find(offered) else {
            return Err(AuthenticationError::NoCommonProtection {
                accepted: self.accepted.clone(),
                offered: ALL.into_iter().filter(|all| offered(&all)).collect(),
            });
        };
        let cipher = match chosen {
            Protection::Privacy => Some(challenge.cipher().ok_or(AuthenticationError::WeakCiphers)?),
            Protection::Authentication | Protection::Integrity => None,
        };
        let login = Login {
            username: &self.username,
            password: &self.password,
            digest_uri: DIGEST_URI,
        };
        let mut answer = Answer::new(&challenge, login, &self.client_nonce, qop(chosen), cipher);
        let layer = Layer::new(&answer.session_key, qop(chosen), cipher, challenge.max_buffer);
        let token = mem::take(&mut answer.token);
        Ok((State::Answered { answer, layer }, Step::Continue(token)))
    }
}

/// All protections.
const ALL: [Protection; 3] = [
    Protection::Authentication,
    Protection::Integrity,
    Protection::Privacy,
];

const fn qop(protection: Protection) -> Qop {
    match protection {
        Protection::Authentication => Qop::Authentication,
        Protection::Integrity => Qop::Integrity,
        Protection::Privacy => Qop::Privacy,
    }
}

impl Mechanism for Digest {
    fn method(&self) -> AuthMethod {
        AuthMethod::Digest
    }

    fn blocks(&self) -> bool {
        false
    }

    fn step(&mut self, token: &[u8]) -> Result<Step, AuthenticationError> {
        let (state, step) = match mem::replace(&mut self.state, State::Ended) {
            State::Start => (State::Started, Step::Continue(Vec::new())),
            State::Started => self.answer(token)?,
            State::Answered { answer, layer } => {
                if answer.is_proven_by(token)? {
                    (State::Proven(layer), Step::Complete)
                } else {
                    return Err(AuthenticationError::WrongProof);
                }
            }
            State::Proven(_) | State::Ended => return Err(AuthenticationError::BadToken),
        };
        self.state = state;
        Ok(step)
    }

    fn into_layer(self: Box<Self>) -> Option<Box<dyn SecurityLayer>> {
        match self.state {
            State::Proven(Some(layer)) => Some(Box::new(layer)),
            _ => None,
        }
    }
}

impl SecurityLayer for Layer {
    fn is_private(&self) -> bool {
        self.is_private()
    }

    fn max_message(&self) -> usize {
        self.max_message()
    }

    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes> {
        Ok(self.wrap(message))
    }

    fn unwrap(&mut self, wrapped: BytesMut) -> io::Result<Bytes> {
        self.unwrap(wrapped)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest")
            .field("accepted", &self.accepted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::token_format::tests::token_of;

    const CHALLENGE: &str = r#"realm="default",nonce="n",qop="auth,auth-int,auth-conf",charset=utf-8,cipher="des,rc4",algorithm=md5-sess"#;

    fn mechanism(accepted: &[Protection]) -> Digest {
        Digest::new(&token_of("c"), "nonce".into(), accepted.to_vec())
    }

    /// Answers a challenge, and returns the answer with the proof that the server owes.
    fn answered(accepted: &[Protection], challenge: &str) -> Result<(Digest, String), AuthenticationError> {
        let mut mechanism = mechanism(accepted);
        assert_eq!(mechanism.step(b"")?, Step::Continue(Vec::new()));
        let Step::Continue(answer) = mechanism.step(challenge.as_bytes())? else {
            panic!("no answer");
        };
        Ok((mechanism, String::from_utf8(answer).unwrap()))
    }

    fn proof(mechanism: &Digest) -> Vec<u8> {
        // The server derives the proof from the same values.
        let challenge = Challenge::decode(CHALLENGE.as_bytes()).unwrap();
        let login = Login {
            username: &mechanism.username,
            password: &mechanism.password,
            digest_uri: DIGEST_URI,
        };
        Answer::new(&challenge, login, &mechanism.client_nonce, Qop::Privacy, None).proof_of_server()
    }

    #[test]
    fn token_logs_in_by_texts_of_its_bytes() {
        assert_eq!(mechanism(&[]).password, "cGFzc3dvcmQ=");
    }

    #[test]
    fn server_that_has_the_password_is_accepted() {
        let (mut mechanism, answer) = answered(&[Protection::Privacy], CHALLENGE).unwrap();
        assert!(answer.contains("digest-uri=\"null/default\"") && answer.contains("cipher=\"rc4\""));
        let proof = proof(&mechanism);
        assert_eq!(mechanism.step(&proof).unwrap(), Step::Complete);
        assert!(Box::new(mechanism).into_layer().unwrap().is_private());
    }

    #[test]
    fn server_without_the_password_is_refused() {
        for token in [
            &b"rspauth=ea40f60335c427b5527b84dbabcdfffd"[..],
            b"rspauth=",
            b"",
            b"\xff",
        ] {
            let (mut mechanism, _) = answered(&[Protection::Privacy], CHALLENGE).unwrap();
            let error = mechanism.step(token).unwrap_err();
            assert!(
                matches!(
                    error,
                    AuthenticationError::WrongProof | AuthenticationError::Digest(_)
                ),
                "{error}"
            );
            mechanism.step(&proof(&mechanism)).unwrap_err();
            assert!(Box::new(mechanism).into_layer().is_none());
        }
    }

    #[rstest]
    #[case(&[Protection::Integrity, Protection::Privacy], "qop=auth-int")]
    #[case(&[Protection::Privacy, Protection::Authentication], "qop=auth-conf")]
    #[case(&[Protection::Authentication], "qop=auth")]
    fn first_protection_that_the_server_offers_is_chosen(#[case] accepted: &[Protection], #[case] qop: &str) {
        let (_, answer) = answered(accepted, CHALLENGE).unwrap();
        let chosen = answer.split(',').find(|part| part.starts_with("qop="));
        assert_eq!(chosen, Some(qop));
    }

    #[test]
    fn no_common_protection_and_weak_ciphers_are_refused() {
        // An attacker can shorten the list, which is not signed. Without one, RFC 2831 means "auth".
        for only_auth in [
            "nonce=\"n\",qop=\"auth\",algorithm=md5-sess",
            "nonce=\"n\",algorithm=md5-sess",
        ] {
            for accepted in [
                &[Protection::Privacy][..],
                &[Protection::Privacy, Protection::Integrity],
            ] {
                let error = answered(accepted, only_auth).unwrap_err();
                assert!(
                    error.to_string().contains("the server offers authentication"),
                    "{error}"
                );
            }
        }
        let weak = "nonce=\"n\",qop=\"auth-conf\",cipher=\"des,rc4-40\",algorithm=md5-sess";
        let error = answered(&[Protection::Privacy], weak).unwrap_err();
        assert!(matches!(error, AuthenticationError::WeakCiphers), "{error}");
    }

    #[test]
    fn nothing_of_the_token_is_printed() {
        let (mechanism, _) = answered(&[Protection::Privacy], CHALLENGE).unwrap();
        let printed = format!("{mechanism:?}");
        assert_eq!(printed, "Digest { accepted: [Privacy], .. }");
    }
}
