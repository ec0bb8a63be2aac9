//! HBase's filter language, which HBase's shell and gateways accept: `ParseFilter`.

use std::str::FromStr;

use bytes::Bytes;

use super::{
    super::{
        Comparator, Comparison, DependentColumnFilter, Filter, ReadComparator, Regex,
        SingleColumnValueFilter, parse_bytes_binary,
    },
    ReadFilter,
};
use crate::error::{Error, Result};

/// The maximum number of nested parentheses and prefix operators.
const MAX_NESTING: usize = 64;

/// Parses HBase's filter language, such as `PrefixFilter('a') AND ValueFilter(=, 'binary:x')`.
///
/// The filters are those of HBase's shell. `SKIP` and `WHILE` bind closer than `AND`, and `AND` closer than
/// `OR`; parentheses group. A text is in single quotes, of which one inside is doubled. A byte of it can
/// be written `\xNN`, but not in the pattern of `'regexstring:…'`, which Java reads as it is. The source of
/// the grammar is `org.apache.hadoop.hbase.filter.ParseFilter`.
///
/// # Errors
///
/// Returns an error if the text is not a filter, with the column of the text where it ends to be one, or
/// if the filter is one that no read accepts.
///
/// # Examples
///
/// ```
/// use hbase_client::{ReadFilter, Scan};
///
/// let filter: ReadFilter = "SingleColumnValueFilter('f', 'state', =, 'binary:open', true, true)".parse()?;
/// let open_orders = Scan::prefix("order-").filter(filter);
/// # let _ = open_orders;
/// # Ok::<_, hbase_client::Error>(())
/// ```
impl FromStr for ReadFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let filter = parser.any(0)?;
        if !parser.rest().is_empty() {
            return Err(parser.error("expected AND, OR or the end"));
        }
        filter.check()?;
        Ok(filter)
    }
}

/// The text, and the position of what is not read yet.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Reads filters between which there is `OR`.
    fn any(&mut self, depth: usize) -> Result<ReadFilter> {
        let mut filters = vec![self.all(depth)?];
        while self.keyword("OR") {
            filters.push(self.all(depth)?);
        }
        Ok(single_or(filters, ReadFilter::any))
    }

    /// Reads filters between which there is `AND`.
    fn all(&mut self, depth: usize) -> Result<ReadFilter> {
        let mut filters = vec![self.one(depth)?];
        while self.keyword("AND") {
            filters.push(self.one(depth)?);
        }
        Ok(single_or(filters, ReadFilter::all))
    }

    fn one(&mut self, depth: usize) -> Result<ReadFilter> {
        if depth == MAX_NESTING {
            return Err(self.error("too many nested filters"));
        }
        if self.keyword("SKIP") {
            return Ok(ReadFilter::skip(self.one(depth + 1)?));
        }
        if self.keyword("WHILE") {
            return Ok(ReadFilter::while_match(self.one(depth + 1)?));
        }
        if self.symbol('(') {
            let filter = self.any(depth + 1)?;
            self.expect(')')?;
            return Ok(filter);
        }
        self.named()
    }

    /// Reads a filter with its arguments.
    fn named(&mut self) -> Result<ReadFilter> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error("expected the name of a filter"));
        }
        let start = self.at;
        self.at += length;
        let name = &rest[..length];
        self.expect('(')?;
        let mut arguments = Arguments {
            parser: self,
            count: 0,
        };
        let filter = match filter(name, &mut arguments) {
            Some(filter) => filter?,
            None => {
                self.at = start;
                return Err(self.error(&format!("there is no filter {name}")));
            }
        };
        self.expect(')')?;
        Ok(filter)
    }

    /// Returns what is not read yet, without spaces at its start.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    /// Reads a word in capitals if it is next.
    fn keyword(&mut self, word: &str) -> bool {
        let behind = self.rest().strip_prefix(word);
        let is_next = behind.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn symbol(&mut self, symbol: char) -> bool {
        let is_next = self.rest().starts_with(symbol);
        self.at += if is_next { symbol.len_utf8() } else { 0 };
        is_next
    }

    fn expect(&mut self, symbol: char) -> Result<()> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.error(&format!("expected {symbol}")))
        }
    }

    /// Returns an error at the present position.
    fn error(&self, why: &str) -> Error {
        Error::invalid(format!(
            "cannot parse the filter: {why} at column {}",
            self.at + 1
        ))
    }
}

/// The arguments of a filter that are not read yet.
struct Arguments<'p, 'a> {
    parser: &'p mut Parser<'a>,
    /// The number of those that were read.
    count: usize,
}

impl Arguments<'_, '_> {
    /// Returns whether there are more.
    fn has_more(&mut self) -> bool {
        !self.parser.rest().starts_with(')')
    }

    /// Reads the separator in front of an argument.
    fn start(&mut self) -> Result<()> {
        if self.count > 0 {
            self.parser.expect(',')?;
        }
        self.count += 1;
        Ok(())
    }

