//! How connections are authenticated: what the crate `hbase-security` needs of HBase's protocol, and the
//! failures that its failures are for callers.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use hbase_security::{Authenticator, HandshakeError, Introduction, MessageError, Opened, Role, Target};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

use super::{
    call_error::CallError,
    connector::{DialTarget, Io, ServiceKind},
    registry_query,
};
use crate::{
    error::{ErrorKind, RemoteException},
    wire::{
        connection_header::Header,
        frame::{AnswerError, FrameError, ResponseDecoder},
    },
};

/// The maximum size of a frame instead of a token: an exception with its trace.
const MAX_FRAME: usize = 1 << 20;

/// Returns the kind of the error that a caller gets.
pub(crate) fn kind_of(kind: hbase_security::ErrorKind) -> ErrorKind {
    match kind {
        hbase_security::ErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
        hbase_security::ErrorKind::Protocol => ErrorKind::Protocol,
        hbase_security::ErrorKind::AuthenticationFailed => ErrorKind::AuthenticationFailed,
    }
}

/// Describes why a connection is not authenticated, with the exception of the server.
pub(super) fn described(error: &hbase_security::AuthenticationError) -> String {
    match error.exception() {
        Some(exception) => {
            let exception = RemoteException {
                class: exception.class.clone(),
                message: exception.message.clone(),
                trace: exception.to_string(),
            };
            format!("{error}: {exception}")
        }
        None => error.to_string(),
    }
}

/// Authenticates a new connection within a limit. `dialled_again` yields another stream to the server.
/// `header` has the name of the user for a server without security.
pub(super) async fn authenticate(
    authenticator: &Authenticator,
    stream: Box<dyn Io>,
    dialled_again: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    target: &DialTarget,
    header: Header<'_>,
    limit: Duration,
) -> Result<Opened<Box<dyn Io>>, CallError> {
    let opened = open(authenticator, stream, dialled_again, target, header);
    match timeout(limit, opened).await {
        Ok(opened) => opened,
        Err(_) => Err(hbase_security::AuthenticationError::Timeout(limit).into()),
    }
}

async fn open(
    authenticator: &Authenticator,
    mut stream: Box<dyn Io>,
    dialled_again: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    target: &DialTarget,
    header: Header<'_>,
) -> Result<Opened<Box<dyn Io>>, CallError> {
    let role = match target.service {
        ServiceKind::Master | ServiceKind::Lock => Role::Master,
        ServiceKind::Client | ServiceKind::Admin => Role::RegionServer,
        ServiceKind::Registry => Role::Registry,
    };
    let mut reported = None;
    if authenticator.asks_for_principal(role) {
        reported = registry_query::principal(&mut stream).await;
        if reported.is_none() {
            // A server that does not know the question closes the stream, or answers with an exception.
            stream = dialled_again.await?;
        }
    }
    let server = Target {
        host: &target.address.host,
        role,
        reported_principal: reported.as_deref(),
    };
    let accepted = match authenticator.negotiate(&mut stream, server).await {
        Ok(accepted) => accepted,
        Err(HandshakeError::Frame(received)) => return Err(read_fault(&mut stream, received).await),
        Err(error) => return Err(error.into()),
    };
    let introduced = |introduction: Introduction<'_>| match introduction {
        Introduction::Simple => header.framed(),
        Introduction::Authenticated {
            effective_user,
            cipher,
        } => Header {
            effective_user,
            cipher,
            ..header
        }
        .framed(),
    };
    let opened = authenticator
        .protect(stream, accepted, introduced, is_refusal)
        .await?;
    Ok(Opened {
        stream: Box::new(opened.stream),
        greeting: opened.greeting,
        is_private: opened.is_private,
    })
}

impl From<HandshakeError> for CallError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Unauthenticated(error) => error.into(),
            HandshakeError::Stream(error) => Self::of_socket(error),
            HandshakeError::Message(error) => garbled(match error {
                MessageError::NegativeLength(length) => FrameError::NegativeLength(length),
                MessageError::TooLarge { len, limit } => FrameError::ResponseTooLarge { len, limit },
                MessageError::Trailing(len) => FrameError::Trailing(len),
            }),
            HandshakeError::Frame(_) => no_token(),
        }
    }
}

