//! Changes of single settings of a table.

use bytes::Bytes;
use hbase_client::{BytesBinary, FamilyDescriptor, IntoBytes, TableDescriptor, TableName};
use hbase_txn::{Error, PartitionRule, Result, TableDescriptorExt};

use super::attribute::{RULE_ATTRIBUTES, has_prefix_split_policy, is_of_split_policy, parsed};

/// Changes of single settings of a table; all other settings stay unchanged.
/// [`Plan::read_alteration`](super::Plan::read_alteration) plans them.
///
/// # Example
///
/// ```
/// use hbase_provision::{Plan, TableAlteration};
/// use hbase_txn::PartitionRule;
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("orders", &["f"], &[]);
/// # let connection = hbase.connect().await?;
/// let alteration = TableAlteration::new()
///     .rule(PartitionRule::prefix_length(3)?)
///     .endpoint();
/// let plan = Plan::read_alteration(&connection, "orders", &alteration).await?;
/// plan.apply(&connection, &()).await?;
/// # hbase_txn::PartitionedTable::open(&connection, "orders").await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableAlteration {
    rule: Option<PartitionRule>,
    endpoint: bool,
    record_family: bool,
    partition_version: bool,
    cross_partition: bool,
    lock_family: bool,
    families: Vec<Bytes>,
    attributes: Vec<(Bytes, Option<Bytes>)>,
    family_attributes: Vec<(Bytes, Bytes, Bytes)>,
    family_configuration: Vec<(Bytes, String, Option<String>)>,
}

impl TableAlteration {
    /// Creates an alteration without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets this partition rule, as a split restriction, and removes the attributes of other rules. The
    /// split policy stays, of the table or of the site, unless it is one of HBase's for prefixes, which is
    /// replaced.
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

    /// Adds the column family for transaction records, or corrects its settings.
    #[must_use]
    pub fn record_family(mut self) -> Self {
        self.record_family = true;
        self
    }

    /// Adds the family for partition versions; see [`TableDescriptor::with_partition_version`].
    #[must_use]
    pub fn partition_version(mut self) -> Self {
        self.partition_version = true;
        self
    }

    /// Allows transactions across partitions; see [`TableDescriptor::with_cross_partition`].
    #[must_use]
    pub fn cross_partition(mut self) -> Self {
        self.cross_partition = true;
        self
    }

    /// Adds the family for locks and latches in partitions.
    #[must_use]
    pub fn lock_family(mut self) -> Self {
        self.lock_family = true;
        self
    }

    /// Adds a column family. An existing family stays unchanged.
    #[must_use]
    pub fn family(mut self, name: impl IntoBytes) -> Self {
        self.families.push(name.into_bytes());
        self
    }

    /// Allows or forbids region splits by HBase (`SPLIT_ENABLED`).
    #[must_use]
    pub fn splits(self, on: bool) -> Self {
        self.attribute("SPLIT_ENABLED", on.to_string())
    }

    /// Allows or forbids region merges by HBase (`MERGE_ENABLED`).
    #[must_use]
    pub fn merges(self, on: bool) -> Self {
        self.attribute("MERGE_ENABLED", on.to_string())
    }

    /// Sets an attribute of the table, in HBase's spelling. Sizes may have a unit of 1024, such as `10G` for a
    /// `MAX_FILESIZE`.
    #[must_use]
    pub fn attribute(mut self, key: impl IntoBytes, value: impl IntoBytes) -> Self {
        self.attributes.push((key.into_bytes(), Some(value.into_bytes())));
        self
    }

    /// Removes an attribute of the table.
    #[must_use]
    pub fn without_attribute(mut self, key: impl IntoBytes) -> Self {
        self.attributes.push((key.into_bytes(), None));
        self
    }

    /// Sets an attribute of a family, in HBase's spelling. `FOREVER` is accepted for a `TTL`, as in
    /// HBase's shell.
    #[must_use]
    pub fn family_attribute(
        mut self,
        family: impl IntoBytes,
        key: impl IntoBytes,
        value: impl IntoBytes,
    ) -> Self {
        let setting = (family.into_bytes(), key.into_bytes(), value.into_bytes());
        self.family_attributes.push(setting);
        self
    }

    /// Adds a setting to the `CONFIGURATION` of a family.
    #[must_use]
    pub fn family_configuration(
        mut self,
        family: impl IntoBytes,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let setting = (family.into_bytes(), key.into(), Some(value.into()));
        self.family_configuration.push(setting);
        self
    }

    /// Removes a setting from the `CONFIGURATION` of a family.
    #[must_use]
    pub fn without_family_configuration(mut self, family: impl IntoBytes, key: impl Into<String>) -> Self {
        self.family_configuration
            .push((family.into_bytes(), key.into(), None));
        self
    }

