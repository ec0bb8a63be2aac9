//! Tables: created, changed, enabled, disabled and deleted.

use bytes::Bytes;
use hbase_protocol as pb;
use pb::table_state::State;

use crate::{
    cluster::{
        call::{Answer, Call},
        names::TableName,
        world::World,
    },
    exception::{Exception, Result},
};

impl World {
    pub(super) fn create_table_call(&mut self, call: &Call) -> Result<Answer> {
        let pb::CreateTableRequest {
            table_schema,
            split_keys,
            nonce_group,
            nonce,
        } = call.decode()?;
        let name = table_schema.table_name.clone();
        let name = name.ok_or_else(|| Exception::io("no table name"))?;
        let number = self.table_procedure(&name, (nonce_group, nonce), |world, name| {
            let table_schema = world.checked_schema(table_schema)?;
            if !world.namespaces.contains_key(&name.namespace) {
                return Err(Exception::new(
                    "NamespaceNotFoundException",
                    name.namespace.clone(),
                ));
            }
            if world.tables.contains_key(name) {
                return Err(Exception::new("TableExistsException", name.to_string()));
            }
            let regions = world.add_table(name, &table_schema, &split_keys, State::Enabled)?;
            world.record_table_state(name)?;
            for region in &regions {
                world.record_region(region)?;
                world.plan_opening(region, None);
            }
            Ok(regions)
        })?;
        Answer::of(&pb::CreateTableResponse {
            proc_id: Some(number),
        })
    }

    fn expect_state(&self, table: &TableName, state: State) -> Result<()> {
        let found = self.table(table)?.state;
        match (found == state, state) {
            (true, _) => Ok(()),
            (false, State::Enabled) => Err(Exception::new("TableNotEnabledException", table.to_string())),
            (false, _) => Err(Exception::new("TableNotDisabledException", table.to_string())),
        }
    }

    fn regions_of(&self, table: &TableName) -> Result<Vec<Bytes>> {
        Ok(self.table(table)?.regions.values().cloned().collect())
    }

    pub(super) fn delete_table(&mut self, call: &Call) -> Result<Answer> {
        let pb::DeleteTableRequest {
            table_name,
            nonce_group,
            nonce,
        } = call.decode()?;
        let number = self.table_procedure(&table_name, (nonce_group, nonce), |world, name| {
            world.expect_state(name, State::Disabled)?;
            let all: Vec<Bytes> = world.regions.keys().cloned().collect();
            for encoded in all {
                let info = world.hosted(&encoded)?.info.clone();
                if info.table == *name {
                    world.regions.remove(&encoded);
                    world.delete_meta_row(info.name)?;
                }
            }
            world.tables.remove(name);
            world.delete_meta_row(name.to_string().into())?;
            Ok(Vec::new())
        })?;
        Answer::of(&pb::DeleteTableResponse {
            proc_id: Some(number),
        })
    }

    pub(super) fn enable_table(&mut self, call: &Call) -> Result<Answer> {
        let pb::EnableTableRequest {
            table_name,
            nonce_group,
            nonce,
        } = call.decode()?;
        let number = self.unchecked_table_procedure(&table_name, (nonce_group, nonce), |world, name| {
            world.expect_state(name, State::Disabled)?;
            world.table_mut(name)?.state = State::Enabled;
            world.record_table_state(name)?;
            let regions = world.regions_of(name)?;
            for region in &regions {
                world.plan_opening(region, None);
            }
            Ok(regions)
        })?;
        Answer::of(&pb::EnableTableResponse {
            proc_id: Some(number),
        })
    }

    pub(super) fn disable_table(&mut self, call: &Call) -> Result<Answer> {
        let pb::DisableTableRequest {
            table_name,
            nonce_group,
            nonce,
        } = call.decode()?;
        let number = self.table_procedure(&table_name, (nonce_group, nonce), |world, name| {
            world.expect_state(name, State::Enabled)?;
            world.table_mut(name)?.state = State::Disabled;
            world.record_table_state(name)?;
            for region in world.regions_of(name)? {
                world.close(&region)?;
            }
            Ok(Vec::new())
        })?;
        Answer::of(&pb::DisableTableResponse {
            proc_id: Some(number),
        })
    }