/// Reads the frame of a server that does not accept the method at all, of which these bytes have come in.
async fn read_fault<S: AsyncRead + Unpin>(stream: &mut S, mut received: BytesMut) -> CallError {
    let mut decoder = ResponseDecoder::new(MAX_FRAME);
    loop {
        match decoder.decode(&mut received) {
            Ok(Some(answer)) => {
                return match answer.outcome {
                    Err(AnswerError::Fault(fault)) => CallError::Refused {
                        sent: false,
                        fault: Arc::new(fault),
                    },
                    _ => no_token(),
                };
            }
            Ok(None) => match stream.read_buf(&mut received).await {
                Ok(0) => {
                    return CallError::of_socket(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed the connection while it authenticated the client",
                    ));
                }
                Ok(_) => {}
                Err(error) => return CallError::of_socket(error),
            },
            Err(error) => return garbled(error),
        }
    }
}

/// Returns whether a message, without its length, is a frame with an exception about the connection.
fn is_refusal(message: &[u8]) -> bool {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = BytesMut::from(&length.to_be_bytes()[..]);
    framed.extend_from_slice(message);
    let frame = ResponseDecoder::default().decode(&mut framed);
    matches!(frame, Ok(Some(frame)) if frame.is_about_the_connection() && frame.outcome.is_err())
}

fn garbled(error: FrameError) -> CallError {
    CallError::Garbled {
        sent: false,
        cause: Arc::new(error),
    }
}

fn no_token() -> CallError {
    CallError::BadAnswer(Arc::from("it is no token of the authentication"))
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use hbase_security::{AuthenticationError, ServerError};
    use prost::Message;

    use super::*;
    use crate::wire::{frame::server_side, pb};

    #[tokio::test]
    async fn frame_instead_of_a_token_is_an_exception_of_the_server() {
        let header = pb::ResponseHeader {
            call_id: Some(u32::MAX),
            exception: Some(pb::ExceptionResponse {
                exception_class_name: Some("org.apache.hadoop.hbase.ipc.BadAuthException".into()),
                do_not_retry: Some(true),
                ..Default::default()
            }),
            ..Default::default()
        };
        let header = header.encode_length_delimited_to_vec();
        let mut frame = BytesMut::new();
        frame.put_i32(header.len() as i32);
        frame.put_slice(&header);
        // The negotiation has read the first bytes, and the rest is in the stream.
        let read = async |bytes: &[u8]| {
            let (first, mut rest) = bytes.split_at(4);
            read_fault(&mut rest, BytesMut::from(first)).await
        };
        let error = read(&frame).await;
        assert!(
            matches!(error, CallError::Refused { sent: false, .. }),
            "{error:?}"
        );
        assert_eq!(error.classify().kind, ErrorKind::AuthenticationRequired);
        // Cut off, too long, and no frame.
        assert!(matches!(
            read(&frame[..9]).await,
            CallError::Lost { sent: false, .. }
        ));
        for bytes in [b"\x10\0\0\0\0\0", b"\0\0\0\x02\xff\xff", b"\xff\xff\xff\xff\0\0"] {
            let error = read(bytes).await;
            assert!(
                matches!(error, CallError::Garbled { sent: false, .. }),
                "{error:?}"
            );
        }
    }

    #[test]
    fn only_exceptions_about_the_connection_are_refusals() {
        for (call, expected) in [(u32::MAX, true), (0, false)] {
            let frame = server_side::refusal(call, "a.AccessDeniedException", "no");
            assert_eq!(is_refusal(&frame[4..]), expected);
        }
        assert!(!is_refusal(b"") && !is_refusal(b"\xff\xff"));
    }

    #[test]
    fn refusal_has_the_class_and_the_message_of_the_server() {
        let refused = |message: &str| {
            let error = AuthenticationError::from(ServerError {
                class: "javax.security.sasl.SaslException".into(),
                message: message.into(),
            });
            CallError::from(error)
        };
        let error = refused("GSS initiate failed").into_error();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        let text = error.to_string();
        assert!(text.contains("SaslException: GSS initiate failed"), "{text}");
        let error = refused("");
        assert_eq!(
            error.to_string(),
            "the server refused the authentication: SaslException"
        );
    }
}
