//! The authentication with servers that answer from a script.

use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::cluster::registry::zookeeper::access::*;

const OPENED: &[u8] = b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\x01\0\0\x03\x5d\x6e\0\x01\0\0\0\x10abcdefghijklmnop\0";

/// What a server answers to a token.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Token(&'static [u8]),
    NoToken,
    Code(i32),
    /// A frame with this body, after the header of a reply without a failure.
    Body(&'static [u8]),
    /// These bytes, and the end of the stream.
    Bytes(&'static [u8]),
}

/// Expects these tokens of the server, and takes these steps.
struct Script<I>(I);

impl<I: Iterator<Item = (&'static str, Step)> + Send> Tokens for Script<I> {
    async fn step(&mut self, token: Bytes) -> Result<Step, AuthenticationError> {
        let (expected, step) = self.0.next().unwrap();
        assert_eq!(token, expected);
        Ok(step)
    }
}

/// Authenticates with a server that gives these answers, and returns the tokens that it received.
async fn authenticate(
    script: impl IntoIterator<Item = (&'static str, Step), IntoIter: Send>,
    answers: impl IntoIterator<Item = Answer>,
) -> (Result<(), Failure>, Vec<Vec<u8>>) {
    let (ours, mut theirs) = duplex(1 << 12);
    let client = async {
        let mut session = Session::open(ours, Duration::from_secs(1)).await?;
        super::authenticate(&mut session, Script(script.into_iter())).await
    };
    let server = async {
        request(&mut theirs).await;
        theirs.write_all(OPENED).await.unwrap();
        let mut tokens = Vec::new();
        for answer in answers {
            let request = request(&mut theirs).await;
            assert_eq!(request[4..8], 102_i32.to_be_bytes());
            tokens.push(request[12..].to_vec());
            let reply = |code: i32, body: &[u8]| {
                let frame = [&request[..4], &[0; 8], &code.to_be_bytes(), body].concat();
                [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()
            };
            let bytes = match answer {
                Answer::Token(token) => {
                    let length = token.len() as u32;
                    reply(0, &[&length.to_be_bytes(), token].concat())
                }
                Answer::NoToken => reply(0, &[0xff; 4]),
                Answer::Code(code) => reply(code, &[0xff; 4]),
                Answer::Body(body) => reply(0, body),
                Answer::Bytes(bytes) => bytes.to_vec(),
            };
            theirs.write_all(&bytes).await.unwrap();
        }
        drop(theirs);
        tokens
    };
    tokio::join!(client, server)
}

async fn request(stream: &mut DuplexStream) -> Vec<u8> {
    let mut frame = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut frame).await.unwrap();
    frame
}

/// Sends three tokens, as Kerberos does.
fn three_tokens() -> [(&'static str, Step); 3] {
    [
        ("", Step::Continue(b"first".to_vec())),
        ("a", Step::Continue(Vec::new())),
        ("b", Step::Last(b"last".to_vec())),
    ]
}

#[rstest]
#[case(Answer::NoToken)]
#[case(Answer::Token(b""))]
#[tokio::test]
async fn tokens_are_exchanged_until_the_server_accepts_the_last(#[case] last: Answer) {
    let answers = [Answer::Token(b"a"), Answer::Token(b"b"), last];
    let (result, tokens) = authenticate(three_tokens(), answers).await;
    result.unwrap();
    assert_eq!(tokens, [&b"first"[..], b"", b"last"]);
}

#[rstest]
#[case(Answer::Code(-124), "SessionClosedRequireSaslAuth (-124)")]
#[case(Answer::NoToken, "does not authenticate clients by Kerberos")]
#[case(Answer::Body(b"\0\x0f\xff\xffa"), "a field has the length 1048575")]
#[case(Answer::Body(b"\xff\xff\xff\xfe"), "a field has the length -2")]
#[case(Answer::Body(b"\0\0"), "ends too early")]
#[case(Answer::Bytes(b"\0\x10\0\0"), "a frame has the length 1048576")]
#[case(Answer::Bytes(b"\0\0\0\x14\0\0\0\x01"), "closed the connection")]
#[case(
    Answer::Bytes(b"\0\0\0\x10\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0"),
    "a reply to request 7"
)]
#[tokio::test]
async fn hostile_answers_to_tokens_are_refused(#[case] answer: Answer, #[case] why: &str) {
    let (result, _) = authenticate(three_tokens(), [answer]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[tokio::test]
async fn refusal_of_the_last_token_is_read() {
    let answers = [Answer::Token(b"a"), Answer::Token(b"b"), Answer::Code(-115)];
    let (result, tokens) = authenticate(three_tokens(), answers).await;
    assert_eq!(result.unwrap_err().to_string(), "answered AuthFailed (-115)");
    assert_eq!(tokens.len(), 3);
}

#[tokio::test]
async fn endless_exchange_is_ended() {
    let endless = (0..2 * MAX_TOKENS).map(|index| {
        let received = if index == 0 { "" } else { "more" };
        (received, Step::Continue(b"x".to_vec()))
    });
    let answers = [Answer::Token(b"more"); MAX_TOKENS];
    let (result, tokens) = authenticate(endless, answers).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("a token that is not valid"), "{error}");
    assert_eq!(tokens.len(), MAX_TOKENS);
}
