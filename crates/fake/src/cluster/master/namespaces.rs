//! Namespaces.

use hbase_protocol as pb;

use crate::{
    cluster::{
        call::{Answer, Call},
        world::World,
    },
    exception::{Exception, Result},
};

impl World {
    pub(super) fn namespace(&self, call: &Call) -> Result<Answer> {
        let pb::GetNamespaceDescriptorRequest { namespace_name } = call.decode()?;
        let descriptor = self.namespaces.get(&namespace_name);
        Answer::of(&pb::GetNamespaceDescriptorResponse {
            namespace_descriptor: descriptor
                .ok_or_else(|| Exception::new("NamespaceNotFoundException", namespace_name))?
                .clone(),
        })
    }

    pub(super) fn create_namespace(&mut self, call: &Call) -> Result<Answer> {
        let pb::CreateNamespaceRequest {
            namespace_descriptor,
            nonce_group,
            nonce,
        } = call.decode()?;
        let number = self.procedure((nonce_group, nonce), |world| {
            if !namespace_descriptor.configuration.is_empty() {
                return Err(Exception::not_modelled("settings of namespaces"));
            }
            let name = namespace_descriptor.name.clone();
            let name = String::from_utf8(name.into()).map_err(|_| Exception::do_not_retry("not UTF-8"))?;
            if world.namespaces.contains_key(&name) {
                return Err(Exception::new(
                    "NamespaceExistException",
                    format!("Namespace {name} already exists"),
                ));
            }
            world.namespaces.insert(name, namespace_descriptor);
            Ok(Vec::new())
        })?;
        Answer::of(&pb::CreateNamespaceResponse {
            proc_id: Some(number),
        })
    }
}
