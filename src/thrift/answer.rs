//! Thrift's binary protocol as far as answers use it, from a peer that is not trusted.
//!
//! The reader of the `thrift` crate allocates whatever length a peer announces. This one refuses a
//! length that exceeds the rest of the answer.

use std::io::Read;

use thrift::{
    ProtocolError, ProtocolErrorKind,
    protocol::{
        TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TMessageIdentifier, TMessageType,
        TSetIdentifier, TStructIdentifier, TType,
    },
};

use super::socket::Socket;

/// The maximum number of elements of a list, a set or a map.
const MAX_ELEMENTS: usize = 10_000;
/// The first bytes of every message.
const VERSION: [u8; 2] = [0x80, 0x01];

/// Reads answers.
#[derive(Debug)]
pub(super) struct Answers(pub(super) Socket);

impl Answers {
    fn array<const N: usize>(&mut self) -> thrift::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn kind(&mut self) -> thrift::Result<TType> {
        Ok(match self.read_byte()? {
            0 => TType::Stop,
            1 => TType::Void,
            2 => TType::Bool,
            3 => TType::I08,
            4 => TType::Double,
            6 => TType::I16,
            8 => TType::I32,
            10 => TType::I64,
            11 => TType::String,
            12 => TType::Struct,
            13 => TType::Map,
            14 => TType::Set,
            15 => TType::List,
            other => return Err(invalid(format!("a type {other} that Thrift does not have"))),
        })
    }

    /// Reads a length in bytes.
    fn length(&mut self) -> thrift::Result<usize> {
        let length = self.read_i32()?;
        let left = self.0.left();
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= left)
            .ok_or_else(|| {
                invalid(format!(
                    "a length of {length} where {left} bytes can follow at most"
                ))
            })
    }

    /// Reads a number of elements, each of at least one byte.
    fn elements(&mut self) -> thrift::Result<i32> {
        let number = self.read_i32()?;
        let most = MAX_ELEMENTS.min(self.0.left());
        match usize::try_from(number) {
            Ok(count) if count <= most => Ok(number),
            _ => Err(invalid(format!(
                "{number} elements where {most} can follow at most"
            ))),
        }
    }
}

fn invalid(what: String) -> thrift::Error {
    thrift::Error::Protocol(ProtocolError::new(ProtocolErrorKind::InvalidData, what))
}

impl TInputProtocol for Answers {
    fn read_message_begin(&mut self) -> thrift::Result<TMessageIdentifier> {
        let beginning: [u8; 4] = self.array()?;
        if beginning[..2] != VERSION {
            return Err(thrift::Error::Protocol(ProtocolError::new(
                ProtocolErrorKind::BadVersion,
                format!("it begins with {}", beginning.escape_ascii()),
            )));
        }
        let message_type = TMessageType::try_from(beginning[3])?;
        let name = self.read_string()?;
        let sequence_number = self.read_i32()?;
        Ok(TMessageIdentifier::new(name, message_type, sequence_number))
    }

    fn read_message_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_struct_begin(&mut self) -> thrift::Result<Option<TStructIdentifier>> {
        Ok(None)
    }

    fn read_struct_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_field_begin(&mut self) -> thrift::Result<TFieldIdentifier> {
        let kind = self.kind()?;
        let id = match kind {
            TType::Stop => 0,
            _ => self.read_i16()?,
        };
        Ok(TFieldIdentifier::new::<Option<String>, String, i16>(
            None, kind, id,
        ))
    }

    fn read_field_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_bool(&mut self) -> thrift::Result<bool> {
        Ok(self.read_byte()? != 0)
    }

    fn read_bytes(&mut self) -> thrift::Result<Vec<u8>> {
        let length = self.length()?;
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_i8(&mut self) -> thrift::Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    fn read_i16(&mut self) -> thrift::Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    fn read_i32(&mut self) -> thrift::Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn read_i64(&mut self) -> thrift::Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    fn read_double(&mut self) -> thrift::Result<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    fn read_string(&mut self) -> thrift::Result<String> {
        let bytes = self.read_bytes()?;
        // Invalid bytes in a message for humans are replaced.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_list_begin(&mut self) -> thrift::Result<TListIdentifier> {
        let kind = self.kind()?;
        Ok(TListIdentifier::new(kind, self.elements()?))
    }

    fn read_list_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_set_begin(&mut self) -> thrift::Result<TSetIdentifier> {
        let kind = self.kind()?;
        Ok(TSetIdentifier::new(kind, self.elements()?))
    }

    fn read_set_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_map_begin(&mut self) -> thrift::Result<TMapIdentifier> {
        let (key, value) = (self.kind()?, self.kind()?);
        Ok(TMapIdentifier::new(key, value, self.elements()?))
    }

    fn read_map_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }

    fn read_byte(&mut self) -> thrift::Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }
}
