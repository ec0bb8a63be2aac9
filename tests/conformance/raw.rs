//! Connections to region servers, and their frames.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_protocol as pb;
use prost::Message;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The beginning of a refusal's text.
const NOT_MODELLED: &str = "hbase-fake does not model ";

/// A connection for one service. Its cells travel in messages, not in blocks.
pub(crate) struct RawConnection {
    stream: TcpStream,
    calls: u32,
}

/// The failure of a call, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) class: String,
    pub(crate) do_not_retry: bool,
    pub(crate) text: String,
}

impl Refusal {
    /// The refusal of a fake that does not model a request.
    pub(crate) fn not_modelled() -> Self {
        Self {
            class: String::new(),
            do_not_retry: true,
            text: NOT_MODELLED.to_owned(),
        }
    }

    pub(crate) fn is_not_modelled(&self) -> bool {
        self.text.contains(NOT_MODELLED)
    }
}

impl RawConnection {
    pub(crate) fn open(server: &str, service: &str) -> Self {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let version = pb::VersionInfo {
            version: "2.6.0".into(),
            version_major: Some(2),
            version_minor: Some(6),
            ..Default::default()
        };
        let header = pb::ConnectionHeader {
            user_info: Some(pb::UserInformation {
                effective_user: "conformance".into(),
                ..Default::default()
            }),
            service_name: Some(service.into()),
            version_info: Some(version),
            ..Default::default()
        };
        let mut bytes = BytesMut::from(&b"HBas\0\x50"[..]);
        bytes.put_u32(header.encoded_len().try_into().unwrap());
        header.encode(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        Self { stream, calls: 0 }
    }

    /// Sends a call and waits for its answer.
    pub(crate) fn call<R: Message + Default>(
        &mut self,
        method: &str,
        parameter: &impl Message,
    ) -> Result<R, Refusal> {
        self.calls += 1;
        let header = pb::RequestHeader {
            call_id: Some(self.calls),
            method_name: Some(method.into()),
            request_param: Some(true),
            ..Default::default()
        };
        let mut body = BytesMut::new();
        header.encode_length_delimited(&mut body).unwrap();
        parameter.encode_length_delimited(&mut body).unwrap();
        let mut frame = BytesMut::new();
        frame.put_u32(body.len().try_into().unwrap());
        frame.put_slice(&body);
        self.stream.write_all(&frame).unwrap();
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut answer).unwrap();
        let mut answer = Bytes::from(answer);
        let header = pb::ResponseHeader::decode_length_delimited(&mut answer).unwrap();
        assert_eq!(header.call_id, Some(self.calls));
        if let Some(exception) = header.exception {
            return Err(Refusal {
                class: exception.exception_class_name().into(),
                do_not_retry: exception.do_not_retry(),
                text: exception.stack_trace().lines().next().unwrap_or_default().into(),
            });
        }
        let message = R::decode_length_delimited(&mut answer).unwrap();
        assert!(
            !answer.has_remaining(),
            "cells in a block that the call has not allowed"
        );
        Ok(message)
    }
}
