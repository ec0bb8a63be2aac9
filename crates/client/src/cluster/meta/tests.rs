use std::{io, net::ToSocketAddrs};

use futures::future::BoxFuture;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::{
    cluster::meta::*,
    config::Config,
    rpc::{Connector, DialTarget, Io},
    wire::{cell_block::Codec, frame::server_side},
};

/// A server of `hbase:meta` with a few regions. It serves reversed scans, and now and then reports
/// that it ran out of time.
#[derive(Clone, Debug)]
struct Meta {
    regions: Vec<RegionInfo>,
    short_of_time: bool,
}

impl Connector for Meta {
    fn connect(&self, _: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.clone().serve(server));
        Box::pin(async move { Ok(Box::new(client) as Box<dyn Io>) })
    }
}

impl Meta {
    async fn serve(mut self, mut stream: DuplexStream) -> io::Result<()> {
        stream.read_exact(&mut [0; 6]).await?;
        frame(&mut stream).await?;
        loop {
            let mut request = frame(&mut stream).await?;
            let header = pb::RequestHeader::decode_length_delimited(&mut request)?;
            let request = pb::ScanRequest::decode_length_delimited(&mut request)?;
            let answer = self.scan(&request);
            let answer = server_side::answer(header.call_id.unwrap(), &answer, &[]);
            stream.write_all(&answer).await?;
        }
    }

    fn scan(&mut self, request: &pb::ScanRequest) -> pb::ScanResponse {
        let scan = request.scan.as_ref().unwrap();
        assert!(scan.reversed() && request.close_scanner());
        if std::mem::take(&mut self.short_of_time) {
            return pb::ScanResponse {
                heartbeat_message: Some(true),
                more_results: Some(true),
                ..Default::default()
            };
        }
        let start = scan.start_row.as_ref().unwrap();
        let results = self
            .regions
            .iter()
            .rev()
            .filter(|region| region.name < *start || scan.include_start_row() && region.name == *start)
            .take(request.number_of_rows() as usize)
            .map(result)
            .collect();
        pb::ScanResponse {
            results,
            ..Default::default()
        }
    }
}

async fn frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let length = stream.read_u32().await?;
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

fn result(region: &RegionInfo) -> pb::Result {
    let value = [b"PBUF", &convert::region_info_message(region).encode_to_vec()[..]].concat();
    pb::Result {
        cell: vec![pb::Cell {
            row: Some(region.name.clone()),
            family: Some("info".into()),
            qualifier: Some("regioninfo".into()),
            timestamp: Some(1),
            cell_type: Some(4),
            value: Some(value.into()),
            tags: None,
        }],
        ..Default::default()
    }
}

fn region(start: &str, end: &str, region_id: u64, split: bool) -> RegionInfo {
    RegionInfo {
        table: "t".parse().unwrap(),
        start_key: start.to_owned().into(),
        end_key: end.to_owned().into(),
        region_id,
        name: format!("t,{start},{region_id}.{region_id:032x}.").into(),
        split,
        offline: split,
    }
}

/// Returns the start keys and ids of the regions that a lookup of the row finds.
async fn look_up(mut regions: Vec<RegionInfo>, row: &str) -> Vec<(Bytes, u64)> {
    regions.sort_by(|a, b| a.name.cmp(&b.name));
    let meta = Meta {
        regions,
        short_of_time: true,
    };
    let config = Config::from_uri("hbase+rpc://meta:1").unwrap();
    let rpc = Arc::new(RpcClient::new(&config, Arc::new(meta)));
    let location = RegionLocation::new(RegionInfo::meta(), ServerName::new("meta", 1, 1).unwrap());
    let reader = MetaReader {
        rpc: &rpc,
        location: &location,
        deadline: Instant::now() + Duration::from_secs(10),
        timeout: Duration::from_secs(10),
    };
    let found = reader
        .regions_before(&"t".parse().unwrap(), row.as_bytes(), 10)
        .await
        .unwrap();
    found
        .into_iter()
        .map(|found| (found.region.start_key, found.region.region_id))
        .collect()
}

#[rstest]
#[case::name("rs1.example.org:16020", "rs1.example.org")]
#[case::brackets("[::1]:16020", "::1")]
#[case::long("[0:0:0:0:0:0:0:1]:16020", "0:0:0:0:0:0:0:1")]
#[case::bare("::1:16020", "::1")]
#[case::bare_and_long("0:0:0:0:0:0:0:1:16020", "0:0:0:0:0:0:0:1")]
fn server_column_has_an_address_that_can_be_dialled(#[case] column: &'static str, #[case] host: &str) {
    let cell = |qualifier: &'static str, value: Bytes| pb::Cell {
        qualifier: Some(qualifier.into()),
        value: Some(value),
        ..result(&region("", "", 1, false)).cell.remove(0)
    };
    let mut message = result(&region("", "", 1, false));
    message.cell.push(cell("server", column.into()));
    message.cell.push(cell(
        "serverstartcode",
        Bytes::copy_from_slice(&7_u64.to_be_bytes()),
    ));
    let row = convert::row(message, &mut CellBlockDecoder::new(Bytes::new(), Codec::KeyValue)).unwrap();
    let location = parse_meta_row(row.unwrap())
        .unwrap()
        .unwrap()
        .location(Instant::now())
        .unwrap();
    assert_eq!(location.server.to_string(), format!("{host},16020,7"));
    assert_eq!(location.address().host, host);
    if host.contains(':') {
        let reached: Vec<_> = (host, 16_020).to_socket_addrs().unwrap().collect();
        assert_eq!(reached, [(std::net::Ipv6Addr::LOCALHOST, 16_020).into()]);
    }
}

#[tokio::test]
async fn a_region_is_found_behind_any_number_of_split_parents() {
    for parents in [0, 9, 10, 11, 20, 35] {
        let mut regions = vec![region("", "", 500, false)];
        regions.extend((0..parents).map(|number| region(&format!("k{number:02}"), "l", 100, true)));
        assert_eq!(look_up(regions, "kz").await, [(Bytes::new(), 500)], "{parents}");
    }
}

#[tokio::test]
async fn a_table_without_regions_is_told_from_one_with_a_busy_server() {
    assert_eq!(look_up(Vec::new(), "k").await, []);
    let parents = (0..10).map(|number| region(&format!("k{number}"), "l", 100, true));
    assert_eq!(look_up(parents.collect(), "kz").await, []);
    let regions = vec![region("", "k", 1, false), region("k", "", 1, false)];
    assert_eq!(look_up(regions, "k1").await, [("k".into(), 1), (Bytes::new(), 1)]);
}
