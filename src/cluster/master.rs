//! Calls of the active master, which makes and changes tables.

use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;
use tokio::time::Instant;

use super::{CallKind, Cluster, pause, registry::Registry};
use crate::{
    config::HostPort,
    error::{Effect, Error, ErrorKind, Result},
    model::ServerName,
    rpc::{Call, Recovery, ServiceKind},
    wire::cell_block::Codec,
};

/// The active master, as far as it is known.
#[derive(Debug)]
pub(super) struct MasterAddress {
    registry: Arc<Registry>,
    known: Mutex<Option<ServerName>>,
}

impl MasterAddress {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            known: Mutex::default(),
        }
    }

    async fn find(&self, deadline: Instant) -> Result<ServerName> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(server) = known {
            return Ok(server);
        }
        let server = self.registry.active_master(deadline).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.clone());
        Ok(server)
    }

    fn forget(&self, server: &ServerName) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() == Some(server) {
            *known = None;
        }
    }
}

impl Cluster {
    /// Says that it is the master's word.
    pub(crate) fn at_master(&self, error: Error) -> Error {
        let known = self
            .master
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let error = error.at_stage("asking the master");
        match known {
            Some(server) => error.at_server(&server.address()),
            None => error,
        }
    }

    /// Calls a method of the active master, whoever that is by then, until the deadline.
    ///
    /// Every such call must be one that can be sent twice: a read, or a change with a nonce. A change that got no
    /// answer may have been made, and its error says so.
    pub(crate) async fn call_master<M: Message, R: Message + Default>(
        &self,
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
                // While one master follows another there is none.
                Err(error) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let pause = pause::within(left, self.config.pause(), attempt);
                    let passing = error.is_retryable() && self.master.registry.was_reached();
                    match pause.filter(|_| passing) {
                        Some(pause) => tokio::time::sleep(pause).await,
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
            let call = Call {
                server: &address,
                service: ServiceKind::Master,
                codec: Codec::KeyValue,
                method,
                request,
                priority: None,
                deadline: deadline.min(Instant::now() + self.config.read_timeout()),
            };
            let failure = match self.rpc.call(call).await {
                Ok((answer, _)) => return Ok(answer),
                Err(failure) => failure,
            };
            let ruling = failure.ruling();
            let recovery = ruling.recovery;
            if kind != CallKind::Read && ruling.effect == Effect::Unknown {
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
                recovery == Recovery::Fail || recovery == Recovery::RelocateBriefly && attempt >= 3;
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
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }
}
