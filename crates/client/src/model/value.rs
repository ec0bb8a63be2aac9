//! Row keys, names and values: from Rust types to bytes and back.

use std::error::Error as StdError;

use bytes::{Bytes, BytesMut};

/// A type that is accepted as a row key, a column family, a qualifier or another byte string.
///
/// Implemented for `&str`, `String`, `&[u8]`, `[u8; N]`, `Vec<u8>`, `Box<[u8]>`, [`Bytes`],
/// [`BytesMut`], and for references to most of them. `String`, `Vec<u8>`, `Box<[u8]>`, [`Bytes`]
/// and [`BytesMut`] are moved, and `&Bytes` shares its memory. Everything else is copied, `&'static
/// str` too: pass `Bytes::from_static` where a copy counts.
///
/// Implement it for the row keys of your application:
///
/// ```
/// use bytes::Bytes;
/// use hbase_client::{Get, IntoBytes};
///
/// struct OrderKey<'a> {
///     customer: &'a str,
///     number: u32,
/// }
///
/// impl IntoBytes for OrderKey<'_> {
///     fn into_bytes(self) -> Bytes {
///         format!("{}/{:08}", self.customer, self.number).into_bytes().into()
///     }
/// }
///
/// let get = Get::new(OrderKey { customer: "acme", number: 17 }).column("f", "state");
/// # let _ = get;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a row key, a name or another byte string of HBase",
    label = "expected text or bytes",
    note = "a number has no encoding as a row key: pass text of a fixed width, or `number.to_be_bytes()`",
    note = "for the keys of your application, implement `IntoBytes`"
)]
pub trait IntoBytes {
    /// Converts into bytes.
    fn into_bytes(self) -> Bytes;
}

/// A type that is accepted as the value of a cell.
///
/// Implemented for all types that are [`IntoBytes`], and for these, in the encoding of HBase's
/// `Bytes` class:
///
/// | type | bytes |
/// |---|---|
/// | `i16`, `i32`, `i64` | 2, 4 or 8, big-endian, two's complement |
/// | `f32`, `f64` | 4 or 8, the bits of IEEE 754, big-endian |
/// | `bool` | 1: `0xFF` is true, `0x00` is false |
/// | `&str`, `String` | UTF-8, without a length |
/// | `uuid::Uuid` (feature `uuid`) | 16, in the order in which they are written; not a type of `Bytes` |
///
/// Values of these types are read by [`Row::get`](super::Row::get).
///
/// Name the type of a number: a bare `5` is an `i32` to Rust and has 4 bytes, but
/// [`Increment`](super::Increment) needs the 8 bytes of `5i64`.
///
/// Unsigned numbers are not accepted: HBase reads the bytes as a signed number, so a `u64` beyond
/// `i64::MAX` would become a negative counter. Convert it by `i64::try_from`, or pass its bytes:
///
/// ```
/// use hbase_client::Put;
///
/// # fn main() -> Result<(), std::num::TryFromIntError> {
/// let bytes_sent: u64 = 1_250;
/// let put = Put::new("xxxabc").cell("f", "sent", i64::try_from(bytes_sent)?);
/// # let _ = put;
/// # Ok(()) }
/// ```
///
/// # Order
///
/// HBase compares values as unsigned bytes, in conditions and in all comparators but one. Equality
/// holds for equal bytes: `0.0` and `-0.0` differ, and a `true` that another client wrote as `0x01`
/// differs from `0xFF`. For [`Less`](super::Comparison::Less) and its relatives the order of the
/// bytes is the order of the numbers only among numbers that are not negative: the sign bit puts
/// every negative number after all others, and negative floats are in reverse order among
/// themselves. Compare an `i64` with [`Comparator::long`](super::Comparator::long), which compares
/// as a signed number:
///
/// ```
/// use hbase_client::{Comparator, Comparison, Condition, Filter};
///
/// let overdrawn = Filter::column_value("f", "balance", Comparison::Less, Comparator::long(0));
/// let condition = Condition::matches("xxxabc", overdrawn);
/// # let _ = condition;
/// ```
///
/// Encodings whose bytes have the order of the numbers, such as those of HBase's `OrderedBytes`,
/// are not part of this library. For row keys write numbers as text of fixed width, or use a crate
/// for ordered encodings and pass its bytes.
///
/// # Example
///
/// ```
/// use hbase_client::{Condition, Put};
///
/// let put = Put::new("xxxabc").cell("f", "state", "new").cell("f", "total", 1250i64);
/// let condition = Condition::equal("xxxabc", "f", "paid", false);
/// # let _ = (put, condition);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no encoding as the value of a cell",
    label = "expected text, bytes, a `bool`, or a signed or floating-point number",
    note = "HBase's numbers are signed: convert an unsigned one by `i64::try_from`, and write `5i64` for a counter",
    note = "for the values of your application, implement `IntoValue` and `FromValue`"
)]
pub trait IntoValue {
    /// Converts into the bytes of a value.
    fn into_value(self) -> Bytes;
}

