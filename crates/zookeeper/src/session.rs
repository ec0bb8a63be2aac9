//! A session with one server of a quorum, over any stream.

use std::{io, time::Duration};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::frame::{self, ErrorCode, FrameError, PREFIX, Request};

/// Why a server gave no answer, as what it did.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It closes connections while it belongs to no quorum, also those of clients that do not
    /// accept a read-only session.
    #[error("closed the connection instead of opening a session")]
    NotServing,
    /// It knows no such session, or the session has expired.
    #[error("opened no session")]
    Refused,
    /// It closed the connection instead of an answer, or within one.
    #[error("closed the connection before it answered")]
    Closed,
    /// The connection failed.
    #[error("ended the connection ({0})")]
    Io(#[from] io::Error),
    /// It answered with bytes that ZooKeeper does not send.
    #[error("does not answer as ZooKeeper does: {0}")]
    Frame(#[from] FrameError),
    /// It answered that the request failed.
    #[error("answered {0}")]
    Failed(ErrorCode),
}

/// An open session with one server. It sends no heartbeats: the server ends it when it is silent for its timeout.
/// A dropped session closes its connection, and ends with that timeout.
#[derive(Debug)]
pub struct Session<S> {
    stream: S,
    last_xid: i32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Opens a session that ends when it is silent for this time, or for the shortest time that
    /// the server accepts.
    ///
    /// # Errors
    ///
    /// Returns [`NotServing`](SessionError::NotServing) if the server belongs to no quorum at the moment,
    /// and [`Refused`](SessionError::Refused) if it opens no session.
    pub async fn open(mut stream: S, timeout: Duration) -> Result<Self, SessionError> {
        stream.write_all(&frame::connect_request(timeout)).await?;
        stream.flush().await?;
        let response = match read_frame(&mut stream).await {
            Err(SessionError::Closed) => return Err(SessionError::NotServing),
            response => response?,
        };
        if frame::decode_connect_response(response)? {
            Ok(Self { stream, last_xid: 0 })
        } else {
            Err(SessionError::Refused)
        }
    }

    /// Sends a token of SASL, and returns that of the server. Returns `None` if the server sends none, as
    /// after the last one of the client.
    ///
    /// # Errors
    ///
    /// Returns [`Failed`](SessionError::Failed) if the server does not accept the token.
    pub async fn exchange(&mut self, token: &[u8]) -> Result<Option<Bytes>, SessionError> {
        let reply = self.call(Request::Sasl(token)).await?;
        Ok(frame::decode_token(reply.map_err(SessionError::Failed)?)?)
    }

    /// Returns the data of a znode, or `None` if the znode does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`Failed`](SessionError::Failed) with [`ErrorCode::NO_AUTH`] if the client may not read it, or
    /// with a code that [requires authentication](ErrorCode::requires_authentication).
    pub async fn data(&mut self, path: &str) -> Result<Option<Bytes>, SessionError> {
        match self.call(Request::GetData(path)).await? {
            Ok(body) => Ok(Some(frame::decode_data(body)?)),
            Err(ErrorCode::NO_NODE) => Ok(None),
            Err(code) => Err(SessionError::Failed(code)),
        }
    }

    /// Returns whether a znode exists.
    ///
    /// # Errors
    ///
    /// As [`data`](Self::data).
    pub async fn exists(&mut self, path: &str) -> Result<bool, SessionError> {
        match self.call(Request::Exists(path)).await? {
            Ok(body) => {
                frame::decode_stat(&body)?;
                Ok(true)
            }
            Err(ErrorCode::NO_NODE) => Ok(false),
            Err(code) => Err(SessionError::Failed(code)),
        }
    }

    /// Ends the session. The server reads the request before the end of the stream, so nothing
    /// waits for its reply.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](SessionError::Io) if the connection fails. The session then ends with its timeout.
    pub async fn close(mut self) -> Result<(), SessionError> {
        self.send(Request::CloseSession).await?;
        self.stream.shutdown().await?;
        Ok(())
    }

    async fn call(&mut self, request: Request<'_>) -> Result<Result<Bytes, ErrorCode>, SessionError> {
        self.send(request).await?;
        let reply = read_frame(&mut self.stream).await?;
        Ok(frame::decode_reply(reply, self.last_xid)?)
    }

    async fn send(&mut self, request: Request<'_>) -> io::Result<()> {
        self.last_xid += 1;
        self.stream.write_all(&request.encode(self.last_xid)).await?;
        self.stream.flush().await
    }
}

/// Reads a frame. Room grows with the bytes that arrive, not with the announced length.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, SessionError> {
    let mut prefix = [0; PREFIX];
    match stream.read_exact(&mut prefix).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(SessionError::Closed),
        read => read?,
    };
    let length = frame::frame_length(prefix)?;
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(SessionError::Closed);
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    const OPENED: &[u8] =
        b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\x01\0\0\x03\x5d\x6e\0\x01\0\0\0\x10abcdefghijklmnop\0";
    const REFUSED: &[u8] = b"\0\0\0\x25\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10abcdefghijklmnop\0";
    const NO_NODE: &[u8] = b"\0\0\0\x10\0\0\0\x01\0\0\0\0\0\0\0\0\xff\xff\xff\x9b";
    const NO_AUTH: &[u8] = b"\0\0\0\x10\0\0\0\x01\0\0\0\0\0\0\0\0\xff\xff\xff\x9a";

    /// Reads a znode from a server that answers with these bytes, and then closes the connection.
    async fn read(answers: &[&[u8]]) -> Result<Option<Bytes>, SessionError> {
        let (ours, mut theirs) = duplex(1 << 12);
        theirs.write_all(&answers.concat()).await.unwrap();
        theirs.shutdown().await.unwrap();
        let mut session = Session::open(ours, Duration::from_secs(4)).await?;
        session.data("/hbase/master").await
    }

    #[tokio::test]
    async fn data_is_read_if_the_znode_exists() {
        let data = [
            b"\0\0\0\x5a\0\0\0\x01".as_slice(),
            &[0; 12],
            b"\0\0\0\x02ab",
            &[0; 68],
        ];
        let found = read(&[OPENED, &data.concat()]).await.unwrap();
        assert_eq!(found.as_deref(), Some(&b"ab"[..]));
        assert_eq!(read(&[OPENED, NO_NODE]).await.unwrap(), None);
    }

    #[tokio::test]
    async fn servers_that_give_no_answer_say_why() {
        let why = async |answers: &[&[u8]]| read(answers).await.unwrap_err().to_string();
        assert_eq!(
            why(&[]).await,
            "closed the connection instead of opening a session"
        );
        assert_eq!(why(&[REFUSED]).await, "opened no session");
        assert_eq!(why(&[OPENED]).await, "closed the connection before it answered");
        assert_eq!(
            why(&[OPENED, &NO_NODE[..12]]).await,
            "closed the connection before it answered"
        );
        assert_eq!(why(&[OPENED, NO_AUTH]).await, "answered NoAuth (-102)");
        let text = "does not answer as ZooKeeper does: a frame has the length 1213486160, and at most 1048575 is accepted";
        assert_eq!(why(&[b"HTTP/1.1 400 Bad Request"]).await, text);
    }
}
