//! Calls of the active master, which creates and changes tables.

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{CallKind, Cluster, pause};
use crate::{
    config::HostPort,
    error::{Effect, Error, ErrorKind, Result},
    observe::{ObservedOperation, client_metrics::RETRIES},
    rpc::{AttemptLimit, Call, CallOptions, Recovery, ServiceKind},
};

impl Cluster {
    /// Adds the master to the context of an error.
    pub(crate) fn at_master(&self, error: Error) -> Error {
        let error = error.at_stage("asking the master");
        match self.master.known() {
            Some(server) => error.at_server(&server.address()),
            None => error,
        }
    }

    /// Calls a method of the active master, whichever server that is, until the deadline.
    ///
    /// Every such call must be repeatable: a read, or a change with a nonce. The error of a change
    /// without an answer reports that it may have been applied.
    pub(crate) async fn call_master<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        kind: CallKind,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut observed = ObservedOperation::begin(&self.span_options, method, None, &[]);
        let answer = self
            .call_master_observed(&observed, method, kind, request, deadline)
            .await;
        match &answer {
            Ok(_) => observed.succeed(),
            Err(error) => observed.fail(error),
        }
        answer
    }

    async fn call_master_observed<M: Message, R: Message + Default>(
        &self,
        observed: &ObservedOperation,
        method: &'static str,
        kind: CallKind,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut attempt = 1;
        let mut effect = Effect::None;
        loop {
            let server = match self.master.find(deadline).await {
                Ok(server) => server,
                // During a failover there is no active master.
                Err(error) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let pause = pause::within(left, self.config.pause(), attempt);
                    let passing = error.is_retryable() && self.master.may_return();
                    match pause.filter(|_| passing) {
                        Some(pause) => {
                            RETRIES.count(|| ["no_master"]);
                            tokio::time::sleep(pause).await;
                        }
                        None => return Err(error.with_effect(effect).at_stage("finding the active master")),
                    }
                    attempt += 1;
                    continue;
                }
            };
            let address = HostPort {
                host: server.host.clone(),
                port: server.port,
            };
            observed.attempt(None, &server, attempt);
            let call = Call {
                server: &address,
                service: ServiceKind::Master,
                options: CallOptions::default(),
                method,
                request,
                cells: Bytes::new(),
                priority: None,
                limit: AttemptLimit {
                    deadline: deadline.min(Instant::now() + self.config.read_timeout()),
                    repeatable: kind != CallKind::Write,
                    trace: observed.trace_headers(&self.span_options),
                },
            };
            let failure = match self.rpc.call(call).await {
                Ok((answer, _)) => return Ok(answer),
                Err(failure) => failure,
            };
            let (classification, reason) = (failure.classify(), failure.reason());
            let recovery = classification.recovery;
            if kind != CallKind::Read && classification.effect == Effect::Unknown {
                effect = Effect::Unknown;
            }
            if !matches!(
                recovery,
                Recovery::Wait | Recovery::WaitForLoad | Recovery::WaitFor(_)
            ) {
                self.master.forget(&server);
            }
            let error = failure
                .into_error()
                .with_effect(effect)
                .at_stage("asking the master")
                .at_server(&address)
                .at_attempt(attempt);
            let final_failure =
                recovery == Recovery::Fail || recovery == Recovery::RelocateOnUnknown && attempt >= 3;
            if final_failure {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = pause::for_recovery(recovery, left, &self.config, attempt) else {
                return Err(Error::new(ErrorKind::DeadlineExceeded, "gave up")
                    .with_retryable(true)
                    .with_effect(effect)
                    .at_stage("asking the master")
                    .at_server(&address)
                    .at_attempt(attempt)
                    .with_source(error));
            };
            RETRIES.count(|| [reason]);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }
}
