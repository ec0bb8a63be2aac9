//! The state of a cluster.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_protocol as pb;
use pb::table_state::State as TableState;

use super::{
    call::{Answer, Call, Service},
    hosted::Hosted,
    names::{META_ENCODED, RegionInfo, ServerName, TableName, encoded_name, text},
    procedures::Procedures,
    server::{Role, Server, ServerIndex},
    settings::Settings,
};
use crate::{
    exception::{Exception, Result},
    region::{Region, Release, RowOrder},
};

/// The port of the first region server; the others follow.
const REGION_SERVER_PORT: u16 = 16020;
const MASTER_PORT: u16 = 16000;
/// The attribute that the endpoint for changes of several rows has, whatever its number.
const ENDPOINT: &str = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";

/// A cluster: everything that lasts longer than a call.
#[derive(Debug)]
pub(crate) struct World {
    pub(super) settings: Settings,
    pub(super) servers: Vec<Server>,
    pub(super) active_master: Option<ServerIndex>,
    pub(super) tables: BTreeMap<TableName, Table>,
    /// All regions by their encoded names, those that were split included.
    pub(super) regions: BTreeMap<Bytes, Hosted>,
    pub(super) namespaces: BTreeMap<String, pb::NamespaceDescriptor>,
    pub(super) switches: Switches,
    pub(super) procedures: Procedures,
    pub(super) dead_servers: Vec<ServerName>,
    /// The latest time of any call or step, in milliseconds since 1970, without skew.
    pub(super) wall: u64,
    /// The timestamp of the latest change of `hbase:meta`; each has one of its own.
    pub(super) meta_timestamp: u64,
    pub(super) rng: fastrand::Rng,
    refusals: Vec<String>,
    /// The percentage that servers report in answers to `Multi`.
    pub(crate) memstore_load: Option<i32>,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) schema: pb::TableSchema,
    pub(super) state: TableState,
    /// The encoded names of the regions in use, by their start keys.
    pub(super) regions: BTreeMap<Bytes, Bytes>,
}

/// What the master does for all tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switches {
    pub(super) balancer: bool,
    pub(super) split: bool,
    pub(super) merge: bool,
}

