//! Servers, tables, `hbase:meta`, the registry and the master.
//!
//! A placeholder with the types that the layer above needs: its only table is the registry.

use std::time::Duration;

use bytes::Bytes;
use hbase_protocol as pb;
use prost::Message;

use crate::exception::{Exception, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerIndex(pub(crate) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Service {
    Client,
    Admin,
    Master,
    ClientMeta,
}

impl Service {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ClientService" => Self::Client,
            "AdminService" => Self::Admin,
            "MasterService" => Self::Master,
            "ClientMetaService" => Self::ClientMeta,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) server: ServerIndex,
    pub(crate) service: Service,
    pub(crate) user: String,
    pub(crate) tags: bool,
    pub(crate) has_codec: bool,
    pub(crate) id: u32,
    pub(crate) method: String,
    pub(crate) parameter: Bytes,
    pub(crate) cells: Bytes,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) cells: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) table: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) rows: Vec<Bytes>,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerName {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) start_code: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    Up { serves_from: u64 },
    Hung,
    Stopping,
    Down,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: ServerName,
    pub(crate) state: ServerState,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) servers: usize,
    pub(crate) masters: usize,
}

#[derive(Debug)]
pub(crate) struct World {
    servers: Vec<Server>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let server = |port| Server {
            name: ServerName {
                host: "rs.fake".to_owned(),
                port,
                start_code: 1,
            },
            state: ServerState::Up { serves_from: 0 },
        };
        Self {
            servers: (16020..).take(settings.servers).map(server).collect(),
        }
    }

    pub(crate) fn execute(&mut self, call: &Call, _wall: u64) -> Result<Answer> {
        if call.method != "GetClusterId" {
            return Err(Exception::do_not_retry(format!("no method {}", call.method)));
        }
        let answer = pb::GetClusterIdResponse {
            cluster_id: Some("fake".to_owned()),
        };
        Ok(Answer {
            message: answer.encode_to_vec(),
            cells: Bytes::new(),
        })
    }

    pub(crate) fn subject(&self, _call: &Call) -> Subject {
        Subject::default()
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn server(&self, index: ServerIndex) -> &Server {
        &self.servers[index.0]
    }

    pub(crate) fn server_at(&self, host: &str, port: u16) -> Option<ServerIndex> {
        let mut servers = self.servers.iter();
        let found = servers.position(|server| server.name.host == host && server.name.port == port);
        found.map(ServerIndex)
    }

    pub(crate) fn offers(&self, _server: ServerIndex, service: Service) -> bool {
        service != Service::Master
    }

    /// Returns the answer to the preamble `Regist`, which only 2.6 has.
    pub(crate) fn registry_preamble(&self) -> Option<String> {
        Some("fake".to_owned())
    }

    pub(crate) fn crash(&mut self, server: ServerIndex) {
        self.servers[server.0].state = ServerState::Down;
    }

    pub(crate) fn restart(&mut self, server: ServerIndex) {
        let server = &mut self.servers[server.0];
        server.state = ServerState::Up { serves_from: 0 };
        server.name.start_code += 1;
    }

    pub(crate) fn hang(&mut self, server: ServerIndex) {
        self.servers[server.0].state = ServerState::Hung;
    }

    pub(crate) fn unhang(&mut self, server: ServerIndex) {
        self.servers[server.0].state = ServerState::Up { serves_from: 0 };
    }
}