    /// Reads a text in quotes.
    fn text(&mut self) -> Result<String> {
        self.start()?;
        self.parser.expect('\'')?;
        let mut text = String::new();
        loop {
            let rest = &self.parser.text[self.parser.at..];
            let Some((part, behind)) = rest.split_once('\'') else {
                return Err(self.parser.error("the text has no closing quote"));
            };
            text.push_str(part);
            self.parser.at += part.len() + 1;
            if !behind.starts_with('\'') {
                return Ok(text);
            }
            text.push('\'');
            self.parser.at += 1;
        }
    }

    /// Reads a text in quotes, in which `\xNN` is a byte.
    fn bytes(&mut self) -> Result<Bytes> {
        parse_bytes_binary(&self.text()?)
    }

    /// Reads a word without quotes.
    fn word(&mut self) -> Result<&str> {
        self.start()?;
        let rest = self.parser.rest();
        let length = rest.find([',', ')']).unwrap_or(rest.len());
        self.parser.at += length;
        Ok(rest[..length].trim_end())
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let number = self.word()?.parse().ok();
        number.ok_or_else(|| self.parser.error("expected a whole number in front of this"))
    }

    fn flag(&mut self) -> Result<bool> {
        let flag = self.word()?.parse().ok();
        flag.ok_or_else(|| self.parser.error("expected true or false in front of this"))
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let comparison = match self.word()? {
            "=" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => {
                return Err(self
                    .parser
                    .error("expected =, !=, <, <=, > or >= in front of this"));
            }
        };
        Ok(comparison)
    }

    fn comparator(&mut self) -> Result<ReadComparator> {
        let text = self.text()?;
        let comparator = match text.split_once(':') {
            Some(("binary", value)) => Comparator::binary(parse_bytes_binary(value)?),
            Some(("binaryprefix", prefix)) => Comparator::prefix(parse_bytes_binary(prefix)?),
            Some(("substring", part)) => Comparator::substring(part),
            Some(("regexstring", pattern)) => return Ok(Regex::new(pattern).into()),
            _ => {
                let known = "expected binary:, binaryprefix:, substring: or regexstring: in front of this";
                return Err(self.parser.error(known));
            }
        };
        Ok(comparator.into())
    }

    /// Reads all arguments, at least one.
    fn each<T>(&mut self, read: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![read(self)?];
        while self.has_more() {
            all.push(read(self)?);
        }
        Ok(all)
    }
}

/// Returns the filter with this name, or `None` if there is none.
fn filter(name: &str, arguments: &mut Arguments<'_, '_>) -> Option<Result<ReadFilter>> {
    let read: fn(&mut Arguments<'_, '_>) -> Result<ReadFilter> = match name {
        "KeyOnlyFilter" => |_| Ok(ReadFilter::key_only()),
        "FirstKeyOnlyFilter" => |_| Ok(ReadFilter::first_key_only()),
        "PrefixFilter" => |it| Ok(ReadFilter::row_prefix(it.bytes()?)),
        "InclusiveStopFilter" => |it| Ok(ReadFilter::inclusive_stop(it.bytes()?)),
        "PageFilter" => |it| Ok(ReadFilter::page(it.number()?)),
        "ColumnCountGetFilter" => |it| Ok(ReadFilter::column_count(it.number()?)),
        "ColumnPaginationFilter" => |it| Ok(ReadFilter::column_page(it.number()?, it.number()?)),
        "ColumnPrefixFilter" => |it| Ok(Filter::column_prefix(it.bytes()?).into()),
        "MultipleColumnPrefixFilter" => |it| Ok(ReadFilter::column_prefixes(it.each(Arguments::bytes)?)),
        "ColumnRangeFilter" => column_range,
        "TimestampsFilter" => |it| Ok(ReadFilter::timestamps(it.each(Arguments::number)?)),
        "RowFilter" => |it| Ok(ReadFilter::row(it.comparison()?, it.comparator()?)),
        "FamilyFilter" => |it| Ok(ReadFilter::family(it.comparison()?, it.comparator()?)),
        "QualifierFilter" => |it| Ok(ReadFilter::qualifier(it.comparison()?, it.comparator()?)),
        "ValueFilter" => |it| Ok(ReadFilter::value(it.comparison()?, it.comparator()?)),
        "ColumnValueFilter" => |it| {
            let (family, qualifier) = (it.bytes()?, it.bytes()?);
            Ok(ReadFilter::column_value(
                family,
                qualifier,
                it.comparison()?,
                it.comparator()?,
            ))
        },
        "SingleColumnValueFilter" => |it| Ok(single_column_value(it)?.into()),
        "SingleColumnValueExcludeFilter" => |it| Ok(single_column_value(it)?.exclude_column(true).into()),
        "DependentColumnFilter" => dependent_column,
        _ => return None,
    };
    Some(read(arguments))
}

