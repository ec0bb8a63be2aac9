//! A namespace and its settings.

use std::collections::BTreeMap;

/// A namespace: a group of tables, with settings such as quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceDescriptor {
    /// The name.
    pub name: String,
    /// The settings, for example `hbase.namespace.quota.maxtables`.
    pub configuration: BTreeMap<String, String>,
}

impl NamespaceDescriptor {
    /// Creates the descriptor of a namespace without settings.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            configuration: BTreeMap::new(),
        }
    }

    /// Adds a setting. Replaces an earlier one of that key.
    #[must_use]
    pub fn with_configuration(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configuration.insert(key.into(), value.into());
        self
    }
}

impl From<&str> for NamespaceDescriptor {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
