//! Sequences of operations on one cluster.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use hbase_protocol as pb;
use hbase_txn::{
    admin::Admin,
    client::{Connection, FamilyDescriptor, TableDescriptor, TableName},
};
use prost::Message;
use tokio::runtime::Handle;

use super::{
    answers::{Times, Writer},
    operations::{Operation, Paging, everything, sequence},
    raw::{RawConnection, Refusal},
};

/// Operations are this far apart, so that their times differ.
const GAP: Duration = Duration::from_millis(6);

/// The answer to an operation that the fake refuses.
const REFUSED: &str = "not modelled";

/// Every flush leaves files, of which a server keeps about 120 KB each in its memory.
const SEQUENCES_PER_TABLE: usize = 25;

/// A cluster to compare.
pub(crate) struct Cluster {
    connection: Connection,
    runtime: Handle,
}

/// The connections of one thread, and its table: a flush affects all rows of a region.
pub(crate) struct Session<'a> {
    cluster: &'a Cluster,
    table: TableName,
    sequences: usize,
    rows: RawConnection,
    regions: RawConnection,
    region: pb::RegionSpecifier,
}

/// A sequence that two clusters answer differently.
pub(crate) struct Difference {
    seed: u64,
    operations: Vec<Operation>,
    real: Vec<String>,
    fake: Vec<String>,
}

static PREFIXES: AtomicU64 = AtomicU64::new(0);

impl Cluster {
    pub(crate) async fn connect(uri: &str) -> Self {
        Self {
            connection: Connection::connect(uri).await.unwrap(),
            runtime: Handle::current(),
        }
    }

    /// Opens connections to a new table. Blocks the thread.
    pub(crate) fn open(&self) -> Session<'_> {
        self.runtime.block_on(self.create())
    }

    async fn create(&self) -> Session<'_> {
        let table: TableName = format!("conformance_{:x}", fastrand::u64(..)).parse().unwrap();
        let versions = |family: &str, count: u32| {
            FamilyDescriptor::new(family).with_attribute("VERSIONS", count.to_string())
        };
        let descriptor = TableDescriptor::from(table.clone())
            .with_family(versions("a", 1))
            .with_family(versions("b", 2))
            .with_family(versions("m", 1_000))
            .with_family(versions("n", 2).with_attribute("NEW_VERSION_BEHAVIOR", "true"))
            .with_attribute("COMPACTION_ENABLED", "false")
            .with_multi_row_mutation_endpoint();
        let admin = Admin::new(&self.connection);
        admin.create_table(&descriptor, &["~".into()]).await.unwrap();
        let regions = admin.regions(&table).await.unwrap();
        let server = regions[0].server.as_ref().unwrap().address().to_string();
        let mut region = pb::RegionSpecifier {
            value: regions[0].region.name.clone(),
            ..Default::default()
        };
        region.set_type(pb::region_specifier::RegionSpecifierType::RegionName);
        Session {
            cluster: self,
            table,
            sequences: 0,
            rows: RawConnection::open(&server, "ClientService"),
            regions: RawConnection::open(&server, "AdminService"),
            region,
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let deleted = Admin::new(&self.cluster.connection);
        let deleted = self.cluster.runtime.block_on(deleted.delete_table(&self.table));
        if let Err(error) = deleted {
            println!("{} is left: {error}", self.table);
        }
    }
}

/// Runs the sequence of a seed on both clusters. Returns the fewest of its operations that are
/// answered differently.
pub(crate) fn compare<'a>(real: &mut Session<'a>, fake: &mut Session<'a>, seed: u64) -> Option<Difference> {
    for session in [&mut *real, &mut *fake] {
        session.sequences += 1;
        if session.sequences > SEQUENCES_PER_TABLE {
            *session = session.cluster.open();
        }
    }
    let all: Vec<usize> = (0..super::operations::LENGTH).collect();
    let mut difference = always_differ(real, fake, seed, &all)?;
    let mut chosen = all;
    let mut at = 0;
    while at < chosen.len() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        match always_differ(real, fake, seed, &fewer) {
            Some(smaller) => (difference, chosen) = (smaller, fewer),
            None => at += 1,
        }
    }
    Some(difference)
}

