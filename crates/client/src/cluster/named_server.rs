//! Calls of a server by its name: what it does itself, whatever regions it has.

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{Cluster, pause};
use crate::{
    config::HostPort,
    error::{Effect, Error, ErrorKind, Result},
    model::ServerName,
    observe::{ObservedOperation, client_metrics::RETRIES},
    rpc::{AttemptLimit, Call, CallOptions, Recovery, ServiceKind},
};

/// The number of attempts while the server does not answer: it may be gone for good.
const ATTEMPTS: u32 = 3;

impl Cluster {
    /// Calls a method of `AdminService` on a region server or a master. The call must be repeatable: a
    /// read, or a change that has the same result if it is applied twice.
    pub(crate) async fn call_server<M: Message, R: Message + Default>(
        &self,
        server: &ServerName,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut observed = ObservedOperation::begin(&self.span_options, method, None, &[]);
        let answer = self
            .call_server_observed(&observed, server, method, request, deadline)
            .await;
        match &answer {
            Ok(_) => observed.succeed(),
            Err(error) => observed.fail(error),
        }
        answer
    }

    async fn call_server_observed<M: Message, R: Message + Default>(
        &self,
        observed: &ObservedOperation,
        server: &ServerName,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let address = HostPort {
            host: server.host.clone(),
            port: server.port,
        };
        let mut effect = Effect::None;
        let mut attempt = 0;
        loop {
            attempt += 1;
            observed.attempt(None, server, attempt);
            let call = Call {
                server: &address,
                service: ServiceKind::Admin,
                options: CallOptions::default(),
                method,
                request,
                cells: Bytes::new(),
                priority: None,
                limit: AttemptLimit {
                    deadline: deadline.min(Instant::now() + self.config.read_timeout()),
                    repeatable: true,
                    trace: observed.trace_headers(&self.span_options),
                },
            };
            let failure = match self.rpc.call(call).await {
                Ok((answer, _)) => return Ok(answer),
                Err(failure) => failure,
            };
            let (classification, reason) = (failure.classify(), failure.reason());
            let recovery = classification.recovery;
            if classification.effect == Effect::Unknown {
                effect = Effect::Unknown;
            }
            let error = failure
                .into_error()
                .with_effect(effect)
                .at_server(&address)
                .at_attempt(attempt);
            let is_busy = matches!(
                recovery,
                Recovery::Wait | Recovery::WaitForLoad | Recovery::WaitFor(_)
            );
            if recovery == Recovery::Fail || !is_busy && attempt >= ATTEMPTS {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = pause::for_recovery(recovery, left, &self.config, attempt) else {
                return Err(Error::new(ErrorKind::DeadlineExceeded, "gave up")
                    .with_retryable(true)
                    .with_effect(effect)
                    .at_server(&address)
                    .at_attempt(attempt)
                    .with_source(error));
            };
            RETRIES.count(|| [reason]);
            tokio::time::sleep(pause).await;
        }
    }
}
