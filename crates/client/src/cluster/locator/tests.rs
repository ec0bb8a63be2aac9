//! Look-ups in a fake `hbase:meta` with a primary on port 1, and replicas on ports 2 and 3.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard},
};

use futures::future::BoxFuture;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::{
    cluster::{locator::*, registry::Registry},
    config::MetaReplicaMode,
    rpc::{Connector, DialTarget, Io, RpcClient},
    wire::{convert, frame::server_side, pb},
};

const PATIENCE: Duration = Duration::from_millis(300);
const PORTS: [u16; 3] = [1, 2, 3];

/// What a replica of `hbase:meta` does.
#[derive(Clone, Debug)]
enum Replica {
    /// It has these regions: start key, end key, id, port of the server, or 0 if it is not served.
    Has(&'static [(&'static str, &'static str, u64, u16)]),
    Hangs,
    Fails,
}
use Replica::{Fails, Hangs, Has};

/// The replicas by port.
#[derive(Clone, Debug, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    replicas: BTreeMap<u16, Replica>,
    /// The ports that were asked.
    asked: Vec<u16>,
}

impl Connector for Fake {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.clone().serve(target.address.port, server));
        Box::pin(async move { Ok(Box::new(client) as Box<dyn Io>) })
    }
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn set(&self, replicas: [Replica; 3]) {
        self.state().replicas = PORTS.into_iter().zip(replicas).collect();
    }

    /// Returns the ports of the scans since the last call.
    fn asked(&self) -> Vec<u16> {
        std::mem::take(&mut self.state().asked)
    }

    async fn serve(self, port: u16, mut stream: DuplexStream) -> io::Result<()> {
        stream.read_exact(&mut [0; 6]).await?;
        frame(&mut stream).await?;
        loop {
            let mut request = frame(&mut stream).await?;
            let header = pb::RequestHeader::decode_length_delimited(&mut request)?;
            let id = header.call_id.unwrap();
            let answer = match header.method_name() {
                "GetMetaRegionLocations" => server_side::answer(id, &locations(), &[]),
                "Scan" => {
                    let request = pb::ScanRequest::decode_length_delimited(&mut request)?;
                    match self.scan(port, &request) {
                        Hangs => continue,
                        Fails => server_side::refusal(id, "java.io.IOException", "no"),
                        Has(regions) => server_side::answer(id, &found(regions, &request), &[]),
                    }
                }
                other => panic!("{other}"),
            };
            stream.write_all(&answer).await?;
        }
    }

    fn scan(&self, port: u16, request: &pb::ScanRequest) -> Replica {
        let mut state = self.state();
        state.asked.push(port);
        let name = match port {
            1 => "hbase:meta,,1".to_owned(),
            port => format!("hbase:meta,,1_{:04X}", port - 1),
        };
        assert_eq!(request.region.as_ref().unwrap().value, name);
        let consistency = request.scan.as_ref().unwrap().consistency();
        assert_eq!(consistency == pb::Consistency::Timeline, port > 1);
        state.replicas[&port].clone()
    }
}

fn found(regions: &[(&'static str, &'static str, u64, u16)], request: &pb::ScanRequest) -> pb::ScanResponse {
    let scan = request.scan.as_ref().unwrap();
    let (start, inclusive) = (scan.start_row(), scan.include_start_row());
    let rows = regions.iter().rev().map(|region| row(*region));
    let rows = rows.filter(|row| row.cell[0].row() < start || inclusive && row.cell[0].row() == start);
    pb::ScanResponse {
        results: rows.collect(),
        ..Default::default()
    }
}

async fn frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let length = stream.read_u32().await?;
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

fn locations() -> pb::GetMetaRegionLocationsResponse {
    let location = |(id, port): (i32, u16)| pb::RegionLocation {
        region_info: pb::RegionInfo {
            replica_id: Some(id),
            ..convert::region_info_message(&RegionInfo::meta())
        },
        server_name: Some(convert::server_name_message(
            &ServerName::new("meta", port, 1).unwrap(),
        )),
        seq_num: 0,
    };
    pb::GetMetaRegionLocationsResponse {
        meta_locations: (0..).zip(PORTS).map(location).collect(),
    }
}