/// A type that the value of a cell can be read as.
///
/// Implemented for the types of [`IntoValue`]: `i16`, `i32`, `i64`, `f32`, `f64`, `bool`, `String`,
/// `&str`, `uuid::Uuid` (feature `uuid`), and for `Vec<u8>`, `&[u8]`, `[u8; N]` and [`Bytes`]. A
/// number has exactly the bytes of its type. As a `bool`, every byte but `0x00` is true. `&str`,
/// `&[u8]` and [`Bytes`] share the memory of the row.
///
/// Implement it for the values of your application; any error will do:
///
/// ```
/// use std::error::Error;
///
/// use bytes::Bytes;
/// use hbase_client::FromValue;
///
/// struct Cents(u64);
///
/// impl<'a> FromValue<'a> for Cents {
///     fn from_value(value: &'a Bytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
///         Ok(Self(str::from_utf8(value)?.parse()?))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the value of a cell cannot be read as `{Self}`",
    label = "expected text, bytes, a `bool`, or a signed or floating-point number",
    note = "HBase's numbers are signed: read an unsigned one as an `i64`, and convert it by `u64::try_from`",
    note = "for the values of your application, implement `IntoValue` and `FromValue`"
)]
pub trait FromValue<'a>: Sized {
    /// Reads the bytes of a value.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a value of this type. The error becomes the source of
    /// the [`Error`](crate::Error) that names the cell.
    fn from_value(value: &'a Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>>;
}

macro_rules! moved_or_shared {
    ($($bytes:ty => |$it:ident| $into:expr;)*) => { $(
        impl IntoBytes for $bytes {
            fn into_bytes(self) -> Bytes {
                let $it = self;
                $into
            }
        }
    )* };
}

moved_or_shared! {
    Bytes => |bytes| bytes;
    &Bytes => |bytes| bytes.clone();
    BytesMut => |bytes| bytes.freeze();
    Vec<u8> => |bytes| bytes.into();
    String => |text| text.into();
    Box<[u8]> => |bytes| bytes.into();
}

macro_rules! copied {
    ($([$($generics:tt)*] $bytes:ty;)*) => { $(
        impl<$($generics)*> IntoBytes for $bytes {
            fn into_bytes(self) -> Bytes {
                let bytes: &[u8] = self.as_ref();
                Bytes::copy_from_slice(bytes)
            }
        }
    )* };
}

copied! {
    [] &str;
    [] &&str;
    [] &String;
    [] &[u8];
    [] &&[u8];
    [] &Vec<u8>;
    [const N: usize] [u8; N];
    [const N: usize] &[u8; N];
    [const N: usize] &&[u8; N];
}

// Errors name `IntoValue`, which has numbers too.
#[diagnostic::do_not_recommend]
impl<T: IntoBytes> IntoValue for T {
    fn into_value(self) -> Bytes {
        self.into_bytes()
    }
}

