//! Servers, tables, `hbase:meta`, the registry and the master. No sockets: calls come decoded from
//! the layer above, with the time at which they are executed.

mod admin_service;
mod assignment;
mod call;
mod client_service;
mod entity_locks;
mod events;
mod hosted;
mod master;
mod meta;
mod names;
mod procedures;
mod registry;
mod scanners;
mod server;
mod settings;
mod split_point;
mod subject;
mod world;

pub(crate) use self::{
    call::{Answer, Call, Service},
    server::{Role, Server, ServerIndex, ServerState},
    settings::Settings,
    world::World,
};
