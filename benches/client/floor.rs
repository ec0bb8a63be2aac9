//! The floor: frames that were encoded beforehand, on one raw socket for each server. It does
//! nothing that a client could leave out.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use hbase_txn::{
    admin::Admin,
    client::{Connection, RegionInfo},
};

use super::{
    frames::{self, Frame, Reader},
    setup::Failure,
    workload::{Answer, Operation, Request},
};

/// A region, and the address of its server.
pub(crate) struct Placed {
    pub(crate) region: RegionInfo,
    pub(crate) server: String,
}

pub(crate) struct Floor {
    reads: Vec<Placed>,
    writes: Vec<Placed>,
    prepared: Option<(Request, Vec<Lane>)>,
}

/// The calls of one server.
struct Lane {
    server: String,
    operation: Operation,
    frames: Vec<Frame>,
    outstanding: usize,
}

impl Floor {
    pub(crate) async fn new(uri: &str, reads: &str, writes: &str) -> Result<Self, Failure> {
        let connection = Connection::connect(uri).await?;
        let placed = async |table: &str| {
            let regions = Admin::new(&connection).regions(table).await?.into_iter();
            let placed = regions.map(|place| {
                Ok(Placed {
                    region: place.region,
                    server: place.server.ok_or("a region is on no server")?.address(),
                })
            });
            placed.collect::<Result<Vec<_>, Failure>>()
        };
        Ok(Self {
            reads: placed(reads).await?,
            writes: placed(writes).await?,
            prepared: None,
        })
    }

    pub(crate) fn perform(&mut self, request: &Request) -> Result<Answer, Failure> {
        // Encoded in the warm-up, and kept for the rounds.
        let lanes = match self.prepared.take() {
            Some((same, lanes)) if same == *request => lanes,
            _ => self.lanes(request)?,
        };
        let sockets = lanes.iter().map(|lane| dial(&lane.server));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let (began, length) = (Instant::now(), Duration::from_secs_f64(request.seconds));
        let seen: Result<Vec<_>, Failure> = thread::scope(|scope| {
            let pairs = lanes.iter().zip(sockets);
            let running: Vec<_> = pairs
                .map(|(lane, socket)| scope.spawn(move || lane.run(socket, began, length)))
                .collect();
            let joined = running.into_iter().map(|lane| lane.join());
            joined.map(|seen| seen.map_err(|_| "a lane panicked")?).collect()
        });
        let (mut times, mut done) = (Vec::new(), 0);
        for (own, count) in seen? {
            times.extend(own);
            done += count;
        }
        self.prepared = Some((request.clone(), lanes));
        Ok(Answer::of(times, done, began.elapsed().as_secs_f64()))
    }

    fn lanes(&self, request: &Request) -> Result<Vec<Lane>, Failure> {
        let regions = match request.operation {
            Operation::Get => &self.reads,
            _ => &self.writes,
        };
        let mut servers: BTreeMap<&str, Vec<Frame>> = BTreeMap::new();
        for (server, frame) in frames::encode(request, regions)? {
            servers.entry(server).or_default().push(frame);
        }
        // With fewer calls than servers, some servers get none.
        let count = servers.len().min(request.outstanding);
        let lanes = servers.into_iter().take(count).map(|(server, frames)| Lane {
            server: server.to_owned(),
            operation: request.operation,
            frames,
            outstanding: request.outstanding / count,
        });
        Ok(lanes.collect())
    }
}

fn dial(server: &str) -> Result<TcpStream, Failure> {
    let mut socket = TcpStream::connect(server)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    socket.write_all(&frames::opening()?)?;
    Ok(socket)
}

impl Lane {
    /// Keeps its calls in flight until the time is over. Returns the times of all calls, and the
    /// number of rows or commits.
    fn run(
        &self,
        mut socket: TcpStream,
        began: Instant,
        length: Duration,
    ) -> Result<(Vec<u32>, u64), Failure> {
        let mut frames = self.frames.iter().cycle();
        let mut out = Vec::new();
        let mut sent: Vec<(Instant, u64)> = Vec::with_capacity(self.outstanding);
        for (slot, frame) in (0..self.outstanding).zip(&mut frames) {
            frame.write(slot, &mut out);
            sent.push((Instant::now(), frame.done));
        }
        let (mut times, mut done, mut in_flight) = (Vec::new(), 0, self.outstanding);
        let mut reader = Reader::new(self.operation);
        while in_flight > 0 {
            socket.write_all(&out)?;
            out.clear();
            let count = socket.read(reader.space())?;
            let now = Instant::now();
            reader.filled(count)?;
            while let Some(slot) = reader.next_answer()? {
                let (began_at, rows) = sent.get(slot).copied().ok_or("an answer to no call")?;
                times.push(u32::try_from((now - began_at).as_nanos()).unwrap_or(u32::MAX));
                done += rows;
                match frames.next() {
                    Some(frame) if now - began < length => {
                        frame.write(slot, &mut out);
                        sent[slot] = (now, frame.done);
                    }
                    _ => in_flight -= 1,
                }
            }
        }
        Ok((times, done))
    }
}
