//! A TOML table with known keys: each key is taken once, and the keys left over are unknown.

use std::ops::Range;

use bytes::Bytes;
use hbase_client::parse_bytes_binary;
use jiff::{SpanRelativeTo, fmt::friendly::SpanParser};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::faults::Faults;
use crate::attribute::FOREVER;

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: Range<usize>,
}

/// A table that is being read.
pub(super) struct Section<'d> {
    /// The name of the table in error messages.
    what: &'static str,
    table: &'d DeTable<'d>,
    place: Range<usize>,
    known: Vec<&'static str>,
}

impl<'d> Section<'d> {
    pub(super) const fn of(what: &'static str, table: &'d DeTable<'d>, place: Range<usize>) -> Self {
        Self {
            what,
            table,
            place,
            known: Vec::new(),
        }
    }

    /// The position of the whole table.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// The position of a key, if it is present.
    pub(super) fn place_of(&self, key: &str) -> Option<Range<usize>> {
        self.table.get_key_value(key).map(|(key, _)| key.span())
    }

    fn take(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// Takes a string.
    pub(super) fn text(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Placed<&'d str>> {
        let value = self.take(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            faults.add(value.span(), wrong_type(key, "text in quotes", value));
        }
        text.map(|text| placed(text, value))
    }

    /// Takes bytes, in the notation of HBase's shell.
    pub(super) fn bytes(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Placed<Bytes>> {
        let value = self.take(key)?;
        bytes(key, value, faults)
    }

    /// Takes a list of bytes.
    pub(super) fn byte_list(
        &mut self,
        key: &'static str,
        faults: &mut Faults<'_>,
    ) -> Option<Placed<Vec<Placed<Bytes>>>> {
        let value = self.take(key)?;
        let Some(list) = value.get_ref().as_array() else {
            faults.add(value.span(), wrong_type(key, "a list of texts", value));
            return None;
        };
        let items = list.iter().filter_map(|item| bytes(key, item, faults)).collect();
        Some(placed(items, value))
    }

    /// Takes a boolean.
    pub(super) fn flag(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Placed<bool>> {
        let value = self.take(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            faults.add(value.span(), wrong_type(key, "true or false", value));
        }
        flag.map(|flag| placed(flag, value))
    }

    /// Takes an integer from `least` to `most`.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        least: u64,
        most: u64,
        faults: &mut Faults<'_>,
    ) -> Option<Placed<u64>> {
        let value = self.take(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            faults.add(value.span(), wrong_type(key, "a whole number", value));
            return None;
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if (least..=most).contains(&number) => Some(placed(number, value)),
            _ => {
                faults.add(
                    value.span(),
                    format!("{key} is {number}; it is from {least} to {most}"),
                );
                None
            }
        }
    }

    /// Takes one of these words, in upper or lower case. Returns it in HBase's spelling.
    pub(super) fn word(
        &mut self,
        key: &'static str,
        words: &[&'static str],
        faults: &mut Faults<'_>,
    ) -> Option<Placed<&'static str>> {
        let text = self.text(key, faults)?;
        let word = words.iter().find(|word| word.eq_ignore_ascii_case(text.value));
        if word.is_none() {
            let reason = format!("{key} is {:?}; it is one of {}", text.value, words.join(", "));
            faults.add(text.place.clone(), reason);
        }
        word.map(|word| Placed {
            value: *word,
            place: text.place,
        })
    }

    /// Takes a duration in whole seconds, such as `30s`, `5m`, `12h` or `90d`, or `forever`.
    pub(super) fn seconds(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Placed<u64>> {
        let text = self.text(key, faults)?;
        match seconds(text.value) {
            Some(seconds) => Some(Placed {
                value: seconds,
                place: text.place,
            }),
            None => {
                let reason = format!(
                    "{key} is {:?}; write a time as \"30s\", \"5m\", \"12h\" or \"90d\", of at least a second and at most \
                     68 years, or \"forever\"",
                    text.value
                );
                faults.add(text.place, reason);
                None
            }
        }
    }

    /// Takes a subtable.
    pub(super) fn section(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Self> {
        let value = self.take(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            faults.add(value.span(), wrong_type(key, "a table", value));
        }
        table.map(|table| Self::of(key, table, value.span()))
    }

    /// Takes an array of subtables, each under `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Vec<Self> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let mut sections = Vec::new();
        match value.get_ref().as_array() {
            None => faults.add(
                value.span(),
                format!(
                    "{}, each under [[{key}]]",
                    wrong_type(key, "a list of tables", value)
                ),
            ),
            Some(list) => {
                for item in list {
                    match item.get_ref().as_table() {
                        Some(table) => sections.push(Self::of(key, table, item.span())),
                        None => faults.add(item.span(), wrong_type(key, "a table", item)),
                    }
                }
            }
        }
        sections
    }

    /// Returns all keys of a table with free keys, and their values as text.
    pub(super) fn entries(self, faults: &mut Faults<'_>) -> Vec<(Placed<&'d str>, String)> {
        let mut entries = Vec::new();
        for (key, value) in self.table {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => {
                    faults.add(
                        value.span(),
                        wrong_type(key.get_ref(), "text, a decimal number, or true or false", value),
                    );
                    continue;
                }
            };
            let key = Placed {
                value: key.get_ref().as_ref(),
                place: key.span(),
            };
            entries.push((key, text));
        }
        entries
    }

    /// Records an error for each key that was not taken.
    pub(super) fn finish(self, faults: &mut Faults<'_>) {
        for key in self.table.keys() {
            if !self.known.contains(&key.get_ref().as_ref()) {
                let reason = format!(
                    "unknown key {:?} in {}; known are {}",
                    key.get_ref(),
                    self.what,
                    self.known.join(", ")
                );
                faults.add(key.span(), reason);
            }
        }
    }
}

fn placed<T>(value: T, at: &Spanned<DeValue<'_>>) -> Placed<T> {
    Placed {
        value,
        place: at.span(),
    }
}

fn wrong_type(key: &str, wanted: &str, found: &Spanned<DeValue<'_>>) -> String {
    let found = match found.get_ref() {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or a time of day",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("{key} is {found}; it is {wanted}")
}

fn bytes(key: &str, value: &Spanned<DeValue<'_>>, faults: &mut Faults<'_>) -> Option<Placed<Bytes>> {
    let Some(text) = value.get_ref().as_str() else {
        faults.add(value.span(), wrong_type(key, "text in quotes", value));
        return None;
    };
    if faults.is_escaped(&value.span()) {
        let reason = format!(
            r"{key}: in double quotes a backslash is TOML's own; write bytes in single quotes, as '\x00\xFF'"
        );
        faults.add(value.span(), reason);
        return None;
    }
    match parse_bytes_binary(text) {
        Ok(bytes) => Some(placed(bytes, value)),
        Err(error) => {
            faults.add(value.span(), format!("{key}: {error}"));
            None
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    if text.eq_ignore_ascii_case("forever") {
        return Some(FOREVER);
    }
    let span = SpanParser::new().parse_span(text).ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let seconds = u64::try_from(duration.as_secs()).ok()?;
    (duration.subsec_nanos() == 0 && (1..=FOREVER).contains(&seconds)).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("30s", Some(30))]
    #[case("5m", Some(300))]
    #[case("12h", Some(43_200))]
    #[case("90d", Some(7_776_000))]
    #[case("forever", Some(FOREVER))]
    #[case("FOREVER", Some(FOREVER))]
    #[case("0s", None)]
    #[case("30", None)]
    #[case("s", None)]
    #[case("", None)]
    #[case("-1s", None)]
    #[case("1.5h", Some(5_400))]
    #[case("1d12h", Some(129_600))]
    #[case("1.5s", None)]
    #[case("1.5d", None)]
    #[case("500ms", None)]
    #[case("30000d", None)]
    #[case("99999999999999999999d", None)]
    fn times_are_whole_seconds(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(seconds(text), expected);
    }
}