macro_rules! numbers {
    ($($number:ident)*) => { $(
        impl IntoValue for $number {
            fn into_value(self) -> Bytes {
                Bytes::copy_from_slice(&self.to_be_bytes())
            }
        }

        impl FromValue<'_> for $number {
            fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
                sized(value, stringify!($number)).map(Self::from_be_bytes)
            }
        }
    )* };
}

numbers! { i16 i32 i64 f32 f64 }

impl IntoValue for bool {
    fn into_value(self) -> Bytes {
        Bytes::from_static(if self { &[0xFF] } else { &[0x00] })
    }
}

impl FromValue<'_> for bool {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        sized(value, "bool").map(|[byte]| byte != 0)
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(value: &'a Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(str::from_utf8(value)?)
    }
}

impl FromValue<'_> for String {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        <&str>::from_value(value).map(Self::from)
    }
}

impl FromValue<'_> for Bytes {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(value.clone())
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    fn from_value(value: &'a Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(value)
    }
}

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(value.to_vec())
    }
}

impl<const N: usize> FromValue<'_> for [u8; N] {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        sized(value, "array")
    }
}

#[cfg(feature = "uuid")]
impl IntoValue for uuid::Uuid {
    fn into_value(self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

#[cfg(feature = "uuid")]
impl FromValue<'_> for uuid::Uuid {
    fn from_value(value: &Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        sized(value, "UUID").map(Self::from_bytes)
    }
}

/// Returns the bytes of a type with a fixed width.
fn sized<const N: usize>(value: &Bytes, name: &str) -> Result<[u8; N], Box<dyn StdError + Send + Sync>> {
    let bytes = value[..].try_into();
    bytes.map_err(|_| format!("expected {N} for {name}").into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::{
        error::{Error, ErrorKind},
        model::{Cell, CellKind, Condition, Put, Row},
    };

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns a row with this value in `f:q`.
    fn row(value: impl IntoValue) -> Row {
        let key = Bytes::from("xxxabc");
        let (family, qualifier) = (Bytes::from("f"), Bytes::from("q"));
        let cell = Cell::new(
            key.clone(),
            family,
            qualifier,
            1,
            CellKind::Put,
            value.into_value(),
        );
        Row::new(key, vec![cell])
    }

    /// The bytes are those of `Bytes.toBytes` in HBase 2.6.4 for the same values.
    #[rstest]
    #[case(0i16, "0000")]
    #[case(1i16, "0001")]
    #[case(-1i16, "ffff")]
    #[case(258i16, "0102")]
    #[case(i16::MIN, "8000")]
    #[case(i16::MAX, "7fff")]
    #[case(1i32, "00000001")]
    #[case(-1i32, "ffffffff")]
    #[case(16_909_060i32, "01020304")]
    #[case(i32::MIN, "80000000")]
    #[case(i32::MAX, "7fffffff")]
    #[case(1i64, "0000000000000001")]
    #[case(-1i64, "ffffffffffffffff")]
    #[case(72_623_859_790_382_856i64, "0102030405060708")]
    #[case(i64::MIN, "8000000000000000")]
    #[case(i64::MAX, "7fffffffffffffff")]
    #[case(0f32, "00000000")]
    #[case(-0f32, "80000000")]
    #[case(1.5f32, "3fc00000")]
    #[case(-1.1f32, "bf8ccccd")]
    #[case(f32::from_bits(1), "00000001")]
    #[case(f32::MAX, "7f7fffff")]
    #[case(f32::NAN, "7fc00000")]
    #[case(f32::NEG_INFINITY, "ff800000")]
    #[case(0f64, "0000000000000000")]
    #[case(-0f64, "8000000000000000")]
    #[case(1.5f64, "3ff8000000000000")]
    #[case(-1.1f64, "bff199999999999a")]
    #[case(f64::from_bits(1), "0000000000000001")]
    #[case(f64::MAX, "7fefffffffffffff")]
    #[case(f64::NAN, "7ff8000000000000")]
    #[case(f64::INFINITY, "7ff0000000000000")]
    #[case(true, "ff")]
    #[case(false, "00")]
    #[case("", "")]
    #[case("grüß 😀", "6772c3bcc39f20f09f9880")]
    fn values_have_the_bytes_of_hbase(#[case] value: impl IntoValue, #[case] expected: &str) {
        assert_eq!(hex(&value.into_value()), expected);
    }

    #[cfg(feature = "uuid")]
    #[test]
    fn uuid_has_the_bytes_of_its_text() {
        let id: uuid::Uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
        assert_eq!(hex(&id.into_value()), "67e5504410b1426f9247bb680e5fe0c8");
        assert_eq!(row(id).get("f", "q").unwrap(), Some(id));
        let error = row("67e55044").get::<uuid::Uuid>("f", "q").unwrap_err();
        assert!(
            error.to_string().ends_with("of 8 bytes: expected 16 for UUID"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn numbers_round_trip(short: i16, int: i32, long: i64, float: f32, double: f64, flag: bool) {
            prop_assert_eq!(row(short).get("f", "q").unwrap(), Some(short));
            prop_assert_eq!(row(int).get("f", "q").unwrap(), Some(int));
            prop_assert_eq!(row(long).get("f", "q").unwrap(), Some(long));
            prop_assert_eq!(row(flag).get("f", "q").unwrap(), Some(flag));
            let bits = row(float).get::<f32>("f", "q").unwrap().map(f32::to_bits);
            prop_assert_eq!(bits, Some(float.to_bits()));
            let bits = row(double).get::<f64>("f", "q").unwrap().map(f64::to_bits);
            prop_assert_eq!(bits, Some(double.to_bits()));
        }

        #[test]
        fn text_round_trips(text: String) {
            let row = row(&text);
            prop_assert_eq!(row.get::<&str>("f", "q").unwrap(), Some(text.as_str()));
            prop_assert_eq!(row.get("f", "q").unwrap(), Some(text));
        }

        #[test]
        fn every_kind_of_bytes_is_the_same_bytes(bytes: Vec<u8>) {
            let expected = Bytes::from(bytes.clone());
            prop_assert_eq!(bytes.as_slice().into_bytes(), expected.clone());
            prop_assert_eq!((&bytes).into_bytes(), expected.clone());
            prop_assert_eq!(bytes.clone().into_boxed_slice().into_bytes(), expected.clone());
            prop_assert_eq!(BytesMut::from(&bytes[..]).into_bytes(), expected.clone());
            prop_assert_eq!((&expected).into_bytes(), expected.clone());
            let row = row(&bytes);
            prop_assert_eq!(row.get::<&[u8]>("f", "q").unwrap(), Some(&bytes[..]));
            prop_assert_eq!(row.get::<Bytes>("f", "q").unwrap(), Some(expected));
            prop_assert_eq!(row.get("f", "q").unwrap(), Some(bytes));
        }

        #[test]
        fn other_lengths_are_no_numbers(bytes: Vec<u8>) {
            let row = row(&bytes);
            prop_assert_eq!(row.get::<i16>("f", "q").is_ok(), bytes.len() == 2);
            prop_assert_eq!(row.get::<i32>("f", "q").is_ok(), bytes.len() == 4);
            prop_assert_eq!(row.get::<i64>("f", "q").is_ok(), bytes.len() == 8);
            prop_assert_eq!(row.get::<f32>("f", "q").is_ok(), bytes.len() == 4);
            prop_assert_eq!(row.get::<f64>("f", "q").is_ok(), bytes.len() == 8);
            prop_assert_eq!(row.get::<bool>("f", "q").is_ok(), bytes.len() == 1);
            prop_assert_eq!(row.get::<[u8; 3]>("f", "q").is_ok(), bytes.len() == 3);
        }
    }

    /// The results are those of `Bytes.toBoolean` in HBase 2.6.4.
    #[rstest]
    #[case(0x00, false)]
    #[case(0x01, true)]
    #[case(0x80, true)]
    #[case(0xFF, true)]
    fn every_byte_but_zero_is_true(#[case] byte: u8, #[case] expected: bool) {
        assert_eq!(row([byte]).get("f", "q").unwrap(), Some(expected));
    }

    #[test]
    #[allow(
        clippy::needless_borrows_for_generic_args,
        reason = "references are what is tested"
    )]
    fn names_are_of_any_kind() {
        let text = String::from("f");
        let key = Bytes::from("r");
        let put = Put::new(&key)
            .cell(&text, "q", 5i64)
            .cell(text.clone(), b"q", "v")
            .cell([b'f'], &&b"q"[..], vec![b'v'])
            .cell(&vec![b'f'], String::from("q"), b"v")
            .cell(&&text[..], &b"q", true);
        assert!(
            put.cells
                .iter()
                .all(|cell| cell.family == "f" && cell.qualifier == "q")
        );
        assert_eq!(
            put.row.as_ptr(),
            key.as_ptr(),
            "a reference to Bytes shares the memory"
        );
        assert_eq!(
            Condition::equal(key, &text, "q", 5i64).label_text(),
            r"r f:q = \x00\x00\x00\x00\x00\x00\x00\x05"
        );
    }

    #[test]
    fn owned_bytes_are_not_copied() {
        let (text, bytes) = ("x".repeat(100), vec![b'x'; 100]);
        let (of_text, of_bytes) = (text.as_ptr(), bytes.as_ptr());
        assert_eq!(text.into_value().as_ptr(), of_text);
        assert_eq!(bytes.into_value().as_ptr(), of_bytes);
        let stored = row("abc");
        let value = stored.value("f", "q").unwrap().as_ptr();
        assert_eq!(stored.get::<Bytes>("f", "q").unwrap().unwrap().as_ptr(), value);
        assert_eq!(stored.get::<&str>("f", "q").unwrap().unwrap().as_ptr(), value);
    }

    #[test]
    fn absent_cell_has_no_value() {
        assert_eq!(row("abc").get::<i64>("f", "other").unwrap(), None);
        assert_eq!(row("abc").get::<i64>("other", "q").unwrap(), None);
    }

    fn refusal(result: Result<Option<impl Sized>, Error>) -> String {
        let error = result.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(StdError::source(&error).is_some());
        error.to_string()
    }

    #[test]
    fn refusal_names_the_cell_and_its_length() {
        assert_eq!(
            refusal(row("abc").get::<i64>("f", "q")),
            "row xxxabc: cannot read cell f:q of 3 bytes: expected 8 for i64"
        );
        assert_eq!(
            refusal(row("").get::<bool>("f", "q")),
            "row xxxabc: cannot read cell f:q of 0 bytes: expected 1 for bool"
        );
        assert_eq!(
            refusal(row(b"ab\xFF").get::<String>("f", "q")),
            "row xxxabc: cannot read cell f:q of 3 bytes: invalid utf-8 sequence of 1 bytes from index 2"
        );
    }

    #[test]
    fn types_of_the_application_are_read_with_their_own_errors() {
        #[derive(Debug, PartialEq)]
        struct Cents(u64);

        impl<'a> FromValue<'a> for Cents {
            fn from_value(value: &'a Bytes) -> Result<Self, Box<dyn StdError + Send + Sync>> {
                Ok(Self(str::from_utf8(value)?.parse()?))
            }
        }

        assert_eq!(row("125").get("f", "q").unwrap(), Some(Cents(125)));
        assert_eq!(
            refusal(row("12.5").get::<Cents>("f", "q")),
            "row xxxabc: cannot read cell f:q of 4 bytes: invalid digit found in string"
        );
    }
}