fn region((start, end, id, _): (&str, &str, u64, u16)) -> RegionInfo {
    RegionInfo {
        table: "t".parse().unwrap(),
        start_key: start.to_owned().into(),
        end_key: end.to_owned().into(),
        region_id: id,
        name: format!("t,{start},{id}.{id:032x}.").into(),
        split: false,
        offline: false,
    }
}

fn row(described: (&'static str, &'static str, u64, u16)) -> pb::Result {
    let region = region(described);
    let (id, port) = (described.2, described.3);
    let info = [
        b"PBUF",
        &convert::region_info_message(&region).encode_to_vec()[..],
    ]
    .concat();
    let mut columns = vec![("regioninfo", info)];
    if port > 0 {
        columns.push(("seqnumDuringOpen", id.to_be_bytes().into()));
        columns.push(("server", format!("s:{port}").into()));
        columns.push(("serverstartcode", 1_u64.to_be_bytes().into()));
    }
    let cell = |(qualifier, value): (&'static str, Vec<u8>)| pb::Cell {
        row: Some(region.name.clone()),
        family: Some("info".into()),
        qualifier: Some(qualifier.into()),
        timestamp: Some(1),
        cell_type: Some(4),
        value: Some(value.into()),
        tags: None,
    };
    pb::Result {
        cell: columns.into_iter().map(cell).collect(),
        ..Default::default()
    }
}

fn locator(mode: MetaReplicaMode, replicas: [Replica; 3]) -> (Locator, Fake) {
    let config = Config::from_uri("hbase+rpc://meta:1").unwrap();
    let config = config
        .with_meta_replicas(mode)
        .with_meta_replica_timeout(PATIENCE);
    let fake = Fake::default();
    fake.set(replicas);
    let rpc = Arc::new(RpcClient::new(&config, Arc::new(fake.clone())));
    let registry = Arc::new(Registry::new(&config, Arc::clone(&rpc)));
    (Locator::new(Catalog::new(&config, registry, rpc)), fake)
}

async fn locate(locator: &Locator, row: &'static str) -> Result<Arc<RegionLocation>, NoLocation> {
    let deadline = Instant::now() + Duration::from_secs(5);
    locator.locate(&"t".parse().unwrap(), &row.into(), deadline).await
}

/// Returns the port of the server that a look-up finds.
async fn port(locator: &Locator, row: &'static str) -> u16 {
    locate(locator, row).await.unwrap().server.port
}

const HALVES: Replica = Has(&[("", "m", 1, 10), ("m", "", 1, 11)]);

#[tokio::test(start_paused = true)]
async fn replicas_are_not_asked_by_default() {
    let (locator, fake) = locator(MetaReplicaMode::None, [HALVES, HALVES, HALVES]);
    assert_eq!((port(&locator, "a").await, fake.asked()), (10, vec![1]));
    fake.set([Hangs, HALVES, HALVES]);
    locator.forget(&locate(&locator, "a").await.unwrap());
    locate(&locator, "a").await.unwrap_err();
    assert_eq!(fake.asked(), [1]);
}

