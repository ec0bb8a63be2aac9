//! `LockService`: locks on names, which clients keep by heartbeats.

use hbase_protocol as pb;
use pb::lock_heartbeat_response::LockStatus;

use super::{
    call::{Answer, Call},
    names::TableName,
    procedures::EntityLock,
    registry::unknown_method,
    world::World,
};
use crate::exception::{Exception, Result};

/// `hbase.master.procedure.remote.locks.timeout.ms`
const TIMEOUT_MS: u32 = 30_000;

impl World {
    pub(super) fn lock_service(&mut self, call: &Call) -> Result<Answer> {
        self.check_active_master(call)?;
        let wall = self.wall;
        self.procedures.locks.retain(|lock| lock.expires > wall);
        match call.method.as_str() {
            "RequestLock" => self.request_lock(call),
            "LockHeartbeat" => self.lock_heartbeat(call),
            method => Err(unknown_method(method)),
        }
    }

    fn request_lock(&mut self, call: &Call) -> Result<Answer> {
        let request: pb::LockRequest = call.decode()?;
        let name = match &request.table_name {
            Some(name) if request.lock_type() == pb::LockType::Exclusive => TableName::from_message(name)?,
            _ => {
                return Err(Exception::not_modelled(
                    "a lock other than an exclusive one on a table",
                ));
            }
        };
        if self.tables.contains_key(&name) {
            return Err(Exception::not_modelled(
                "a lock that keeps the master from a table",
            ));
        }
        let mut is_new = false;
        let procedure = self.procedure((request.nonce_group, request.nonce), |_| {
            is_new = true;
            Ok(Vec::new())
        })?;
        if is_new {
            self.procedures.locks.push(EntityLock {
                procedure,
                name,
                expires: self.wall + u64::from(TIMEOUT_MS),
            });
        }
        Answer::of(&pb::LockResponse { proc_id: procedure })
    }

    fn lock_heartbeat(&mut self, call: &Call) -> Result<Answer> {
        let request: pb::LockHeartbeatRequest = call.decode()?;
        let wall = self.wall;
        let locks = &mut self.procedures.locks;
        let position = locks.iter().position(|lock| lock.procedure == request.proc_id);
        let is_held = match position {
            None => false,
            Some(position) if !request.keep_alive() => {
                locks.remove(position);
                false
            }
            Some(position) => {
                locks[position].expires = wall + u64::from(TIMEOUT_MS);
                let name = &locks[position].name;
                !locks[..position].iter().any(|before| before.name == *name)
            }
        };
        let status = if is_held {
            LockStatus::Locked
        } else {
            LockStatus::Unlocked
        };
        Answer::of(&pb::LockHeartbeatResponse {
            lock_status: status.into(),
            timeout_ms: is_held.then_some(TIMEOUT_MS),
        })
    }
}
