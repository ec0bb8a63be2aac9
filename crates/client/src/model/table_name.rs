//! A table's name, with its namespace.

use std::{fmt, str::FromStr, sync::Arc};

use crate::error::{Error, Result};

/// The name of a table: `qualifier` in the namespace `default`, or `namespace:qualifier`.
///
/// # Example
///
/// ```
/// use hbase_client::TableName;
///
/// let orders: TableName = "shop:orders".parse().unwrap();
/// assert_eq!((orders.namespace(), orders.qualifier()), ("shop", "orders"));
/// assert_eq!("default:orders".parse::<TableName>().unwrap().to_string(), "orders");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    // Every clone of a table's handle has a name.
    namespace: Arc<str>,
    qualifier: Arc<str>,
}

/// A type that is accepted as the name of a table: a [`TableName`], or text that is parsed as one.
///
/// Every call that takes a table's name returns an error of the kind
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the text is not a name.
///
/// # Example
///
/// ```
/// use hbase_client::TableName;
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// let orders = connection.table("shop:orders")?;
///
/// let name: TableName = "shop:customers".parse()?;
/// let customers = connection.table(&name)?;
/// # assert_eq!((orders.name().namespace(), customers.name()), ("shop", &name));
/// # Ok(()) });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a table",
    label = "expected text or a `TableName`",
    note = "pass text such as `\"orders\"` or `\"shop:orders\"`, or a `TableName`"
)]
pub trait IntoTableName {
    /// Converts into a table's name.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a name; see [`TableName::new`].
    fn into_table_name(self) -> Result<TableName>;
}

impl IntoTableName for TableName {
    fn into_table_name(self) -> Result<TableName> {
        Ok(self)
    }
}

impl IntoTableName for &TableName {
    fn into_table_name(self) -> Result<TableName> {
        Ok(self.clone())
    }
}

impl IntoTableName for &str {
    fn into_table_name(self) -> Result<TableName> {
        self.parse()
    }
}

impl IntoTableName for String {
    fn into_table_name(self) -> Result<TableName> {
        self.parse()
    }
}

impl IntoTableName for &String {
    fn into_table_name(self) -> Result<TableName> {
        self.parse()
    }
}

const DEFAULT_NAMESPACE: &str = "default";

impl TableName {
    /// The maximum length of a namespace and of a qualifier, in bytes. Both are names of directories, and
    /// no file system of HBase allows longer ones.
    pub const MAX_PART: usize = 255;

    /// Returns the name of `hbase:meta`, the table of regions.
    pub(crate) fn meta() -> Self {
        Self {
            namespace: "hbase".into(),
            qualifier: "meta".into(),
        }
    }

    /// Creates a name from a namespace and a qualifier.
    ///
    /// # Errors
    ///
    /// Returns an error for names that violate HBase's rules: a namespace consists of letters,
    /// digits and `_`; a qualifier may also contain `-` and `.`, but not as its first character;
    /// neither is empty, or longer than [`MAX_PART`](Self::MAX_PART).
    pub fn new(namespace: &str, qualifier: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::invalid(format!(
                "{:?} can't be a table's name: {why}",
                format!("{namespace}:{qualifier}")
            )))
        };
        if namespace.len() > Self::MAX_PART || qualifier.len() > Self::MAX_PART {
            return Err(Error::invalid(format!(
                "a table's name with a part of {} bytes; each has {} at most",
                namespace.len().max(qualifier.len()),
                Self::MAX_PART
            )));
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        if namespace.is_empty() || !namespace.chars().all(word) {
            return refuse("a namespace has letters, digits and underscores, and at least one of them");
        }
        if qualifier.is_empty() || !qualifier.chars().all(|c| word(c) || c == '-' || c == '.') {
            return refuse("a table has letters, digits, '_', '-' and '.', and at least one of them");
        }
        if qualifier.starts_with(['-', '.']) {
            return refuse("a table can't begin with '-' or '.'");
        }
        Ok(Self {
            namespace: namespace.into(),
            qualifier: qualifier.into(),
        })
    }

    /// Returns the namespace; `default` if the name has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name within the namespace.
    #[must_use]
    pub fn qualifier(&self) -> &str {
        &self.qualifier
    }

    /// Returns whether this is one of HBase's own tables.
    #[must_use]
    pub fn is_system(&self) -> bool {
        *self.namespace == *"hbase"
    }

    /// Returns whether this is `hbase:meta`.
    pub(crate) fn is_meta(&self) -> bool {
        self.is_system() && *self.qualifier == *"meta"
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((namespace, qualifier)) => Self::new(namespace, qualifier),
            None => Self::new(DEFAULT_NAMESPACE, text),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.namespace != *DEFAULT_NAMESPACE {
            write!(f, "{}:", self.namespace)?;
        }
        f.write_str(&self.qualifier)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableName({self})")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("")]
    #[case("a:")]
    #[case(":a")]
    #[case("a:b:c")]
    #[case("-a")]
    #[case(".a")]
    #[case("a b")]
    #[case("a,b")]
    #[case("n-s:a")]
    fn refuses_what_hbase_refuses(#[case] name: &str) {
        let error = name.parse::<TableName>().unwrap_err();
        assert!(error.to_string().contains("can't be a table's name"), "{error}");
    }

    #[test]
    fn refuses_a_part_that_no_directory_could_have() {
        assert!("q".repeat(255).parse::<TableName>().is_ok());
        let error = "q".repeat(40_000).parse::<TableName>().unwrap_err().to_string();
        assert!(error.contains("40000 bytes") && error.len() < 100, "{error}");
    }

    #[test]
    fn text_of_any_kind_becomes_a_name() {
        let (text, name) = (
            String::from("shop:orders"),
            TableName::new("shop", "orders").unwrap(),
        );
        assert_eq!("shop:orders".into_table_name().unwrap(), name);
        assert_eq!((&text).into_table_name().unwrap(), name);
        assert_eq!(text.into_table_name().unwrap(), name);
        assert_eq!((&name).into_table_name().unwrap(), name);
        assert_eq!(name.clone().into_table_name().unwrap(), name);
        let error = "shop:or ders".into_table_name().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
    }

    #[rstest]
    #[case("a", "a")]
    #[case("default:a", "a")]
    #[case("hbase:meta", "hbase:meta")]
    #[case("a.b-c_1", "a.b-c_1")]
    fn leaves_out_the_default_namespace(#[case] name: &str, #[case] shown: &str) {
        assert_eq!(name.parse::<TableName>().unwrap().to_string(), shown);
    }
}
