//! Messages that are written straight into a buffer, without building them first.

use std::iter;

use prost::encoding::{WireType, encode_varint, encoded_len_varint, key_len};

/// A message, or a part of one.
pub(super) trait Part {
    fn write(&self, output: &mut impl Output);

    /// Returns about the number of its bytes. A wrong number costs a move of the bytes.
    fn expected_len(&self) -> usize;
}

/// What fields are written to: a buffer, or the count of their bytes.
pub(super) trait Output: Sized {
    fn key(&mut self, number: u32, wire_type: WireType);
    fn varint(&mut self, value: u64);
    fn raw(&mut self, bytes: &[u8]);

    fn number(&mut self, number: u32, value: u64) {
        self.key(number, WireType::Varint);
        self.varint(value);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.key(number, WireType::LengthDelimited);
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    fn message(&mut self, number: u32, message: &impl Part);
}

struct Count(usize);

/// Returns the number of bytes of a message.
pub(super) fn len(message: &impl Part) -> usize {
    let mut count = Count(0);
    message.write(&mut count);
    count.0
}

impl Output for Count {
    fn key(&mut self, number: u32, _: WireType) {
        self.0 += key_len(number);
    }

    fn varint(&mut self, value: u64) {
        self.0 += encoded_len_varint(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn message(&mut self, number: u32, message: &impl Part) {
        let len = len(message);
        self.0 += key_len(number) + encoded_len_varint(len as u64) + len;
    }
}

impl Output for Vec<u8> {
    fn key(&mut self, number: u32, wire_type: WireType) {
        self.varint(u64::from(number << 3 | wire_type as u32));
    }

    fn varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(byte) if byte < 0x80 => self.push(byte),
            _ => encode_varint(value, self),
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    /// Writes the length behind the message, into the room that was left for it: counting it before
    /// would visit each part once for every message around it.
    fn message(&mut self, number: u32, message: &impl Part) {
        self.key(number, WireType::LengthDelimited);
        let start = self.len();
        let room = encoded_len_varint(message.expected_len() as u64);
        self.resize(start + room, 0);
        message.write(self);
        let len = (self.len() - start - room) as u64;
        let width = encoded_len_varint(len);
        if width != room {
            self.splice(start..start + room, iter::repeat_n(0, width));
        }
        encode_varint(len, &mut &mut self[start..start + width]);
    }
}
