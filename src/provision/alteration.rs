//! Single things that are changed about a table.

use bytes::Bytes;

use super::attribute::RULE_ATTRIBUTES;
use crate::{
    error::{Error, Result},
    model::{BytesBinary, FamilyDescriptor, PartitionRule, TableDescriptor},
};

/// HBase's "for ever", in seconds.
const FOREVER: &str = "2147483647";

/// Single things that are to be changed about a table; all else stays as it is. [`Plan::read_for`](super::Plan::read_for) says what
/// that means for the table, and does it.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use hbase_txn::{PartitionRule, provision::{Plan, TableAlteration}};
///
/// let alteration = TableAlteration::new()
///     .rule(PartitionRule::prefix_length(3)?)
///     .endpoint();
/// let found = connection.admin().descriptor(&"orders".parse()?).await?;
/// let plan = Plan::read_for(&connection, &alteration.of(&found)?).await?;
/// plan.apply(&connection, &()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableAlteration {
    rule: Option<PartitionRule>,
    endpoint: bool,
    record_family: bool,
    partition_version: bool,
    lock_family: bool,
    families: Vec<Bytes>,
    attributes: Vec<(Bytes, Option<Bytes>)>,
    family_attributes: Vec<(Bytes, Bytes, Bytes)>,
}

impl TableAlteration {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// States this partition rule, and no other: the split restriction, and the older policy for servers without it, unless
    /// the table has a split policy of its own.
    #[must_use]
    pub fn rule(mut self, rule: PartitionRule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Attaches `MultiRowMutationEndpoint`.
    #[must_use]
    pub fn endpoint(mut self) -> Self {
        self.endpoint = true;
        self
    }

    /// Adds the family for records of transactions, or gives it the settings that they need.
    #[must_use]
    pub fn record_family(mut self) -> Self {
        self.record_family = true;
        self
    }

    /// Gives each partition a version; see [`TableDescriptor::with_partition_version`].
    #[must_use]
    pub fn partition_version(mut self) -> Self {
        self.partition_version = true;
        self
    }

    /// Adds the family for locks and latches in partitions.
    #[must_use]
    pub fn lock_family(mut self) -> Self {
        self.lock_family = true;
        self
    }

    /// Adds a column family, unless the table has it.
    #[must_use]
    pub fn family(mut self, name: impl Into<Bytes>) -> Self {
        self.families.push(name.into());
        self
    }

    /// Lets HBase split the table's regions, or not.
    #[must_use]
    pub fn splits(self, on: bool) -> Self {
        self.attribute("SPLIT_ENABLED", on.to_string())
    }

    /// Lets HBase merge the table's regions, or not.
    #[must_use]
    pub fn merges(self, on: bool) -> Self {
        self.attribute("MERGE_ENABLED", on.to_string())
    }

    /// Sets an attribute of the table, as HBase keeps it.
    #[must_use]
    pub fn attribute(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.attributes.push((key.into(), Some(value.into())));
        self
    }

    /// Removes an attribute of the table.
    #[must_use]
    pub fn without_attribute(mut self, key: impl Into<Bytes>) -> Self {
        self.attributes.push((key.into(), None));
        self
    }

    /// Sets an attribute of a family, as HBase keeps it; `FOREVER` for a `TTL` is what HBase's shell takes it for.
    #[must_use]
    pub fn family_attribute(
        mut self,
        family: impl Into<Bytes>,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Self {
        let (key, value) = (key.into(), value.into());
        let value = match &key[..] == b"TTL" && value.eq_ignore_ascii_case(b"FOREVER") {
            true => Bytes::from_static(FOREVER.as_bytes()),
            false => value,
        };
        self.family_attributes.push((family.into(), key, value));
        self
    }

    /// Whether nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The descriptor that a table gets by it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an attribute of a family that the table does not have.
    pub fn of(&self, found: &TableDescriptor) -> Result<TableDescriptor> {
        let mut wanted = found.clone();
        if let Some(rule) = &self.rule {
            wanted = with_rule(wanted, rule);
        }
        for name in &self.families {
            if wanted.family(name).is_none() {
                wanted = wanted.with_family(FamilyDescriptor::new(name.clone()));
            }
        }
        if self.record_family {
            wanted = wanted.with_record_family();
        }
        if self.partition_version {
            wanted = wanted.with_partition_version();
        }
        if self.lock_family {
            wanted = wanted.with_lock_family();
        }
        if self.endpoint {
            wanted = wanted.with_multi_row_mutation_endpoint();
        }
        for (key, value) in &self.attributes {
            match value {
                Some(value) => wanted.attributes.insert(key.clone(), value.clone()),
                None => wanted.attributes.remove(key),
            };
        }
        for (name, key, value) in &self.family_attributes {
            let Some(family) = wanted.family(name) else {
                let what = format!("the table has no family {}", BytesBinary(name));
                return Err(Error::invalid(what).at_table(&found.name));
            };
            let family = family.clone().with_attribute(key.clone(), value.clone());
            wanted = wanted.with_family(family);
        }
        Ok(wanted)
    }
}

/// What other rules left would contradict this one, or look so to those who read them.
fn with_rule(mut table: TableDescriptor, rule: &PartitionRule) -> TableDescriptor {
    const POLICY: &str = "SPLIT_POLICY";
    let policy = table.attribute(POLICY).map(str::to_owned);
    let own_policy = policy.filter(|policy| !policy.ends_with("KeyPrefixRegionSplitPolicy"));
    for key in RULE_ATTRIBUTES {
        table.attributes.remove(key.as_bytes());
    }
    table = table.with_partition_rule(rule);
    match own_policy {
        Some(policy) => table.with_attribute(POLICY, policy),
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> TableDescriptor {
        TableDescriptor::new("t".parse().unwrap()).with_family(FamilyDescriptor::new("f"))
    }

    #[test]
    fn another_rule_leaves_nothing_of_the_one_before() {
        let by_length = found().with_partition_rule(&PartitionRule::prefix_length(3).unwrap());
        let rule = PartitionRule::delimiter("/").unwrap();
        let altered = TableAlteration::new().rule(rule.clone()).of(&by_length).unwrap();
        assert_eq!(altered, found().with_partition_rule(&rule));
        let own = by_length.with_attribute("SPLIT_POLICY", "org.example.Mine");
        let altered = TableAlteration::new().rule(rule).of(&own).unwrap();
        assert_eq!(altered.attribute("SPLIT_POLICY"), Some("org.example.Mine"));
    }

    #[test]
    fn what_is_not_named_stays() {
        let found = found()
            .with_attribute("OWNER", "ops")
            .with_attribute("PRIORITY", "7");
        let alteration = TableAlteration::new()
            .splits(true)
            .without_attribute("PRIORITY")
            .family("g")
            .family("f")
            .family_attribute("f", "TTL", "forever");
        let altered = alteration.of(&found).unwrap();
        assert_eq!(altered.attribute("OWNER"), Some("ops"));
        assert_eq!(altered.attribute("SPLIT_ENABLED"), Some("true"));
        assert_eq!(altered.attribute("PRIORITY"), None);
        assert_eq!(altered.families.len(), 2);
        assert_eq!(altered.family("f").unwrap().attribute("TTL"), Some(FOREVER));
        assert!(TableAlteration::new().is_empty() && !alteration.is_empty());
    }

    #[test]
    fn a_family_that_is_not_there_has_no_attributes() {
        let alteration = TableAlteration::new().family_attribute("x", "VERSIONS", "1");
        let error = alteration.of(&found()).unwrap_err();
        assert!(error.to_string().contains("no family x"), "{error}");
    }
}