impl World {
    /// Starts a cluster. All servers are up, and all regions of HBase's own tables are open.
    pub(crate) fn new(settings: Settings) -> Self {
        let process = |role: Role, number: usize| {
            let (host, port) = match role {
                Role::Region => (format!("rs{number}.fake"), REGION_SERVER_PORT),
                Role::Master => (format!("master{number}.fake"), MASTER_PORT),
            };
            Server::new(
                ServerName {
                    host,
                    port,
                    start_code: settings.start,
                },
                role,
            )
        };
        let regions = (1..=settings.servers).map(|number| process(Role::Region, number));
        let masters = (1..=settings.masters).map(|number| process(Role::Master, number));
        let namespace = |name: &'static str| {
            let descriptor = pb::NamespaceDescriptor {
                name: Bytes::from_static(name.as_bytes()),
                configuration: Vec::new(),
            };
            (name.to_owned(), descriptor)
        };
        let mut world = Self {
            servers: at_addresses(regions.chain(masters).collect(), &settings),
            active_master: (settings.masters > 0).then_some(ServerIndex(settings.servers)),
            tables: BTreeMap::new(),
            regions: BTreeMap::new(),
            namespaces: [namespace("default"), namespace("hbase")].into(),
            switches: Switches {
                balancer: true,
                split: true,
                merge: true,
            },
            procedures: Procedures::default(),
            dead_servers: Vec::new(),
            wall: settings.start,
            meta_timestamp: settings.start,
            rng: fastrand::Rng::with_seed(settings.seed),
            refusals: Vec::new(),
            memstore_load: None,
            settings,
        };
        world.create_system_tables();
        world
    }

    /// Executes a call at a time, in milliseconds since 1970 without the skew of servers.
    ///
    /// # Errors
    ///
    /// Returns the exception that the server answers with.
    pub(crate) fn execute(&mut self, call: &Call, wall: u64) -> Result<Answer> {
        self.advance(wall);
        let answer = self.execute_now(call);
        self.advance(wall);
        if let Err(exception) = &answer
            && exception.is_not_modelled()
        {
            self.refusals
                .push(format!("{}: {}", call.method, exception.message));
        }
        answer
    }

    fn execute_now(&mut self, call: &Call) -> Result<Answer> {
        self.server(call.server).check_open(self.wall)?;
        match call.service {
            Service::Client => self.client_service(call),
            Service::Admin => self.admin_service(call),
            Service::Master => self.master_service(call),
            Service::Lock => self.lock_service(call),
            Service::ClientMeta => self.registry(call),
        }
    }

    /// Returns the calls that failed because something is not modelled. A client may hide such a
    /// failure, so a test must look here.
    pub(crate) fn refusals(&self) -> &[String] {
        &self.refusals
    }

    pub(crate) fn take_refusals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refusals)
    }

    /// Returns whether a process has a service; it rejects connections for others.
    pub(crate) fn offers(&self, server: ServerIndex, service: Service) -> bool {
        match (service, self.server(server).role) {
            (Service::Client | Service::Admin, _) | (Service::ClientMeta, Role::Master) => true,
            (Service::Master | Service::Lock, role) => role == Role::Master,
            (Service::ClientMeta, Role::Region) => {
                !matches!(self.settings.release, Release::V2_4_2 | Release::V2_4)
            }
        }
    }

    /// Returns all processes: region servers, then masters.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn server(&self, index: ServerIndex) -> &Server {
        &self.servers[index.0]
    }

    pub(super) fn server_mut(&mut self, index: ServerIndex) -> &mut Server {
        &mut self.servers[index.0]
    }

    /// Returns the process with an address.
    pub(crate) fn server_at(&self, host: &str, port: u16) -> Option<ServerIndex> {
        let found = self
            .servers
            .iter()
            .position(|server| server.name.host == host && server.name.port == port);
        found.map(ServerIndex)
    }

    /// Returns the address of each master, for clients to begin with.
    pub(crate) fn bootstrap_addresses(&self) -> Vec<String> {
        let masters = self.servers.iter().filter(|server| server.role == Role::Master);
        masters.map(|server| server.name.address()).collect()
    }

    /// Returns the time of a server's clock.
    pub(super) fn clock(&self, server: ServerIndex) -> u64 {
        self.server(server).clock(self.wall)
    }

    /// Returns a region that a server serves.
    pub(super) fn open_region(
        &mut self,
        server: ServerIndex,
        specifier: &pb::RegionSpecifier,
    ) -> Result<&mut Hosted> {
        let encoded = encoded_name(specifier);
        let is_open = self
            .regions
            .get(&encoded)
            .is_some_and(|hosted| hosted.is_open_on(server));
        if !is_open {
            return Err(self.not_serving(server, specifier, &encoded));
        }
        self.regions
            .get_mut(&encoded)
            .ok_or_else(|| Exception::io("the region is gone"))
    }

    fn not_serving(
        &self,
        server: ServerIndex,
        specifier: &pb::RegionSpecifier,
        encoded: &Bytes,
    ) -> Exception {
        let this = self.server(server);
        let name = text(&specifier.value);
        let hosted = self.regions.get(encoded);
        if hosted.is_some_and(|hosted| hosted.serving == Some(server)) {
            return Exception::new(
                "exceptions.RegionOpeningException",
                format!("Region {name} is opening on {}", this.name),
            );
        }
        match this.moved.get(encoded) {
            Some(moved) if moved.forgotten_at > self.wall => Exception {
                moved_to: Some((moved.to.host.clone(), moved.to.port)),
                ..Exception::new(
                    "exceptions.RegionMovedException",
                    format!(
                        "Region moved to: hostname={} port={} startCode={}. As of locationSeqNum={}.",
                        moved.to.host, moved.to.port, moved.to.start_code, moved.sequence
                    ),
                )
            },
            _ => Exception::new(
                "NotServingRegionException",
                format!("{name} is not online on {}", this.name),
            ),
        }
    }

    pub(super) fn table(&self, name: &TableName) -> Result<&Table> {
        self.tables
            .get(name)
            .ok_or_else(|| Exception::new("TableNotFoundException", name.to_string()))
    }

    pub(super) fn table_mut(&mut self, name: &TableName) -> Result<&mut Table> {
        self.tables
            .get_mut(name)
            .ok_or_else(|| Exception::new("TableNotFoundException", name.to_string()))
    }

    pub(super) fn hosted(&self, encoded: &[u8]) -> Result<&Hosted> {
        self.regions.get(encoded).ok_or_else(|| unknown_region(encoded))
    }

    pub(super) fn hosted_mut(&mut self, encoded: &[u8]) -> Result<&mut Hosted> {
        self.regions
            .get_mut(encoded)
            .ok_or_else(|| unknown_region(encoded))
    }

    /// Adds a table with its regions, closed and not yet in `hbase:meta`, and returns the regions.
    pub(super) fn add_table(
        &mut self,
        name: &TableName,
        schema: &pb::TableSchema,
        split_keys: &[Bytes],
        state: TableState,
    ) -> Result<Vec<Bytes>> {
        let mut regions = BTreeMap::new();
        let mut start = Bytes::new();
        for end in split_keys.iter().cloned().chain([Bytes::new()]) {
            let info = RegionInfo::new(name.clone(), start, end.clone(), self.wall);
            let region = Region::new(
                schema,
                info.start_key.clone(),
                info.end_key.clone(),
                RowOrder::Bytes,
                self.settings.release,
            )?;
            regions.insert(info.start_key.clone(), info.encoded.clone());
            self.regions
                .insert(info.encoded.clone(), Hosted::new(info, region, self.wall));
            start = end;
        }
        let added = regions.values().cloned().collect();
        let table = Table {
            schema: schema.clone(),
            state,
            regions,
        };
        self.tables.insert(name.clone(), table);
        Ok(added)
    }

    /// Creates `hbase:meta`, and `hbase:namespace` before 3.0.
    fn create_system_tables(&mut self) {
        #[expect(clippy::expect_used, reason = "the schemas are constants")]
        self.try_create_system_tables()
            .expect("the schemas of HBase's own tables are valid");
    }

    fn try_create_system_tables(&mut self) -> Result<()> {
        let meta = TableName::meta();
        let meta_schema = meta_schema();
        let info = RegionInfo::meta();
        let region = Region::new(
            &meta_schema,
            Bytes::new(),
            Bytes::new(),
            RowOrder::Meta,
            self.settings.release,
        )?;
        self.regions
            .insert(info.encoded.clone(), Hosted::new(info.clone(), region, self.wall));
        let table = Table {
            schema: meta_schema,
            state: TableState::Enabled,
            regions: [(Bytes::new(), info.encoded.clone())].into(),
        };
        self.tables.insert(meta, table);
        self.open_at_once(&info.encoded, None)?;
        if self.settings.release != Release::V3_0 {
            let name = TableName::new("hbase", "namespace");
            let namespaces = schema(&name, &["info"], &[]);
            self.add_open_table(&name, &namespaces, &[])?;
        }
        Ok(())
    }

    /// Adds an enabled table whose regions are open, without a procedure.
    pub(super) fn add_open_table(
        &mut self,
        name: &TableName,
        schema: &pb::TableSchema,
        split_keys: &[Bytes],
    ) -> Result<()> {
        let regions = self.add_table(name, schema, split_keys, TableState::Enabled)?;
        for encoded in &regions {
            self.record_region(encoded)?;
            self.open_at_once(encoded, None)?;
        }
        self.record_table_state(name)
    }

    pub(super) fn meta(&mut self) -> Result<&mut Region> {
        let meta = self.hosted_mut(META_ENCODED)?;
        meta.region
            .as_mut()
            .ok_or_else(|| Exception::io("hbase:meta is gone"))
    }

    pub(super) fn meta_is_open(&self) -> bool {
        self.regions
            .get(META_ENCODED)
            .is_some_and(|meta| meta.state == pb::region_state::State::Open && meta.serving.is_some())
    }
}

