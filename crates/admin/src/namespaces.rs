//! Namespaces.

use bytes::Bytes;
use hbase_client::{
    Error, ErrorKind, Result, TableName,
    low_level::{convert, pb},
};

use crate::{
    admin::{Admin, bad_answer, is_class},
    namespace_descriptor::NamespaceDescriptor,
    procedure::Ended,
};

impl Admin {
    /// Returns all namespaces, HBase's own included.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceDescriptor>> {
        let request = pb::ListNamespaceDescriptorsRequest {};
        let answer: pb::ListNamespaceDescriptorsResponse = self
            .call("ListNamespaceDescriptors", &request)
            .await
            .map_err(|error| error.at_operation("listing the namespaces"))?;
        let namespaces = answer.namespace_descriptor.into_iter();
        namespaces.map(NamespaceDescriptor::of).collect()
    }

    /// Returns a namespace.
    ///
    /// # Errors
    ///
    /// Returns [`NamespaceNotFound`](ErrorKind::NamespaceNotFound) if it does not exist.
    pub async fn namespace(&self, name: &str) -> Result<NamespaceDescriptor> {
        let request = pb::GetNamespaceDescriptorRequest {
            namespace_name: name.to_owned(),
        };
        let answer: pb::GetNamespaceDescriptorResponse = self
            .call("GetNamespaceDescriptor", &request)
            .await
            .map_err(|error| error.at_operation(format!("looking for namespace {name}")))?;
        NamespaceDescriptor::of(answer.namespace_descriptor)
    }

    /// Returns whether a namespace exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn namespace_exists(&self, name: &str) -> Result<bool> {
        match self.namespace(name).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NamespaceNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the tables of a namespace.
    ///
    /// # Errors
    ///
    /// Returns [`NamespaceNotFound`](ErrorKind::NamespaceNotFound) if it does not exist.
    pub async fn tables_of_namespace(&self, name: &str) -> Result<Vec<TableName>> {
        let request = pb::ListTableNamesByNamespaceRequest {
            namespace_name: name.to_owned(),
        };
        let answer: pb::ListTableNamesByNamespaceResponse = self
            .call("ListTableNamesByNamespace", &request)
            .await
            .map_err(|error| error.at_operation(format!("listing the tables of namespace {name}")))?;
        let tables = answer.table_name.iter();
        tables
            .map(|name| convert::table_name(name).map_err(|error| bad_answer(&error)))
            .collect()
    }

    /// Creates a namespace. Does nothing if it exists, whatever its configuration is.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn create_namespace(&self, namespace: impl Into<NamespaceDescriptor>) -> Result<()> {
        let namespace = namespace.into();
        let request = pb::CreateNamespaceRequest {
            namespace_descriptor: namespace.message(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run::<_, pb::CreateNamespaceResponse>("CreateNamespace", &request, self.deadline())
            .await;
        match ended.and_then(Ended::certain) {
            Ok(()) => Ok(()),
            Err(error) if is_class(&error, "NamespaceExistException") => Ok(()),
            Err(error) => Err(error.at_operation(format!("creating namespace {}", namespace.name))),
        }
    }

    /// Replaces the configuration of a namespace.
    ///
    /// # Errors
    ///
    /// Returns [`NamespaceNotFound`](ErrorKind::NamespaceNotFound) if it does not exist.
    pub async fn modify_namespace(&self, namespace: &NamespaceDescriptor) -> Result<()> {
        let request = pb::ModifyNamespaceRequest {
            namespace_descriptor: namespace.message(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run::<_, pb::ModifyNamespaceResponse>("ModifyNamespace", &request, self.deadline())
            .await;
        ended
            .and_then(Ended::certain)
            .map_err(|error| error.at_operation(format!("changing namespace {}", namespace.name)))
    }

    /// Deletes a namespace, which must have no tables.
    ///
    /// # Errors
    ///
    /// Returns [`NamespaceNotFound`](ErrorKind::NamespaceNotFound) if it does not exist, and
    /// [`NamespaceNotEmpty`](ErrorKind::NamespaceNotEmpty) if it has tables.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        let in_context = |error: Error| error.at_operation(format!("deleting namespace {name}"));
        let request = pb::DeleteNamespaceRequest {
            namespace_name: name.to_owned(),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
        };
        let ended = self
            .run::<_, pb::DeleteNamespaceResponse>("DeleteNamespace", &request, self.deadline())
            .await;
        match ended.and_then(Ended::certain) {
            Ok(()) => Ok(()),
            Err(error) if is_not_empty(&error) => {
                let what = Error::new(ErrorKind::NamespaceNotEmpty, "the namespace has tables");
                Err(in_context(what.with_source(error)))
            }
            Err(error) => Err(in_context(error)),
        }
    }
}

/// Returns whether the master refused to delete a namespace because of its tables. It refuses to
/// delete HBase's own with the same class.
fn is_not_empty(error: &Error) -> bool {
    is_class(error, "ConstraintException")
        && error
            .remote()
            .is_some_and(|remote| remote.message.contains("Only empty namespaces can be removed"))
}

impl NamespaceDescriptor {
    fn of(message: pb::NamespaceDescriptor) -> Result<Self> {
        let name = String::from_utf8(message.name.into());
        Ok(Self {
            name: name.map_err(|_| bad_answer(&"a namespace's name is not text"))?,
            configuration: convert::strings(message.configuration),
        })
    }

    fn message(&self) -> pb::NamespaceDescriptor {
        pb::NamespaceDescriptor {
            name: Bytes::copy_from_slice(self.name.as_bytes()),
            configuration: convert::string_messages(&self.configuration),
        }
    }
}