    pub(super) fn modify_table(&mut self, call: &Call) -> Result<Answer> {
        let pb::ModifyTableRequest {
            table_name,
            table_schema,
            nonce_group,
            nonce,
            reopen_regions,
        } = call.decode()?;
        let number = self.table_procedure(&table_name, (nonce_group, nonce), |world, name| {
            let table_schema = world.checked_schema(table_schema)?;
            let table = world.table_mut(name)?;
            table.schema = table_schema;
            if table.state != State::Enabled || reopen_regions == Some(false) {
                return Ok(Vec::new());
            }
            let regions = world.regions_of(name)?;
            for region in &regions {
                let server = world.hosted(region)?.serving;
                world.reassign(region, server)?;
            }
            Ok(regions)
        })?;
        Answer::of(&pb::ModifyTableResponse {
            proc_id: Some(number),
        })
    }

    /// Returns the tables of a namespace, or of all.
    fn tables_in<'a>(
        &'a self,
        regex: Option<&String>,
        namespace: Option<&'a String>,
        system: bool,
    ) -> Result<impl Iterator<Item = &'a TableName>> {
        if regex.is_some_and(|regex| regex != ".*") {
            return Err(Exception::not_modelled("tables by a pattern"));
        }
        Ok(self.tables.keys().filter(move |name| {
            namespace.is_none_or(|namespace| *namespace == name.namespace) && (system || !name.is_system())
        }))
    }

    pub(super) fn table_descriptors(&self, call: &Call) -> Result<Answer> {
        let pb::GetTableDescriptorsRequest {
            table_names,
            regex,
            include_sys_tables,
            namespace,
        } = call.decode()?;
        let mut table_schema = Vec::new();
        if table_names.is_empty() {
            let system = include_sys_tables.unwrap_or(false);
            for name in self.tables_in(regex.as_ref(), namespace.as_ref(), system)? {
                table_schema.push(self.table(name)?.schema.clone());
            }
        }
        for name in &table_names {
            let name = TableName::from_message(name)?;
            table_schema.extend(self.tables.get(&name).map(|table| table.schema.clone()));
        }
        Answer::of(&pb::GetTableDescriptorsResponse { table_schema })
    }

    pub(super) fn table_names(&self, call: &Call) -> Result<Answer> {
        let pb::GetTableNamesRequest {
            regex,
            include_sys_tables,
            namespace,
        } = call.decode()?;
        let system = include_sys_tables.unwrap_or(false);
        let names = self.tables_in(regex.as_ref(), namespace.as_ref(), system)?;
        Answer::of(&pb::GetTableNamesResponse {
            table_names: names.map(TableName::message).collect(),
        })
    }

    pub(super) fn table_state(&self, call: &Call) -> Result<Answer> {
        let pb::GetTableStateRequest { table_name } = call.decode()?;
        let name = TableName::from_message(&table_name)?;
        Answer::of(&pb::GetTableStateResponse {
            table_state: pb::TableState {
                state: self.table(&name)?.state.into(),
            },
        })
    }

    pub(super) fn flush_table(&mut self, call: &Call) -> Result<Answer> {
        let pb::FlushTableRequest {
            table_name,
            column_family,
            nonce_group,
            nonce,
        } = call.decode()?;
        if !column_family.is_empty() {
            return Err(Exception::not_modelled("flushes of one family"));
        }
        let number = self.table_procedure(&table_name, (nonce_group, nonce), |world, name| {
            world.expect_state(name, State::Enabled)?;
            let regions = world.regions_of(name)?;
            for region in &regions {
                // A region that is closed has nothing in memory.
                if world.hosted(region)?.is_open() {
                    world.flush(region, world.wall)?;
                }
            }
            Ok(Vec::new())
        })?;
        Answer::of(&pb::FlushTableResponse {
            proc_id: Some(number),
        })
    }

    /// Answers with the number of regions that are not open yet, and of all.
    pub(super) fn alter_status(&self, call: &Call) -> Result<Answer> {
        let pb::GetSchemaAlterStatusRequest { table_name } = call.decode()?;
        let name = TableName::from_message(&table_name)?;
        let (mut closed, mut all) = (0, 0);
        if self.table(&name)?.state != State::Disabled {
            for region in self.regions_of(&name)? {
                all += 1;
                closed += u32::from(!self.hosted(&region)?.is_open());
            }
        }
        Answer::of(&pb::GetSchemaAlterStatusResponse {
            yet_to_update_regions: Some(closed),
            total_regions: Some(all),
        })
    }
}