/// Parts of a call that is not atomic may or may not be in the same millisecond, and then mask each
/// other or not. Such a difference does not stay.
fn always_differ(
    real: &mut Session<'_>,
    fake: &mut Session<'_>,
    seed: u64,
    chosen: &[usize],
) -> Option<Difference> {
    (0..3).try_fold(None, |_, _| differ(real, fake, seed, chosen).map(Some))?
}

fn differ(real: &mut Session<'_>, fake: &mut Session<'_>, seed: u64, chosen: &[usize]) -> Option<Difference> {
    // The same rows in both, and in no other sequence.
    let prefix = format!(
        "s{:x}.",
        PREFIXES.fetch_add(1, Ordering::Relaxed) + (u64::from(std::process::id()) << 32)
    );
    let all = sequence(seed, &prefix);
    let mut operations: Vec<_> = chosen.iter().map(|number| all[*number].clone()).collect();
    operations.push(everything(&prefix));
    let fake = fake.run(&operations, &prefix, &[]);
    // What the fake refuses would keep a thread of a real server busy without end.
    let refused: Vec<_> = fake.iter().map(|answer| answer == REFUSED).collect();
    let real = real.run(&operations, &prefix, &refused);
    (real != fake).then_some(Difference {
        seed,
        operations,
        real,
        fake,
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis().try_into().unwrap()
}

impl Session<'_> {
    /// Runs operations without those that are refused, and returns their answers.
    fn run(&mut self, operations: &[Operation], prefix: &str, refused: &[bool]) -> Vec<String> {
        let mut times = Times::default();
        operations
            .iter()
            .enumerate()
            .map(|(number, operation)| {
                #[allow(clippy::disallowed_methods, reason = "operations need different milliseconds")]
                thread::sleep(GAP);
                let began = now();
                let answer = match refused.get(number) {
                    Some(true) => Err(Refusal::not_modelled()),
                    _ => self.send(operation),
                };
                times.spans.push((began, now()));
                let mut writer = Writer {
                    times: &times,
                    prefix,
                    text: String::new(),
                };
                match answer {
                    Ok(parts) => parts.iter().for_each(|part| part.write(&mut writer)),
                    Err(refusal) if refusal.is_not_modelled() => writer.text = REFUSED.to_owned(),
                    Err(refusal) => writer.refusal(&refusal),
                }
                writer.text
            })
            .collect()
    }

    fn send(&mut self, operation: &Operation) -> Result<Vec<Part>, Refusal> {
        let region = self.region.clone();
        match operation {
            Operation::Get(get) => {
                let request = pb::GetRequest {
                    region,
                    get: get.clone(),
                };
                let answer: pb::GetResponse = self.rows.call("Get", &request)?;
                Ok(answer.result.into_iter().map(Part::Result).collect())
            }
            Operation::Mutate(mutation, condition) => {
                let request = pb::MutateRequest {
                    region,
                    mutation: mutation.clone(),
                    condition: condition.clone(),
                    ..Default::default()
                };
                let answer: pb::MutateResponse = self.rows.call("Mutate", &request)?;
                let mut parts = vec![Part::Flag("processed", answer.processed)];
                parts.extend(answer.result.map(Part::Result));
                Ok(parts)
            }
            Operation::Exec(request) => {
                let call = pb::CoprocessorServiceCall {
                    row: Bytes::new(),
                    service_name: "MultiRowMutationService".into(),
                    method_name: "MutateRows".into(),
                    request: request.encode_to_vec().into(),
                };
                let request = pb::CoprocessorServiceRequest { region, call };
                let answer: pb::CoprocessorServiceResponse = self.rows.call("ExecService", &request)?;
                let answer = pb::MutateRowsResponse::decode(answer.value.value.unwrap_or_default()).unwrap();
                Ok(vec![Part::Flag("processed", answer.processed)])
            }
            Operation::Multi(actions, atomic, condition) => {
                let action = pb::RegionAction {
                    region,
                    atomic: Some(*atomic),
                    action: actions.clone(),
                    condition: condition.clone(),
                };
                let request = pb::MultiRequest {
                    region_action: vec![action],
                    ..Default::default()
                };
                let answer: pb::MultiResponse = self.rows.call("Multi", &request)?;
                Ok(answer.region_action_result.into_iter().flat_map(multi).collect())
            }
            Operation::Scan(scan, paging) => self.scan(region, scan, *paging),
            Operation::Flush => {
                let request = pb::FlushRegionRequest {
                    region,
                    ..Default::default()
                };
                // The other sequences may have flushed just before.
                let _: pb::FlushRegionResponse = self.regions.call("FlushRegion", &request)?;
                Ok(Vec::new())
            }
        }
    }

    fn scan(
        &mut self,
        region: pb::RegionSpecifier,
        scan: &pb::Scan,
        paging: Paging,
    ) -> Result<Vec<Part>, Refusal> {
        let mut request = pb::ScanRequest {
            region: Some(region),
            scan: Some(scan.clone()),
            number_of_rows: Some(paging.results),
            limit_of_rows: paging.rows,
            client_handles_partials: Some(paging.cuts_rows),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        };
        let mut parts = Vec::new();
        for sequence in 0.. {
            let answer: pb::ScanResponse = self.rows.call("Scan", &request)?;
            for (number, mut result) in answer.results.into_iter().enumerate() {
                result.partial = answer
                    .partial_flag_per_result
                    .get(number)
                    .copied()
                    .or(result.partial);
                parts.push(Part::Row(result));
            }
            let more = answer.more_results.unwrap_or(true) && answer.more_results_in_region.unwrap_or(true);
            parts.push(Part::Flag("more", answer.more_results));
            parts.push(Part::Flag("in_region", answer.more_results_in_region));
            if !more {
                break;
            }
            request = pb::ScanRequest {
                scanner_id: answer.scanner_id.or(request.scanner_id),
                number_of_rows: Some(paging.results),
                limit_of_rows: paging.rows,
                next_call_seq: Some(sequence),
                client_handles_partials: Some(paging.cuts_rows),
                client_handles_heartbeats: Some(true),
                ..Default::default()
            };
        }
        Ok(parts)
    }
}

/// A part of an answer.
enum Part {
    Flag(&'static str, Option<bool>),
    Result(pb::Result),
    Row(pb::Result),
    Indexed(u32, Box<Self>),
    Exception(pb::NameBytesPair),
}

fn multi(answer: pb::RegionActionResult) -> Vec<Part> {
    let mut parts = vec![Part::Flag("processed", answer.processed)];
    parts.extend(answer.exception.map(Part::Exception));
    let mut actions = answer.result_or_exception;
    actions.sort_by_key(|action| action.index);
    for action in actions {
        let part = match (action.result, action.exception) {
            (_, Some(exception)) => Part::Exception(exception),
            (Some(result), None) => Part::Result(result),
            (None, None) => Part::Flag("neither", Some(true)),
        };
        parts.push(Part::Indexed(action.index.unwrap_or_default(), Box::new(part)));
    }
    parts
}

impl Part {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Flag(name, flag) => writer.flag(name, *flag),
            Self::Result(result) => writer.result(result),
            Self::Row(result) => {
                writer.text.push_str("row( ");
                writer.result(result);
                writer.text.push_str(") ");
            }
            Self::Indexed(index, part) => {
                writer.text.push_str(&format!("[{index}] "));
                part.write(writer);
            }
            Self::Exception(exception) => writer.exception(exception),
        }
    }
}

/// Returns an operation without the fields that are not set.
fn brief(operation: &Operation) -> String {
    let text = format!("{operation:?}");
    let mut brief = String::new();
    for part in text.split(", ") {
        let field = part.trim_end_matches([' ', '}', ')', ']']);
        let end = &part[field.len()..];
        if field.ends_with(": None") || field.ends_with(": [") {
            brief += end;
        } else {
            brief += ", ";
            brief += part;
        }
    }
    brief
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CONFORMANCE_SEED={} is answered differently", self.seed)?;
        for (number, operation) in self.operations.iter().enumerate() {
            writeln!(f, "{number}: {}", brief(operation))?;
            let (real, fake) = (&self.real[number], &self.fake[number]);
            if real == fake {
                writeln!(f, "   both: {real}")?;
            } else {
                writeln!(f, "   HBase: {real}\n   fake:  {fake}")?;
            }
        }
        Ok(())
    }
}
