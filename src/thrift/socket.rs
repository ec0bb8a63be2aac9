//! One connection to a gateway, with a deadline for each call and a size limit for each answer.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use hbase_client::HostPort;

use super::Framing;

/// The maximum size of an answer: rows of locks and latches are small, and the peer is not trusted.
pub(super) const MAX_ANSWER: usize = 4 << 20;
const TOO_LONG: &str = "it is longer than 4 MiB";
/// A socket does not accept a timeout of zero.
const MIN_SHARE: Duration = Duration::from_millis(1);
/// The size of the read buffer.
const CHUNK: usize = 8 << 10;

/// A connection. Clones share it: the client reads by one and writes by another.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    call: Arc<Mutex<Call>>,
    framing: Framing,
}

/// The call in flight.
#[derive(Debug)]
struct Call {
    deadline: Instant,
    /// Whether a byte of it may have been sent.
    sent: bool,
    request: Vec<u8>,
    /// The bytes of the answer that were read; those from `used` on are not consumed yet.
    answer: Vec<u8>,
    used: usize,
    /// How many bytes of the answer may still be consumed.
    left: usize,
    /// How many bytes of the frame are not consumed yet. `None` before its beginning.
    frame: Option<usize>,
    /// Why the answer is invalid, if it is.
    absurd: Option<&'static str>,
}

impl Socket {
    pub(super) fn dial(gateway: &HostPort, framing: Framing, deadline: Instant) -> io::Result<Self> {
        let addresses = resolve(gateway, deadline)?;
        let stream = first_of(&addresses, deadline, TcpStream::connect_timeout)?;
        stream.set_nodelay(true)?;
        Ok(Self::new(stream, framing, deadline))
    }

    fn new(stream: TcpStream, framing: Framing, deadline: Instant) -> Self {
        let call = Call {
            deadline,
            sent: false,
            request: Vec::new(),
            answer: Vec::new(),
            used: 0,
            left: MAX_ANSWER,
            frame: None,
            absurd: None,
        };
        Self {
            stream: Arc::new(stream),
            call: Arc::new(Mutex::new(call)),
            framing,
        }
    }

    /// Begins a call with this deadline.
    pub(super) fn begin(&self, deadline: Instant) {
        let mut call = self.call();
        call.deadline = deadline;
        call.sent = false;
        call.request.clear();
        call.left = MAX_ANSWER;
        call.frame = None;
        call.absurd = None;
    }

    /// Returns whether a byte of the call may have been sent.
    pub(super) fn was_sent(&self) -> bool {
        self.call().sent
    }

    /// Returns why the answer is invalid, if it is.
    pub(super) fn absurdity(&self) -> Option<&'static str> {
        self.call().absurd
    }

    /// Returns the maximum size of the rest of the answer.
    pub(super) fn left(&self) -> usize {
        self.call().left
    }

    /// Returns whether another call may be made: the connection is open, and the peer sent no
    /// unrequested bytes, which would count as the answer to that call.
    pub(super) fn is_usable(&self) -> bool {
        let call = self.call();
        if call.used < call.answer.len() || call.frame.is_some_and(|left| left > 0) {
            return false;
        }
        let peek = || {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            peeked
        };
        matches!(peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads available bytes into an empty buffer, or waits for them.
    fn fill(&self, call: &mut Call) -> io::Result<()> {
        self.stream.set_read_timeout(Some(left_until(call.deadline)?))?;
        call.answer.resize(CHUNK, 0);
        call.used = 0;
        let read = (&*self.stream).read(&mut call.answer);
        call.answer.truncate(read.as_ref().copied().unwrap_or_default());
        match read.map_err(timed_out)? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the gateway closed the connection",
            )),
            _ => Ok(()),
        }
    }

    fn read_of(&self, call: &mut Call, into: &mut [u8]) -> io::Result<usize> {
        if call.used == call.answer.len() {
            self.fill(call)?;
        }
        let there = &call.answer[call.used..];
        let taken = there.len().min(into.len());
        into[..taken].copy_from_slice(&there[..taken]);
        call.used += taken;
        Ok(taken)
    }

    /// Reads the length of the frame that begins.
    fn begin_frame(&self, call: &mut Call) -> io::Result<usize> {
        let mut length = [0; 4];
        let mut read = 0;
        while read < length.len() {
            read += self.read_of(call, &mut length[read..])?;
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > call.left {
            return Err(call.refuse(TOO_LONG));
        }
        Ok(length)
    }
}

