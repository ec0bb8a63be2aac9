//! Calls of a server itself, not of a region: of the active master, which creates and changes tables, and
//! of a server by its name.

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{CallKind, Cluster, pause};
use crate::{
    config::HostPort,
    error::{Effect, Error, ErrorKind, Result},
    model::ServerName,
    observe::{ObservedOperation, client_metrics::RETRIES},
    rpc::{AttemptLimit, Call, CallOptions, Recovery, ServiceKind},
};

/// The number of attempts after which a failure that says nothing of the server's state is final.
const ATTEMPTS: u32 = 3;

/// The server of a call that is not of a region.
#[derive(Clone, Copy, Debug)]
pub enum ServerTarget<'a> {
    /// A service of the active master, whichever server that is at the time of an attempt.
    Master(ServiceKind),
    /// A service of one server, which may be gone for good.
    Named(&'a ServerName, ServiceKind),
}

impl ServerTarget<'_> {
    fn service(self) -> ServiceKind {
        match self {
            Self::Master(service) | Self::Named(_, service) => service,
        }
    }

    /// Returns whether a failure of an attempt is final.
    fn gives_up(self, recovery: Recovery, attempt: u32) -> bool {
        match (self, recovery) {
            (_, Recovery::Fail) => true,
            (Self::Master(_), Recovery::RelocateOnUnknown) => attempt >= ATTEMPTS,
            (Self::Master(_), _) => false,
            (Self::Named(..), _) => !is_busy(recovery) && attempt >= ATTEMPTS,
        }
    }

    fn in_context(self, error: Error) -> Error {
        match self {
            Self::Master(_) => error.at_stage("asking the master"),
            Self::Named(..) => error,
        }
    }
}

/// Returns whether the server has answered that it can't serve the call yet.
fn is_busy(recovery: Recovery) -> bool {
    matches!(
        recovery,
        Recovery::Wait | Recovery::WaitForLoad | Recovery::WaitFor(_)
    )
}

impl Cluster {
    /// Adds the master to the context of an error.
    pub(crate) fn at_master(&self, error: Error) -> Error {
        let error = ServerTarget::Master(ServiceKind::Master).in_context(error);
        match self.master.known() {
            Some(server) => error.at_server(&server.address()),
            None => error,
        }
    }

    /// Calls a method of a server until the deadline.
    ///
    /// The error of a change without an answer reports that it may have been applied. A
    /// [`Write`](CallKind::Write) is then not sent again; another change must have a nonce, or the same
    /// result if it is applied twice.
    pub(crate) async fn call_server<M: Message, R: Message + Default>(
        &self,
        target: ServerTarget<'_>,
        method: &'static str,
        kind: CallKind,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut observed = ObservedOperation::begin(&self.span_options, method, None, &[]);
        let answer = self
            .call_until_answered(&observed, target, method, kind, request, deadline)
            .await;
        match &answer {
            Ok(_) => observed.succeed(),
            Err(error) => observed.fail(error),
        }
        answer
    }

    async fn call_until_answered<M: Message, R: Message + Default>(
        &self,
        observed: &ObservedOperation,
        target: ServerTarget<'_>,
        method: &'static str,
        kind: CallKind,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut effect = Effect::None;
        let mut attempt = 0;
        let mut last_error = None;
        loop {
            attempt += 1;
            let server = match target {
                ServerTarget::Named(server, _) => server.clone(),
                ServerTarget::Master(_) => match self.find_master(attempt, deadline).await {
                    Ok(Some(server)) => server,
                    Ok(None) => continue,
                    Err(error) => {
                        return Err(pause::more_telling(error, last_error, deadline).with_effect(effect));
                    }
                },
            };
            let address = HostPort::of(&server);
            observed.attempt(None, &server, attempt);
            let call = Call {
                server: &address,
                service: target.service(),
                options: CallOptions::default(),
                method,
                request,
                cells: Bytes::new(),
                priority: None,
                limit: AttemptLimit {
                    // The end of an attempt that is not repeated would leave its outcome unknown.
                    deadline: match kind {
                        CallKind::Write => deadline,
                        CallKind::Read | CallKind::IdempotentWrite => {
                            deadline.min(Instant::now() + self.config.read_timeout())
                        }
                    },
                    repeatable: kind != CallKind::Write,
                    connected_before: None,
                    located_at: None,
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
            if matches!(target, ServerTarget::Master(_)) && !is_busy(recovery) {
                self.master.forget(&server);
            }
            let in_context = |error: Error| {
                target
                    .in_context(error.with_effect(effect))
                    .at_server(&address)
                    .at_attempt(attempt)
            };
            let error = in_context(failure.into_error());
            let is_unknown = kind == CallKind::Write && effect == Effect::Unknown;
            if is_unknown || target.gives_up(recovery, attempt) {
                return Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = pause::for_recovery(recovery, left, &self.config, attempt) else {
                let gave_up = Error::new(ErrorKind::DeadlineExceeded, "gave up").with_retryable(true);
                return Err(in_context(gave_up).with_source(pause::more_telling(error, last_error, deadline)));
            };
            last_error = Some(error);
            RETRIES.count(|| [reason]);
            tokio::time::sleep(pause).await;
        }
    }

    /// Finds the active master. Without one, as during a failover, it pauses and returns none.
    async fn find_master(&self, attempt: u32, deadline: Instant) -> Result<Option<ServerName>> {
        let error = match self.master.find(deadline).await {
            Ok(server) => return Ok(Some(server)),
            Err(error) => error,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let passing = error.is_retryable() && self.master.may_return();
        match pause::within(left, self.config.pause(), attempt).filter(|_| passing) {
            Some(pause) => {
                RETRIES.count(|| ["no_master"]);
                tokio::time::sleep(pause).await;
                Ok(None)
            }
            None => Err(error.at_stage("finding the active master")),
        }
    }
}
