//! Java's regular expressions, as far as Rust's have the same meaning.

use hbase_protocol as pb;
use regex_lite::RegexBuilder;

use crate::exception::{Exception, Result};

/// The flags of `java.util.regex.Pattern` that are modelled.
const CASE_INSENSITIVE: i32 = 2;
const MULTILINE: i32 = 8;
const DOTALL: i32 = 32;

/// What Java reads differently, beside the syntax that Rust's does not have.
const OTHER_MEANING: [&str; 7] = ["&&", "[:", "*+", "++", "?+", "}+", "(?"];
/// The characters that end a line in Java, beside `\n`.
const LINE_ENDS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// `RegexStringComparator`.
pub(super) struct Regex {
    regex: regex_lite::Regex,
    charset: Charset,
    multi_line: bool,
    dot_all: bool,
}

enum Charset {
    Utf8,
    Latin1,
}

impl Regex {
    pub(super) fn new(message: &pb::RegexStringComparator) -> Result<Self> {
        let pb::RegexStringComparator {
            pattern,
            pattern_flags: flags,
            charset,
            engine,
        } = message;
        let not_modelled = |what: String| Err(Exception::not_modelled(what));
        if flags & !(CASE_INSENSITIVE | MULTILINE | DOTALL) != 0 {
            return not_modelled(format!("flags {flags} of a regular expression"));
        }
        if OTHER_MEANING.iter().any(|part| pattern.contains(part)) {
            return not_modelled(format!("regular expression {pattern}"));
        }
        let charset = match (charset.as_str(), engine.as_deref()) {
            ("UTF-8", None | Some("JAVA" | "JONI")) => Charset::Utf8,
            ("ISO-8859-1", None | Some("JAVA" | "JONI")) => Charset::Latin1,
            _ => {
                return not_modelled(format!(
                    "a regular expression in {charset} with engine {engine:?}"
                ));
            }
        };
        let multi_line = flags & MULTILINE != 0;
        let dot_all = flags & DOTALL != 0;
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(flags & CASE_INSENSITIVE != 0)
            .multi_line(multi_line)
            .dot_matches_new_line(dot_all)
            .build();
        match regex {
            Ok(regex) => Ok(Self {
                regex,
                charset,
                multi_line,
                dot_all,
            }),
            Err(error) => not_modelled(format!("regular expression {pattern}: {error}")),
        }
    }

    /// Returns whether any part of the value matches.
    pub(super) fn finds(&self, stored: &[u8]) -> Result<bool> {
        let text = match self.charset {
            Charset::Utf8 => String::from_utf8_lossy(stored),
            Charset::Latin1 => stored.iter().map(|byte| char::from(*byte)).collect(),
        };
        if self.reads_lines_of(&text) {
            return Err(Exception::not_modelled(format!(
                "regular expression {} on a value of several lines",
                self.regex.as_str()
            )));
        }
        Ok(self.regex.is_match(&text))
    }
    /// Returns whether the ends of lines in a value mean something else in Java: `$` matches before
    /// the last one, and lines end in more ways.
    fn reads_lines_of(&self, text: &str) -> bool {
        let has = |parts: &[char]| self.regex.as_str().contains(parts);
        let ends_line = text.ends_with('\n') || text.ends_with(LINE_ENDS);
        let anchors = if self.multi_line { &['^', '$'][..] } else { &['$'] };
        ends_line && has(anchors)
            || text.contains(LINE_ENDS) && (self.multi_line && has(anchors) || !self.dot_all && has(&['.']))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn regex(pattern: &str, flags: i32, charset: &str) -> Result<Regex> {
        Regex::new(&pb::RegexStringComparator {
            pattern: pattern.into(),
            pattern_flags: flags,
            charset: charset.into(),
            engine: None,
        })
    }

    #[rstest]
    #[case("^b.$", 0, b"bc", true)]
    #[case("b", 0, b"abc", true)]
    #[case("b$", 0, b"a\nb", true)]
    #[case("^B", CASE_INSENSITIVE, b"bc", true)]
    #[case("^b", MULTILINE, b"a\nb", true)]
    #[case("a.b", DOTALL, b"a\nb", true)]
    #[case("a.b", 0, b"a\nb", false)]
    #[case("^.{2}", DOTALL, b"\xff\xfe", true)]
    #[case("^.{3}", DOTALL, b"\xff\xfe", false)]
    fn finds_what_java_finds(
        #[case] pattern: &str,
        #[case] flags: i32,
        #[case] stored: &[u8],
        #[case] found: bool,
    ) {
        let regex = regex(pattern, flags, "ISO-8859-1").unwrap();
        assert_eq!(regex.finds(stored).unwrap(), found);
    }

    #[rstest]
    #[case("a$", 0, b"a\n")]
    #[case("^a", MULTILINE, b"b\ra")]
    #[case("a.", 0, b"a\r")]
    fn other_ends_of_lines_are_refused(#[case] pattern: &str, #[case] flags: i32, #[case] stored: &[u8]) {
        let regex = regex(pattern, flags, "UTF-8").unwrap();
        assert!(regex.finds(stored).unwrap_err().is_not_modelled());
    }

    #[rstest]
    #[case("a++", 0, "UTF-8")]
    #[case("(?=a)", 0, "UTF-8")]
    #[case("[a&&b]", 0, "UTF-8")]
    #[case("(", 0, "UTF-8")]
    #[case("a", 4, "UTF-8")]
    #[case("a", 0, "UTF-16")]
    fn other_expressions_are_refused(#[case] pattern: &str, #[case] flags: i32, #[case] charset: &str) {
        let refusal = regex(pattern, flags, charset).err().unwrap();
        assert!(refusal.is_not_modelled(), "{refusal:?}");
    }
}
