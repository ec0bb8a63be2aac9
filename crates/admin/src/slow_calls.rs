//! Calls that took a region server long, or whose answers were large.

use std::time::{Duration, SystemTime};

use hbase_client::{
    Error, Result, ServerName,
    low_level::{CallKind, convert, pb},
};
use prost::Message;

use crate::{
    admin::{Admin, bad_answer},
    cluster_status::moment,
};

/// A call that took a region server long, or whose answer was large.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowCall {
    /// When the server began to execute it, by the server's clock.
    pub started: SystemTime,
    /// How long the server executed it.
    pub processing: Duration,
    /// How long it waited for a handler before that.
    pub queued: Duration,
    /// The size of the answer, in bytes.
    pub response_size: u64,
    /// The address of the client, with its port.
    pub client: String,
    /// The user.
    pub user: String,
    /// The method, such as `Scan` or `Multi`.
    pub method: String,
    /// What was called, as the server describes it.
    pub call: String,
    /// The request in short. `None` if the server keeps none.
    pub parameters: Option<String>,
    /// The full name of the region, with `\xNN` for bytes that are no text. `None` if the call was not of one
    /// region.
    pub region: Option<String>,
    /// The number of gets in it, if it is a `Multi`.
    pub gets: u32,
    /// The number of mutations in it, if it is a `Multi`.
    pub mutations: u32,
    /// The number of calls of coprocessors in it, if it is a `Multi`.
    pub service_calls: u32,
}

/// The package of the messages in log requests, whose classes the server loads by name.
const MESSAGES: &str = "org.apache.hadoop.hbase.shaded.protobuf.generated.AdminProtos$";

impl Admin {
    /// Returns the latest calls that took a region server longer than `hbase.ipc.warn.response.time` (10 s),
    /// the newest first. The server keeps the last 256 slow and large calls
    /// (`hbase.regionserver.slowlog.ringbuffer.size`), and none unless
    /// `hbase.regionserver.slowlog.buffer.enabled` is `true`, which it is not by default.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::Admin;
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// let admin = Admin::new(connection);
    /// for server in admin.cluster_info().await?.live_servers {
    ///     for call in admin.slow_calls(&server).await? {
    ///         println!("{} by {}: {:?}", call.method, call.user, call.processing);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn slow_calls(&self, server: &ServerName) -> Result<Vec<SlowCall>> {
        self.kept_calls(server, pb::slow_log_response_request::LogType::SlowLog)
            .await
    }

    /// Returns the latest calls of a region server whose answers had more bytes than
    /// `hbase.ipc.warn.response.size` (100 MiB), as [`slow_calls`](Self::slow_calls) returns slow ones.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn large_calls(&self, server: &ServerName) -> Result<Vec<SlowCall>> {
        self.kept_calls(server, pb::slow_log_response_request::LogType::LargeLog)
            .await
    }

    /// Lets a region server forget its [slow](Self::slow_calls) and [large](Self::large_calls) calls.
    /// Returns whether it did: not if it keeps none.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn clear_slow_calls(&self, server: &ServerName) -> Result<bool> {
        let request = pb::ClearSlowLogResponseRequest {};
        let answer: pb::ClearSlowLogResponses = self
            .call_server(
                server,
                "ClearSlowLogsResponses",
                CallKind::IdempotentWrite,
                &request,
            )
            .await
            .map_err(|error| error.at_operation("clearing the slow calls of a region server"))?;
        Ok(answer.is_cleaned)
    }

    async fn kept_calls(
        &self,
        server: &ServerName,
        log_type: pb::slow_log_response_request::LogType,
    ) -> Result<Vec<SlowCall>> {
        let in_context = |error: Error| error.at_operation("reading the slow calls of a region server");
        let request = pb::SlowLogResponseRequest {
            // All: the server takes the number for one with a sign.
            limit: Some(i32::MAX.unsigned_abs()),
            log_type: Some(log_type.into()),
            ..Default::default()
        };
        let request = pb::LogRequest {
            log_class_name: format!("{MESSAGES}SlowLogResponseRequest"),
            log_message: request.encode_to_vec().into(),
        };
        let answer: pb::LogEntry = self
            .call_server(server, "GetLogEntries", CallKind::Read, &request)
            .await
            .map_err(in_context)?;
        calls(answer).map_err(in_context)
    }
}

/// Parses the message in the answer to a log request.
fn calls(entry: pb::LogEntry) -> Result<Vec<SlowCall>> {
    if !entry.log_class_name.ends_with("SlowLogResponses") {
        return Err(bad_answer(&format_args!("it has a {:?}", entry.log_class_name)));
    }
    let found = convert::inner_answer("SlowLogResponses", entry.log_message);
    let found: pb::SlowLogResponses = found.map_err(|error| bad_answer(&error))?;
    Ok(found.slow_log_payloads.into_iter().map(SlowCall::of).collect())
}

impl SlowCall {
    fn of(message: pb::SlowLogPayload) -> Self {
        let count = |number: Option<i32>| number.and_then(|number| number.try_into().ok()).unwrap_or(0);
        let time = |milliseconds: i32| Duration::from_millis(milliseconds.try_into().unwrap_or(0));
        Self {
            started: moment(message.start_time.try_into().unwrap_or(0)),
            processing: time(message.processing_time),
            queued: time(message.queue_time),
            response_size: message.response_size.try_into().unwrap_or(0),
            gets: count(message.multi_gets),
            mutations: count(message.multi_mutations),
            service_calls: count(message.multi_service_calls),
            client: message.client_address,
            user: message.user_name,
            method: message.method_name,
            call: message.call_details,
            parameters: message.param.filter(|text| !text.is_empty()),
            region: message.region_name.filter(|name| !name.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hbase_client::ErrorKind;

    fn entry(class: &str, message: &[u8]) -> pb::LogEntry {
        pb::LogEntry {
            log_class_name: class.to_owned(),
            log_message: message.to_vec().into(),
        }
    }

    #[test]
    fn odd_numbers_and_other_messages_do_no_harm() {
        let odd = pb::SlowLogPayload {
            start_time: i64::MIN,
            processing_time: -1,
            response_size: -1,
            multi_gets: Some(-1),
            ..Default::default()
        };
        let message = pb::SlowLogResponses {
            slow_log_payloads: vec![odd],
        };
        let found = calls(entry("a.SlowLogResponses", &message.encode_to_vec())).unwrap();
        assert_eq!((found[0].response_size, found[0].gets), (0, 0));
        assert_eq!(
            (found[0].started, found[0].processing),
            (SystemTime::UNIX_EPOCH, Duration::ZERO)
        );
        let many = [0x0a, 0].repeat(8 << 20);
        for (class, message) in [
            ("a.BalancerDecisionsResponse", &b""[..]),
            ("a.SlowLogResponses", b"\xff"),
            ("a.SlowLogResponses", &many),
        ] {
            let error = calls(entry(class, message)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        }
    }
}