    /// Returns whether the alteration has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the descriptor of `found` with the changes.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](hbase_txn::ClientErrorKind::InvalidInput) if HBase would refuse the value of
    /// an attribute, or if the table does not have the family of a setting.
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
        if self.cross_partition {
            wanted = wanted.with_cross_partition();
        }
        if self.lock_family {
            wanted = wanted.with_lock_family();
        }
        if self.endpoint {
            wanted = wanted.with_multi_row_mutation_endpoint();
        }
        for (key, value) in &self.attributes {
            match value {
                Some(value) => wanted
                    .attributes
                    .insert(key.clone(), sent(&found.name, key, value)?),
                None => wanted.attributes.remove(key),
            };
        }
        for (name, key, value) in &self.family_attributes {
            let value = sent(&found.name, key, value)?;
            let family = family_of(&wanted, name)?.with_attribute(key.clone(), value);
            wanted = wanted.with_family(family);
        }
        for (name, key, value) in &self.family_configuration {
            let mut family = family_of(&wanted, name)?;
            match value {
                Some(value) => family.configuration.insert(key.clone(), value.clone()),
                None => family.configuration.remove(key),
            };
            wanted = wanted.with_family(family);
        }
        Ok(wanted)
    }
}

fn family_of(table: &TableDescriptor, name: &Bytes) -> Result<FamilyDescriptor> {
    table.family(name).cloned().ok_or_else(|| {
        let what = format!("the table has no family {}", BytesBinary(name));
        Error::invalid(what).at_table(&table.name)
    })
}

/// Returns the value of an attribute as HBase is sent it.
fn sent(table: &TableName, key: &Bytes, value: &Bytes) -> Result<Bytes> {
    let (Ok(name), Ok(text)) = (std::str::from_utf8(key), std::str::from_utf8(value)) else {
        return Ok(value.clone());
    };
    match parsed(name, text) {
        Ok(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        Err(why) => Err(Error::invalid(why).at_table(table)),
    }
}

/// Sets the rule and removes the attributes of other rules, which would contradict it.
fn with_rule(mut table: TableDescriptor, rule: &PartitionRule) -> TableDescriptor {
    let replaces_policy = has_prefix_split_policy(&table);
    for key in RULE_ATTRIBUTES {
        table.attributes.remove(key.as_bytes());
    }
    for (key, value) in rule.attributes() {
        if replaces_policy || !is_of_split_policy(key) {
            table = table.with_attribute(key, value);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> TableDescriptor {
        TableDescriptor::new("t")
            .unwrap()
            .with_family(FamilyDescriptor::new("f"))
    }

    #[test]
    fn another_rule_leaves_nothing_of_the_one_before() {
        let by_length = found().with_partition_rule(&PartitionRule::prefix_length(3).unwrap());
        let rule = PartitionRule::delimiter("/").unwrap();
        let altered = TableAlteration::new().rule(rule.clone()).of(&by_length).unwrap();
        assert_eq!(altered, found().with_partition_rule(&rule));
        let own = by_length.with_attribute("SPLIT_POLICY", "org.example.Mine");
        let altered = TableAlteration::new().rule(rule.clone()).of(&own).unwrap();
        assert_eq!(altered.attribute("SPLIT_POLICY"), Some("org.example.Mine"));
        // That of the site.
        let altered = TableAlteration::new().rule(rule.clone()).of(&found()).unwrap();
        assert_eq!(altered.attribute("SPLIT_POLICY"), None);
        assert_eq!(PartitionRule::from_descriptor(&altered).unwrap(), rule);
    }

    #[test]
    fn unnamed_attributes_stay() {
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
        assert_eq!(altered.family("f").unwrap().attribute("TTL"), Some("2147483647"));
        assert!(TableAlteration::new().is_empty() && !alteration.is_empty());
    }

    #[test]
    fn a_family_that_is_not_there_has_no_settings() {
        for alteration in [
            TableAlteration::new().family_attribute("x", "VERSIONS", "1"),
            TableAlteration::new().family_configuration("x", "a", "1"),
        ] {
            let error = alteration.of(&found()).unwrap_err();
            assert!(error.to_string().contains("no family x"), "{error}");
        }
    }

    #[test]
    fn configuration_of_a_family_is_set_and_removed() {
        let alteration = TableAlteration::new()
            .family("g")
            .family_configuration("g", "a", "1")
            .family_configuration("f", "b", "2")
            .without_family_configuration("f", "c");
        let family = FamilyDescriptor::new("f").with_configuration("c", "3");
        let altered = alteration.of(&found().with_family(family)).unwrap();
        assert_eq!(
            altered,
            found()
                .with_family(FamilyDescriptor::new("f").with_configuration("b", "2"))
                .with_family(FamilyDescriptor::new("g").with_configuration("a", "1"))
        );
    }

    #[test]
    fn values_of_attributes_are_those_of_a_file() {
        let altered = |key, value| TableAlteration::new().attribute(key, value).of(&found());
        let descriptor = altered("MAX_FILESIZE", "10G").unwrap();
        assert_eq!(descriptor.attribute("MAX_FILESIZE"), Some("10737418240"));
        let error = altered("READONLY", "yes").unwrap_err().to_string();
        assert!(
            error.contains("READONLY is \"yes\"; it is true or false"),
            "{error}"
        );
        let error = TableAlteration::new().family_attribute("f", "VERSIONS", "many");
        let error = error.of(&found()).unwrap_err().to_string();
        assert!(
            error.contains("VERSIONS is \"many\"; it is a whole number"),
            "{error}"
        );
    }
}