fn column_range(arguments: &mut Arguments<'_, '_>) -> Result<ReadFilter> {
    use std::ops::Bound;

    let (start, is_inclusive) = (arguments.bytes()?, arguments.flag()?);
    let start = if is_inclusive {
        Bound::Included(start)
    } else {
        Bound::Excluded(start)
    };
    let (stop, is_inclusive) = (arguments.bytes()?, arguments.flag()?);
    let stop = if is_inclusive {
        Bound::Included(stop)
    } else {
        Bound::Excluded(stop)
    };
    Ok(ReadFilter::column_range((start, stop)))
}

fn single_column_value(arguments: &mut Arguments<'_, '_>) -> Result<SingleColumnValueFilter> {
    let (family, qualifier) = (arguments.bytes()?, arguments.bytes()?);
    let (comparison, comparator) = (arguments.comparison()?, arguments.comparator()?);
    let filter = SingleColumnValueFilter::new(family, qualifier, comparison, comparator);
    if arguments.has_more() {
        Ok(filter
            .filter_if_missing(arguments.flag()?)
            .latest_version_only(arguments.flag()?))
    } else {
        Ok(filter)
    }
}

fn dependent_column(arguments: &mut Arguments<'_, '_>) -> Result<ReadFilter> {
    let mut filter = DependentColumnFilter::new(arguments.bytes()?, arguments.bytes()?);
    if arguments.has_more() {
        filter = filter.drop_column(arguments.flag()?);
    }
    if arguments.has_more() {
        filter = filter.value(arguments.comparison()?, arguments.comparator()?);
    }
    Ok(filter.into())
}

/// Returns the filter if there is only one, or else a list of them.
fn single_or(mut filters: Vec<ReadFilter>, list: fn(Vec<ReadFilter>) -> ReadFilter) -> ReadFilter {
    match filters.len() {
        1 => filters.remove(0),
        _ => list(filters),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn value(text: &str) -> ReadFilter {
        ReadFilter::value(Comparison::Equal, Comparator::binary(text))
    }

    #[rstest]
    #[case("PrefixFilter ('it''s\\x00')", ReadFilter::row_prefix(&b"it's\0"[..]))]
    #[case(
        r"RowFilter(!=,'regexstring:^\d+$')",
        ReadFilter::row(Comparison::NotEqual, Regex::new(r"^\d+$"))
    )]
    #[case(
        "ValueFilter(=,'binary:a') OR SKIP ValueFilter(=,'binary:b') AND KeyOnlyFilter()",
        ReadFilter::any([value("a"), ReadFilter::all([ReadFilter::skip(value("b")), ReadFilter::key_only()])])
    )]
    #[case(
        "(ValueFilter(=,'binary:a') OR ValueFilter(=,'binary:b')) AND KeyOnlyFilter()",
        ReadFilter::all([ReadFilter::any([value("a"), value("b")]), ReadFilter::key_only()])
    )]
    #[case(
        "DependentColumnFilter('f','q',true,=,'substring:a:b')",
        DependentColumnFilter::new("f", "q").drop_column(true).value(Comparison::Equal, Comparator::substring("a:b")).into()
    )]
    fn filters_are_parsed(#[case] text: &str, #[case] expected: ReadFilter) {
        assert_eq!(text.parse::<ReadFilter>().unwrap(), expected);
    }

    #[rstest]
    #[case("", "expected the name of a filter at column 1")]
    #[case("PrefixFilter('a'", "expected ) at column 17")]
    #[case("PrefixFilter('a') x", "expected AND, OR or the end at column 19")]
    #[case("PrefixFilter('a') OR", "expected the name of a filter at column 21")]
    #[case("PrefixFilter('a)", "no closing quote")]
    #[case("PrefixFilter(a)", "expected ' at column 14")]
    #[case("PrefixFilter('a', 'b')", "expected ) at column 17")]
    #[case("NoFilter('a')", "there is no filter NoFilter at column 1")]
    #[case("ValueFilter(~, 'binary:a')", "expected =, !=")]
    #[case("ValueFilter(=, 'a')", "expected binary:")]
    #[case("PageFilter(-1)", "a whole number")]
    #[case("ColumnRangeFilter('a', yes, 'b', no)", "true or false")]
    #[case("ValueFilter(<, 'substring:a')", "substring")]
    fn other_texts_are_refused(#[case] text: &str, #[case] why: &str) {
        let refusal = text.parse::<ReadFilter>().unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "(".repeat(1_000_000) + "KeyOnlyFilter()";
        let refusal = deep.parse::<ReadFilter>().unwrap_err().to_string();
        assert!(refusal.contains("too many nested"), "{refusal}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[A-Za-z()',=<>!: \\\\é0-9]{0,40}", head in 0..4_usize) {
            let head = ["", "PrefixFilter('", "ValueFilter(=, 'binary:", "SKIP ("][head];
            let _ = format!("{head}{text}").parse::<ReadFilter>();
        }
    }
}
