//! Comparators that only a server can evaluate exactly.

use std::fmt;

use super::{
    Comparator, Comparison,
    comparison::{Shown, no_order},
};
use crate::error::{Error, Result};

/// The longest name of a charset; Java's longest are half as long.
const MAX_CHARSET: usize = 64;

/// The operand of a comparison in a [`ReadFilter`](super::ReadFilter), and how it is compared.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparison, ReadFilter, Regex};
///
/// let in_2026 = ReadFilter::row(Comparison::Equal, Regex::new("^order-2026[0-9]{4}$"));
/// # let _ = in_2026;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadComparator {
    /// Compares in a way that the client can evaluate as well.
    Comparator(Comparator),
    /// Is equal to text that a regular expression matches: `RegexStringComparator`. Supports only
    /// equal and not equal.
    Regex(Regex),
    /// Compares decimal numbers as Java's `Bytes.toBytes(BigDecimal)` stores them:
    /// `BigDecimalComparator`. The number is `unscaled` · 10<sup>−`scale`</sup>; numbers of the same
    /// value are equal, whatever their scales. A stored value of less than five bytes is not equal,
    /// and neither smaller nor larger. Not for row keys.
    BigDecimal {
        /// The digits of the number.
        unscaled: i128,
        /// The number of these digits after the decimal point.
        scale: i32,
    },
}

impl ReadComparator {
    /// Rejects a comparison that this comparator does not support.
    pub(super) fn check(&self, comparison: Comparison) -> Result<()> {
        match self {
            Self::Comparator(comparator) => comparator.check(comparison),
            Self::Regex(regex) => {
                no_order(comparison, "a regular expression")?;
                regex.check()
            }
            Self::BigDecimal { .. } => Ok(()),
        }
    }

    /// Returns whether the server has a comparator that makes this comparison as a whole.
    pub(super) fn is_whole(&self, comparison: Comparison) -> bool {
        match self {
            Self::Comparator(comparator) => comparator.is_whole(comparison),
            Self::Regex(_) => true,
            Self::BigDecimal { .. } => false,
        }
    }
}

impl From<Comparator> for ReadComparator {
    fn from(comparator: Comparator) -> Self {
        Self::Comparator(comparator)
    }
}

impl From<Regex> for ReadComparator {
    fn from(regex: Regex) -> Self {
        Self::Regex(regex)
    }
}

/// A regular expression that the server evaluates: `RegexStringComparator`.
///
/// It is Java's, not that of Rust's crates. A value is equal if any part of it matches; anchor the
/// expression with `^` and `$` to match the whole value. The server rejects an expression that Java
/// cannot compile.
///
/// # Example
///
/// ```
/// use hbase_client::{Regex, RegexFlag};
///
/// let draft = Regex::new("draft|proposal").flags([RegexFlag::CaseInsensitive]);
/// # let _ = draft;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Regex {
    pub(crate) pattern: String,
    pub(crate) flags: Vec<RegexFlag>,
    pub(crate) engine: RegexEngine,
    pub(crate) charset: String,
}

/// A flag of a [`Regex`], named after those of `java.util.regex.Pattern`.
///
/// Java's documentation has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegexFlag {
    /// Only `\n` ends a line.
    UnixLines = 1,
    /// Letters of ASCII match in upper and lower case; all letters with
    /// [`UnicodeCase`](Self::UnicodeCase).
    CaseInsensitive = 2,
    /// Whitespace in the expression is ignored, and `#` starts a comment.
    Comments = 4,
    /// `^` and `$` match at the start and the end of each line.
    Multiline = 8,
    /// The expression is text to find.
    Literal = 16,
    /// `.` matches the end of a line as well.
    DotAll = 32,
    /// [`CaseInsensitive`](Self::CaseInsensitive) applies to all letters.
    UnicodeCase = 64,
    /// Characters match if their canonical decompositions do.
    CanonicalEquivalence = 128,
    /// `\w`, `\d` and the like are those of Unicode.
    UnicodeCharacterClass = 256,
}

/// The library by which a server evaluates a [`Regex`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RegexEngine {
    /// `java.util.regex`.
    #[default]
    Java,
    /// JRuby's Joni, which reads bytes without decoding them. It supports only the flags
    /// [`CaseInsensitive`](RegexFlag::CaseInsensitive), [`DotAll`](RegexFlag::DotAll) and
    /// [`Multiline`](RegexFlag::Multiline).
    Joni,
}

impl Regex {
    /// Creates a regular expression with the flag [`DotAll`](RegexFlag::DotAll), for text in UTF-8.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            flags: vec![RegexFlag::DotAll],
            engine: RegexEngine::Java,
            charset: "UTF-8".to_owned(),
        }
    }

    /// Replaces the flags.
    #[must_use]
    pub fn flags(mut self, flags: impl IntoIterator<Item = RegexFlag>) -> Self {
        self.flags = flags.into_iter().collect();
        self
    }

    /// Sets the library that evaluates the expression.
    #[must_use]
    pub fn engine(mut self, engine: RegexEngine) -> Self {
        self.engine = engine;
        self
    }

    /// Sets Java's name of the charset of the stored text. `ISO-8859-1` reads each byte as one
    /// character, so it suits values that are not text.
    #[must_use]
    pub fn charset(mut self, charset: impl Into<String>) -> Self {
        self.charset = charset.into();
        self
    }

    fn check(&self) -> Result<()> {
        let supported = [
            RegexFlag::CaseInsensitive,
            RegexFlag::DotAll,
            RegexFlag::Multiline,
        ];
        let other = self.flags.iter().find(|flag| !supported.contains(flag));
        if let (RegexEngine::Joni, Some(flag)) = (self.engine, other) {
            return Err(Error::invalid(format!(
                "flag {flag:?}, which Joni does not support"
            )));
        }
        let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-+.:_".contains(&byte);
        let name = self.charset.as_bytes();
        if name.first().is_some_and(u8::is_ascii_alphanumeric)
            && name.len() <= MAX_CHARSET
            && name.iter().copied().all(is_part_of_name)
        {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} is no name of a charset", Shown(name))))
        }
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{:?}", self.pattern, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Regex::new("a").charset(""), Comparison::Equal, "no name of a charset")]
    #[case(Regex::new("a").charset("UTF 8"), Comparison::Equal, "no name of a charset")]
    #[case(Regex::new("a").charset("-x"), Comparison::Equal, "no name of a charset")]
    #[case(
        Regex::new("a").engine(RegexEngine::Joni).flags([RegexFlag::Literal]),
        Comparison::Equal,
        "flag Literal, which Joni does not support"
    )]
    #[case(Regex::new("a"), Comparison::Less, "< with a regular expression")]
    fn invalid_expressions_are_refused(
        #[case] regex: Regex,
        #[case] comparison: Comparison,
        #[case] why: &str,
    ) {
        let error = ReadComparator::from(regex).check(comparison).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn flags_of_joni_are_allowed() {
        let regex = Regex::new("a")
            .engine(RegexEngine::Joni)
            .flags([RegexFlag::CaseInsensitive, RegexFlag::Multiline]);
        ReadComparator::from(regex).check(Comparison::NotEqual).unwrap();
    }
}
