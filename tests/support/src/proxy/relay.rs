//! One connection through the proxy.

use std::{
    collections::HashMap,
    future::pending,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hbase_txn::client::ServiceKind;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, split},
    net::TcpStream,
    select,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{
    Action, Shared,
    frames::{self, RequestHeader, ResponseHeader},
    late::Late,
};

/// An instruction for the writing half of a direction.
enum Order {
    Write(Bytes),
    Cut,
}

/// The state that both directions of one connection share.
#[derive(Default)]
struct Link {
    /// The treatment of the next answer to a call.
    answers: Mutex<HashMap<u32, Action>>,
    blackhole: AtomicBool,
}

/// Relays one connection until one end closes it or the rule cuts it.
pub(super) async fn relay(
    shared: Arc<Shared>,
    service: ServiceKind,
    client: DuplexStream,
    server: TcpStream,
) {
    let Ok(address) = server.peer_addr() else {
        return;
    };
    let link = Link::default();
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = server.into_split();
    let (server_orders, server_inbox) = unbounded_channel();
    let (client_orders, client_inbox) = unbounded_channel();
    let outboxes = (server_orders, client_orders.clone());
    let requests = requests(&shared, &link, (service, address), from_client, outboxes);
    let answers = answers(&link, from_server, client_orders);
    // A reader that ends drops its sender, so the writer performs the remaining instructions before
    // it ends.
    let reading = async {
        let _ = futures::join!(requests, answers);
        pending::<()>().await;
    };
    select! {
        () = obey(server_inbox, to_server) => {}
        () = obey(client_inbox, to_client) => {}
        () = reading => {}
    }
}

async fn requests(
    shared: &Arc<Shared>,
    link: &Link,
    (service, address): (ServiceKind, SocketAddr),
    mut client: impl AsyncRead + Unpin,
    (server, answers): (UnboundedSender<Order>, UnboundedSender<Order>),
) -> io::Result<()> {
    let opening = frames::opening(&mut client).await?;
    write(&server, opening.clone());
    let late = |request: Bytes| Late {
        server: address,
        opening: opening.clone(),
        request,
    };
    loop {
        let frame = frames::frame(&mut client).await?;
        let header: RequestHeader = frames::header(&frame)?;
        let method = frames::method(&frame, header.method_name);
        let bytes = (opening.clone(), frame.clone());
        let action = shared.decide(service, address.port(), method, bytes);
        if link.blackhole.load(Ordering::Relaxed) {
            continue;
        }
        match action {
            Action::Pass => write(&server, frame),
            Action::DropAnswer | Action::DelayAnswer(_) | Action::CutBeforeAnswer | Action::CutInAnswer => {
                let call_id = header.call_id.unwrap_or_default();
                link.answers.lock().unwrap().insert(call_id, action);
                write(&server, frame);
            }
            Action::DropRequest => {}
            Action::Refuse => write(&answers, frames::too_busy(header.call_id)),
            Action::DelayRequest(time) => later(&server, time, frame),
            Action::Duplicate => {
                write(&server, frame.clone());
                write(&server, frame);
            }
            Action::Detour(time) => late(frame).deliver_after(time, shared),
            Action::Again(time) => {
                late(frame.clone()).deliver_after(time, shared);
                write(&server, frame);
            }
            Action::Hold => shared.held.lock().unwrap().push(late(frame)),
            Action::CutBeforeRequest => cut(&server),
            Action::CutInRequest => {
                write(&server, frame.slice(..frame.len() / 2));
                cut(&server);
            }
            Action::CutAfterRequest => {
                write(&server, frame);
                cut(&server);
            }
            Action::DropConditions => write(&server, frames::without_conditions(&frame)?),
            Action::Blackhole => link.blackhole.store(true, Ordering::Relaxed),
            Action::BlackholeAnswers => {
                write(&server, frame);
                link.blackhole.store(true, Ordering::Relaxed);
            }
            Action::BlackholeUntil(time) => {
                late(frame).deliver_after(time, shared);
                link.blackhole.store(true, Ordering::Relaxed);
            }
        }
    }
}

async fn answers(
    link: &Link,
    mut server: impl AsyncRead + Unpin,
    client: UnboundedSender<Order>,
) -> io::Result<()> {
    loop {
        let frame = frames::frame(&mut server).await?;
        if link.blackhole.load(Ordering::Relaxed) {
            continue;
        }
        let header: ResponseHeader = frames::header(&frame)?;
        let call_id = header.call_id.unwrap_or_default();
        let action = link.answers.lock().unwrap().remove(&call_id);
        match action {
            Some(Action::DropAnswer) => {}
            Some(Action::DelayAnswer(time)) => later(&client, time, frame),
            Some(Action::CutBeforeAnswer) => cut(&client),
            Some(Action::CutInAnswer) => {
                write(&client, frame.slice(..frame.len() / 2));
                cut(&client);
            }
            _ => write(&client, frame),
        }
    }
}

/// Writes as instructed; when it returns, the connection is closed.
async fn obey(mut inbox: UnboundedReceiver<Order>, mut to: impl AsyncWrite + Unpin) {
    while let Some(Order::Write(bytes)) = inbox.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

// A direction that has ended accepts no instructions, and none are needed.

fn write(to: &UnboundedSender<Order>, bytes: Bytes) {
    let _ = to.send(Order::Write(bytes));
}

fn cut(to: &UnboundedSender<Order>) {
    let _ = to.send(Order::Cut);
}

fn later(to: &UnboundedSender<Order>, time: Duration, bytes: Bytes) {
    let to = to.clone();
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        write(&to, bytes);
    });
}
