//! A man in the middle who alters or repeats messages of an established connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use hbase_txn::{
    ClientErrorKind,
    client::{Append, Config, Connector, DialTarget, Get, Io, Protection, ServiceKind, TcpConnector},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use support::{
    connect_by,
    table::{TestTable, plain},
    value,
};
use tls::has_tls;
use tokens::{by_token, obtain};

/// What happens to the next message of a connection for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// A bit of the answer changes.
    AlterAnswer,
    /// A bit of the request changes.
    AlterRequest,
    /// The request is sent twice.
    RepeatRequest,
    /// The answer arrives twice.
    RepeatAnswer,
}

const ATTACKS: [Attack; 4] = [
    Attack::AlterAnswer,
    Attack::AlterRequest,
    Attack::RepeatRequest,
    Attack::RepeatAnswer,
];

/// Returns the number of an attack, from 1.
fn number(attack: Attack) -> usize {
    1 + ATTACKS.iter().position(|known| *known == attack).unwrap()
}

/// Dials like the library, and attacks connections for rows once it is armed.
#[derive(Clone, Debug, Default)]
struct ManInTheMiddle(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the attack, or 0.
    attack: AtomicUsize,
    dials: AtomicUsize,
}

impl ManInTheMiddle {
    fn arm(&self, attack: Attack) {
        self.0.attack.store(number(attack), Ordering::SeqCst);
    }

    /// Returns whether this attack is to happen now, once.
    fn takes(&self, attack: Attack) -> bool {
        let armed = &self.0.attack;
        armed
            .compare_exchange(number(attack), 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn is_done(&self) -> bool {
        self.0.attack.load(Ordering::SeqCst) == 0
    }

    fn dials(&self) -> usize {
        self.0.dials.load(Ordering::SeqCst)
    }
}

impl Connector for ManInTheMiddle {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let dialled = TcpConnector.connect(target);
        if target.service != ServiceKind::Client {
            return dialled;
        }
        self.0.dials.fetch_add(1, Ordering::SeqCst);
        let man = self.clone();
        async move {
            let stream = Attacked {
                inner: dialled.await?,
                man,
                repeated: Vec::new(),
                unsent: Vec::new(),
            };
            Ok(Box::new(stream) as Box<dyn Io>)
        }
        .boxed()
    }
}

struct Attacked {
    inner: Box<dyn Io>,
    man: ManInTheMiddle,
    /// What is read once more.
    repeated: Vec<u8>,
    /// What is written once more.
    unsent: Vec<u8>,
}

impl AsyncRead for Attacked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.repeated.is_empty() {
            let repeated = std::mem::take(&mut self.repeated);
            assert!(repeated.len() <= buffer.remaining());
            buffer.put_slice(&repeated);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let new = &mut buffer.filled_mut()[before..];
        if !new.is_empty() {
            if self.man.takes(Attack::AlterAnswer) {
                *new.last_mut().unwrap() ^= 1;
            } else if self.man.takes(Attack::RepeatAnswer) {
                self.repeated = new.to_vec();
            }
        }
        read
    }
}

impl AsyncWrite for Attacked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.unsent.is_empty() {
            this.unsent = bytes.to_vec();
            if this.man.takes(Attack::AlterRequest) {
                *this.unsent.last_mut().unwrap() ^= 1;
            } else if this.man.takes(Attack::RepeatRequest) {
                this.unsent.extend(bytes);
            }
        }
        while !this.unsent.is_empty() {
            match Pin::new(&mut this.inner).poll_write(context, &this.unsent) {
                Poll::Ready(Ok(written)) => drop(this.unsent.drain(..written)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// The settings of clients whose messages are checked: by Kerberos, and by a token.
async fn protected_clients(cluster: &Cluster) -> Vec<Config> {
    let by_ticket = protected(cluster);
    let token = obtain(cluster).await;
    let by_tokens = by_ticket
        .iter()
        .map(|config| by_token(config.clone(), token.clone()));
    by_ticket.iter().cloned().chain(by_tokens).collect()
}

/// The protections under which messages are checked.
fn protected(cluster: &Cluster) -> Vec<Config> {
    let config = cluster.config();
    let mut configs = Vec::new();
    for protection in config.protection() {
        if *protection != Protection::Authentication {
            configs.push(config.clone().with_protection([*protection]).with_aes(false));
        }
    }
    if config.aes() {
        configs.push(config.with_protection([Protection::Privacy]));
    }
    configs
}

/// Returns whether messages are protected by Kerberos alone: under TLS an altered byte ends the TLS
/// connection.
fn protects(cluster: &Cluster) -> bool {
    !protected(cluster).is_empty() && !has_tls(cluster)
}

#[tokio::test]
async fn altered_or_repeated_message_ends_the_connection_and_reads_go_on() {
    on_those(protects, "--kerberos --protection privacy", async |cluster| {
        let table = TestTable::create_on(cluster, "tampered", plain, &[]).await;
        for config in protected_clients(cluster).await {
            for attack in ATTACKS {
                let man = ManInTheMiddle::default();
                let connection = connect_by(man.clone(), config.clone()).await;
                let rows = table.of(&connection);
                rows.put(put("a", "1")).await.unwrap();
                let dials = man.dials();
                man.arm(attack);
                assert_eq!(value(&rows, "a").await.as_deref(), Some("1"), "{attack:?}");
                assert!(man.is_done(), "{attack:?}");
                // A repeated answer is found when the connection is used again, at the latest.
                assert_eq!(value(&rows, "a").await.as_deref(), Some("1"), "{attack:?}");
                // Java's DIGEST-MD5 drops a request that it cannot decrypt, and the connection goes on.
                let is_dropped = attack == Attack::RepeatRequest
                    && !config.delegation_tokens().is_empty()
                    && config.protection() == [Protection::Privacy]
                    && !config.aes();
                let dialled = man.dials() - dials;
                assert_eq!(dialled, usize::from(!is_dropped), "{attack:?} under {config:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn altered_message_misreports_no_write() {
    on_those(protects, "--kerberos --protection privacy", async |cluster| {
        let table = TestTable::create_on(cluster, "misreported", plain, &[]).await;
        for config in protected_clients(cluster).await {
            for (attack, applied) in [(Attack::AlterAnswer, true), (Attack::AlterRequest, false)] {
                let man = ManInTheMiddle::default();
                let by_ticket = config.delegation_tokens().is_empty() || config.aes();
                // With nonces the client would repeat the call.
                let config = config
                    .clone()
                    .with_nonces(false)
                    .with_write_timeout(Duration::from_secs(8));
                let connection = connect_by(man.clone(), config).await;
                let rows = table.of(&connection);
                let row = format!("{attack:?}-{:x}", fastrand::u64(..));
                rows.get(Get::new("a")).await.unwrap();
                man.arm(attack);
                let append = Append::new(row.clone()).cell("f", "q", "1");
                let error = rows.append(append).await.unwrap_err();
                // Java's DIGEST-MD5 drops an invalid request without an answer.
                let is_dropped = attack == Attack::AlterRequest && !by_ticket;
                let kind = if is_dropped {
                    ClientErrorKind::DeadlineExceeded
                } else {
                    ClientErrorKind::ConnectionLost
                };
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.is_outcome_unknown(), "{error}");
                assert_eq!(value(&rows, row).await.is_some(), applied, "{attack:?}");
            }
        }
    })
    .await;
}
