//! Visibility labels, which `VisibilityController` keeps in `hbase:labels`.

use bytes::Bytes;
use hbase_client::{
    EndpointCall, Error, ErrorKind, Result, TableName,
    low_level::{Classification, convert, pb},
};
use prost::Message;

use crate::{admin::Admin, permissions::check_user};

/// The table of labels, which has one region.
const LABELS: &str = "hbase:labels";
const SERVICE: &str = "VisibilityLabelsService";
/// The class of the server for a label that exists, inside the message of another.
const EXISTS: &str = "LabelAlreadyExistsException";

impl Admin {
    /// Creates labels for [visibility expressions](hbase_client::Put::cell_visibility). Does nothing for labels
    /// that exist.
    ///
    /// # Errors
    ///
    /// Returns [`AccessDenied`](ErrorKind::AccessDenied) if the user of the connection is no
    /// superuser, [`TableNotFound`](ErrorKind::TableNotFound) if the cluster has no
    /// `VisibilityController`, and the error of the first label that the server rejects.
    pub async fn add_labels(&self, labels: impl IntoIterator<Item = impl Into<String>>) -> Result<()> {
        let labels: Vec<Bytes> = labels.into_iter().map(|label| label.into().into()).collect();
        let request = pb::VisibilityLabelsRequest {
            vis_label: labels
                .into_iter()
                .map(|label| pb::VisibilityLabel { label, ordinal: None })
                .collect(),
        };
        let in_context = |error: Error| error.at_operation("adding visibility labels");
        let answer: pb::VisibilityLabelsResponse = self
            .call_labels("addLabels", &request)
            .await
            .map_err(in_context)?;
        all_done(answer).map_err(in_context)
    }

    /// Returns the labels that exist, without HBase's own.
    ///
    /// # Errors
    ///
    /// Returns an error as [`add_labels`](Self::add_labels) does.
    pub async fn labels(&self) -> Result<Vec<String>> {
        let answer: pb::ListLabelsResponse = self
            .call_labels("listLabels", &pb::ListLabelsRequest { regex: None })
            .await
            .map_err(|error| error.at_operation("listing the visibility labels"))?;
        Ok(texts(answer.label))
    }

    /// Lets a user read cells by these labels, besides those that the user has. Write `@` before the
    /// name of a group.
    ///
    /// # Errors
    ///
    /// Returns an error as [`add_labels`](Self::add_labels) does, also for labels that do not exist.
    pub async fn set_auths(
        &self,
        user: &str,
        labels: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<()> {
        self.change_auths("setAuths", user, labels)
            .await
            .map_err(|error| error.at_operation(format!("setting the visibility labels of user {user}")))
    }

    /// Takes labels from a user.
    ///
    /// # Errors
    ///
    /// Returns an error as [`add_labels`](Self::add_labels) does, also for labels that the user does
    /// not have.
    pub async fn clear_auths(
        &self,
        user: &str,
        labels: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<()> {
        self.change_auths("clearAuths", user, labels)
            .await
            .map_err(|error| error.at_operation(format!("clearing visibility labels of user {user}")))
    }

    /// Returns the labels of a user.
    ///
    /// # Errors
    ///
    /// Returns an error as [`add_labels`](Self::add_labels) does.
    pub async fn auths(&self, user: &str) -> Result<Vec<String>> {
        check_user(user)?;
        let request = pb::GetAuthsRequest {
            user: Bytes::copy_from_slice(user.as_bytes()),
        };
        let answer: pb::GetAuthsResponse = self.call_labels("getAuths", &request).await.map_err(|error| {
            error.at_operation(format!("looking up the visibility labels of user {user}"))
        })?;
        Ok(texts(answer.auth))
    }

    async fn change_auths(
        &self,
        method: &'static str,
        user: &str,
        labels: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<()> {
        check_user(user)?;
        let request = pb::SetAuthsRequest {
            user: Bytes::copy_from_slice(user.as_bytes()),
            auth: labels.into_iter().map(|label| label.into().into()).collect(),
        };
        all_done(self.call_labels(method, &request).await?)
    }

    /// Calls the service. A call has the same effect if it is executed twice.
    async fn call_labels<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
    ) -> Result<R> {
        let labels: TableName = LABELS.parse()?;
        let table = self.connection.table(labels)?;
        let call = EndpointCall::new("", SERVICE, method, request.encode_to_vec()).idempotent();
        let answer = table
            .with_operation_timeout(self.operation_timeout)
            .call_endpoint(&call)
            .await?;
        convert::inner_answer(method, answer).map_err(|error| {
            let what = format!("the answer of {SERVICE} can't be read: {error}");
            Error::new(ErrorKind::Protocol, what)
        })
    }
}

/// Returns the error of the first label that was rejected, other than for being there.
fn all_done(answer: pb::VisibilityLabelsResponse) -> Result<()> {
    let rejected = answer
        .result
        .into_iter()
        .filter_map(|result| result.exception)
        .map(|exception| convert::remote_exception(&exception))
        .find(|found| !found.trace.contains(EXISTS));
    rejected.map_or(Ok(()), |found| {
        let kind = Classification::of(&found.class, &found.message, true).kind;
        Err(Error::new(kind, "a label was rejected").with_remote(found))
    })
}

fn texts(labels: Vec<Bytes>) -> Vec<String> {
    let texts = labels
        .iter()
        .map(|label| String::from_utf8_lossy(label).into_owned());
    texts.collect()
}