/// Gives processes the addresses of sockets on this machine, or their ports and another host.
fn at_addresses(mut servers: Vec<Server>, settings: &Settings) -> Vec<Server> {
    for (server, address) in servers.iter_mut().zip(&settings.addresses) {
        let host = settings.host.clone();
        server.name.host = host.unwrap_or_else(|| address.ip().to_string());
        server.name.port = address.port();
    }
    servers
}

fn unknown_region(encoded: &[u8]) -> Exception {
    Exception::new("UnknownRegionException", text(encoded))
}

/// Returns whether regions that open with a schema have the endpoint for changes of several rows.
pub(super) fn has_endpoint(schema: &pb::TableSchema) -> bool {
    schema.attributes.iter().any(|pair| {
        let class = pair.second.split(|byte| *byte == b'|').nth(1);
        pair.first.to_ascii_lowercase().starts_with(b"coprocessor$") && class == Some(ENDPOINT.as_bytes())
    })
}

/// Returns the schema of a table with these families and attributes.
pub(super) fn schema(name: &TableName, families: &[&str], attributes: &[(&str, &str)]) -> pb::TableSchema {
    let family = |family: &&str| pb::ColumnFamilySchema {
        name: Bytes::copy_from_slice(family.as_bytes()),
        ..pb::ColumnFamilySchema::default()
    };
    let attribute = |(key, value): &(&str, &str)| pb::BytesBytesPair {
        first: Bytes::copy_from_slice(key.as_bytes()),
        second: Bytes::copy_from_slice(value.as_bytes()),
    };
    pb::TableSchema {
        table_name: Some(name.message()),
        attributes: attributes.iter().map(attribute).collect(),
        column_families: families.iter().map(family).collect(),
        configuration: Vec::new(),
    }
}

fn meta_schema() -> pb::TableSchema {
    let endpoint = format!("|{ENDPOINT}|536870911|");
    let mut schema = schema(
        &TableName::meta(),
        &["info", "table"],
        &[("IS_META", "true"), ("coprocessor$1", &endpoint)],
    );
    for family in &mut schema.column_families {
        family.attributes.push(pb::BytesBytesPair {
            first: Bytes::from_static(b"VERSIONS"),
            second: Bytes::from_static(b"3"),
        });
    }
    schema
}