impl Call {
    fn refuse(&mut self, why: &'static str) -> io::Error {
        self.absurd = Some(why);
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut call = self.call();
        if call.left == 0 {
            return Err(call.refuse(TOO_LONG));
        }
        let mut most = into.len().min(call.left);
        if self.framing == Framing::Framed {
            let frame = match call.frame {
                Some(left) => left,
                None => self.begin_frame(&mut call)?,
            };
            if frame == 0 {
                return Err(call.refuse("its frame ends before it does"));
            }
            call.frame = Some(frame);
            most = most.min(frame);
        }
        let read = self.read_of(&mut call, &mut into[..most])?;
        call.left -= read;
        call.frame = call.frame.map(|left| left - read);
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call().request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Sends the request.
    fn flush(&mut self) -> io::Result<()> {
        let mut call = self.call();
        let mut request = std::mem::take(&mut call.request);
        // The answer to an earlier request of the same call was read.
        call.frame = None;
        if self.framing == Framing::Framed {
            let length = u32::try_from(request.len())
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a request too long for a frame"))?;
            request.splice(0..0, length.to_be_bytes());
        }
        let mut rest = &request[..];
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left_until(call.deadline)?))?;
            call.sent = true;
            match (&*self.stream).write(rest).map_err(timed_out)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => rest = &rest[written..],
            }
        }
        Ok(())
    }
}

/// Resolves the gateway's addresses. The system's resolver has no timeout, so it runs in a separate
/// thread, which is abandoned at the deadline.
fn resolve(gateway: &HostPort, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = gateway.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, gateway.port)]);
    }
    let (sender, receiver) = mpsc::channel();
    let (host, port) = (gateway.host.clone(), gateway.port);
    thread::Builder::new()
        .name("hbase-txn-resolver".to_owned())
        .spawn(move || sender.send((host, port).to_socket_addrs().map(Iterator::collect)))?;
    receiver.recv_timeout(left_until(deadline)?).unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("{} was not resolved in time", gateway.host),
        ))
    })
}

/// Returns the result of the first address that answers. Each address gets its share of the
/// remaining time, so a silent one leaves time for the others.
fn first_of<T>(
    addresses: &[SocketAddr],
    deadline: Instant,
    dial: impl Fn(&SocketAddr, Duration) -> io::Result<T>,
) -> io::Result<T> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let share = left_until(deadline)? / u32::try_from(left).unwrap_or(u32::MAX);
        match dial(address, share.max(MIN_SHARE)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Returns the time until the deadline, which is never zero, because a socket does not accept that
/// as a timeout.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the deadline passed"))
    } else {
        Ok(left)
    }
}

/// Maps the error of a socket timeout, which is `WouldBlock` on some systems.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "no answer came in time")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn silent_address_leaves_the_others_their_time() {
        let address = |last| SocketAddr::new(IpAddr::from([127, 0, 0, last]), 1);
        let addresses = [address(1), address(2), address(3)];
        let asked = RefCell::new(Vec::new());
        let limit = Duration::from_secs(9);
        let reached = first_of(&addresses, Instant::now() + limit, |address, time| {
            asked.borrow_mut().push(time);
            if *address == addresses[2] {
                Ok(*address)
            } else {
                Err(io::ErrorKind::TimedOut.into())
            }
        });
        assert_eq!(reached.unwrap(), addresses[2]);
        let asked = asked.into_inner();
        for (time, share) in asked.iter().zip([limit / 3, limit / 2, limit]) {
            assert!(*time <= share && *time > share / 2, "{asked:?}");
        }
        let over = first_of(&addresses, Instant::now(), |_, _| Ok(()));
        assert_eq!(over.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let none = first_of(&[], Instant::now() + limit, |_, _| Ok(()));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