#[tokio::test(start_paused = true)]
async fn hedged_read_asks_replicas_of_a_silent_primary() {
    let (locator, fake) = locator(MetaReplicaMode::HedgedRead, [HALVES, HALVES, HALVES]);
    assert_eq!((port(&locator, "z").await, fake.asked()), (11, vec![1]));
    // The neighbours are cached too.
    assert_eq!((port(&locator, "a").await, fake.asked()), (10, vec![]));

    let (locator, fake) = self::locator(MetaReplicaMode::HedgedRead, [Hangs, Hangs, HALVES]);
    let began = Instant::now();
    assert_eq!(port(&locator, "z").await, 11);
    assert!(PATIENCE <= began.elapsed() && began.elapsed() <= 2 * PATIENCE + Duration::from_millis(50));
    assert_eq!((port(&locator, "a").await, fake.asked()[0]), (10, 1));

    let (locator, _fake) = self::locator(MetaReplicaMode::HedgedRead, [Fails, HALVES, HALVES]);
    let began = Instant::now();
    assert_eq!(port(&locator, "z").await, 11);
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn load_balance_asks_the_primary_last() {
    let mut first = [0; 4];
    for _ in 0..50 {
        let (locator, fake) = locator(MetaReplicaMode::LoadBalance, [HALVES, HALVES, HALVES]);
        assert_eq!(port(&locator, "z").await, 11);
        let asked = fake.asked();
        assert_eq!(asked.len(), 1);
        first[usize::from(asked[0])] += 1;
    }
    assert!(first[1] == 0 && first[2] > 0 && first[3] > 0, "{first:?}");

    for silent in [Hangs, Fails] {
        let (locator, fake) = locator(MetaReplicaMode::LoadBalance, [HALVES, silent.clone(), silent]);
        assert_eq!(port(&locator, "z").await, 11);
        assert_eq!(fake.asked()[1], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_primary_decides_that_a_row_has_no_region() {
    const EMPTY: Replica = Has(&[]);
    const HOLE: Replica = Has(&[("", "m", 1, 10)]);
    const UNASSIGNED: Replica = Has(&[("", "m", 1, 10), ("m", "", 1, 0)]);
    for mode in [MetaReplicaMode::HedgedRead, MetaReplicaMode::LoadBalance] {
        for behind in [EMPTY, HOLE, UNASSIGNED] {
            let (locator, fake) = locator(mode, [HALVES, behind.clone(), behind.clone()]);
            assert_eq!(port(&locator, "z").await, 11);
            assert_eq!(fake.asked().last(), Some(&1));
            // The primary fails, and the others do not count.
            let (locator, _) = self::locator(mode, [Fails, behind.clone(), behind]);
            let failure = locate(&locator, "z").await.unwrap_err();
            assert!(matches!(failure, NoLocation::Call(..)), "{failure:?}");
        }
        let (locator, _) = locator(mode, [EMPTY, EMPTY, EMPTY]);
        let failure = locate(&locator, "z").await.unwrap_err();
        assert!(matches!(failure, NoLocation::NoTable(_)), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stale_location_leads_to_the_primary() {
    const SPLIT: Replica = Has(&[("", "f", 2, 20), ("f", "m", 2, 21), ("m", "", 1, 11)]);
    let (locator, fake) = locator(MetaReplicaMode::LoadBalance, [SPLIT, HALVES, HALVES]);
    for forget_server in [false, true] {
        let stale = locate(&locator, "g").await.unwrap();
        assert!(
            stale.server.port == 10 && fake.asked() != [1],
            "a replica has the parent"
        );
        if forget_server {
            locator.forget_server(&stale);
        } else {
            locator.forget(&stale);
        }
        for (row, server) in [("g", 21), ("a", 20)] {
            assert_eq!(port(&locator, row).await, server);
        }
        assert_eq!(fake.asked(), [1]);
        // A late failure of the parent.
        locator.forget(&stale);
        assert_eq!((port(&locator, "g").await, fake.asked()), (21, vec![]));
        // Other regions are still read from replicas, whose neighbours are not cached.
        assert!(port(&locator, "z").await == 11 && fake.asked() != [1]);
        assert_eq!((port(&locator, "g").await, fake.asked()), (21, vec![]));
        for row in ["a", "g", "z"] {
            locator.cache.forget(&locate(&locator, row).await.unwrap());
        }
        assert_eq!((port(&locator, "a").await, fake.asked()), (20, vec![1]));
        for row in ["a", "g", "z"] {
            locator.cache.forget(&locate(&locator, row).await.unwrap());
        }
        fake.asked();
        tokio::time::advance(Duration::from_secs(61)).await;
    }
}
