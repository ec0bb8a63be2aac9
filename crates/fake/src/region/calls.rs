//! The calls that change rows.

use hbase_protocol as pb;
use pb::mutation_proto::MutationType;

use super::{Read, Region, Release, condition::Condition, mutation::Mutation, read::Query};
use crate::{
    cell::{Cell, Cells},
    exception::{Exception, Result},
};

/// The answer to a single mutation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mutated {
    /// The new values of an increment or append.
    pub(crate) result: Option<Vec<Cell>>,
    /// Whether the condition held.
    pub(crate) processed: Option<bool>,
}

/// The answer to the actions on a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MultiAnswer {
    /// The answers by the actions' indexes; none if the condition did not hold.
    pub(crate) actions: Vec<(u32, Result<Option<Read>>)>,
    /// Whether an atomic call was applied.
    pub(crate) processed: Option<bool>,
}

fn is_addition(mutation: &Mutation) -> bool {
    matches!(mutation.kind, MutationType::Increment | MutationType::Append)
}

impl Region {
    /// Applies a single mutation, with or without a condition.
    pub(crate) fn mutate(
        &mut self,
        request: &pb::MutateRequest,
        cells: &mut Cells,
        now: u64,
    ) -> Result<Mutated> {
        let pb::MutateRequest {
            region: _,
            mutation,
            condition,
            nonce_group,
        } = request;
        let mutation = Mutation::read(mutation, cells)?;
        if let Some(condition) = condition {
            if condition.row != mutation.row {
                return Err(Exception::do_not_retry("the condition is of another row"));
            }
            self.check_family(condition)?;
        }
        if !self.contains(&mutation.row) {
            return Err(match condition {
                None if !is_addition(&mutation) => self.insane(&mutation.row),
                _ => self.wrong_region(&mutation.row, "mutate"),
            });
        }
        let least = match condition {
            Some(condition) => match Condition::read(self, condition)?.holds_for_row(self, now)? {
                Some(least) => least,
                None => {
                    return Ok(Mutated {
                        result: None,
                        processed: Some(false),
                    });
                }
            },
            None => 0,
        };
        let result = self.write_one(&mutation, nonce_group.unwrap_or(0), now, least)?;
        Ok(Mutated {
            result: is_addition(&mutation).then_some(result),
            processed: if is_addition(&mutation) && condition.is_none() {
                None
            } else {
                Some(true)
            },
        })
    }

    /// Checks the family of a condition, which HBase does before it checks the row.
    fn check_family(&self, condition: &pb::Condition) -> Result<()> {
        match condition.filter {
            Some(_) => Ok(()),
            None => self
                .family(&condition.family.clone().unwrap_or_default())
                .map(drop),
        }
    }

    /// Writes one mutation by itself. Returns the new values of an increment or append.
    fn write_one(&mut self, mutation: &Mutation, group: u64, now: u64, least: u64) -> Result<Vec<Cell>> {
        self.check(mutation)?;
        let nonce = (group, mutation.nonce);
        if is_addition(mutation) && mutation.nonce != 0 && !self.nonces.insert(nonce) {
            return Ok(if mutation.returns_result {
                self.present(mutation, now)?
            } else {
                Vec::new()
            });
        }
        let written = self.resolve(mutation, now, least)?;
        let cells = self.apply(vec![written]).into_iter().flatten().collect();
        Ok(if mutation.returns_result && is_addition(mutation) {
            in_order(cells)
        } else {
            Vec::new()
        })
    }

    /// Returns the present values of the columns of an increment or append that was applied before.
    fn present(&self, mutation: &Mutation, now: u64) -> Result<Vec<Cell>> {
        let mut present = Vec::new();
        for cell in &mutation.cells {
            let column = Some((&cell.family, &cell.qualifier));
            let query = Query::newest(self, column, mutation.time_range);
            present.extend(self.read_row(&query, &cell.row, now, None, false)?);
        }
        Ok(in_order(present))
    }

    /// Performs the actions on this region.
    pub(crate) fn multi(
        &mut self,
        action: &pb::RegionAction,
        nonce_group: u64,
        cells: &mut Cells,
        now: u64,
    ) -> Result<MultiAnswer> {
        let pb::RegionAction {
            region: _,
            atomic,
            action: actions,
            condition,
        } = action;
        let conditional = condition.is_some();
        if *atomic == Some(true) || conditional {
            return self.multi_atomic(actions, condition.as_ref(), nonce_group, cells, now);
        }
        let mut answer = MultiAnswer::default();
        // Puts and deletes wait for each other, until an increment or append, or the end. Gets do
        // not wait for them.
        let mut waiting = Vec::new();
        for action in actions {
            let index = action.index.unwrap_or(0);
            match (&action.get, &action.mutation, &action.service_call) {
                (_, _, Some(_)) => return Err(Exception::not_modelled("a call of an endpoint in a Multi")),
                (Some(get), None, None) => answer.actions.push((index, self.get(get, now).map(Some))),
                (None, Some(mutation), None) => {
                    let mutation = Mutation::read(mutation, cells)?;
                    if is_addition(&mutation) {
                        self.write_waiting(&mut waiting, &mut answer, now);
                        let done = self.mutate_alone(&mutation, nonce_group, now);
                        answer.actions.push((index, done.map(Some)));
                    } else {
                        waiting.push((index, mutation));
                    }
                }
                _ => return Err(Exception::do_not_retry("an action without a get or a mutation")),
            }
        }
        self.write_waiting(&mut waiting, &mut answer, now);
        Ok(answer)
    }

    /// Writes puts and deletes with one time and one sequence number. Each may fail by itself.
    fn write_waiting(&mut self, waiting: &mut Vec<(u32, Mutation)>, answer: &mut MultiAnswer, now: u64) {
        let mut written = Vec::new();
        for (index, mutation) in waiting.drain(..) {
            let resolved = if self.contains(&mutation.row) {
                self.check(&mutation)
                    .and_then(|()| self.resolve(&mutation, now, 0))
            } else {
                Err(self.insane(&mutation.row))
            };
            let done = resolved.map(|resolved| {
                written.push(resolved);
                Some(Read::default())
            });
            answer.actions.push((index, done));
        }
        if !written.is_empty() {
            self.apply(written);
        }
    }

    /// The failure of a mutation without a condition, by itself, outside of the region.
    fn insane(&self, row: &[u8]) -> Exception {
        let text = self.wrong_region(row, "doMiniBatchMutation").message;
        Exception::new("exceptions.FailedSanityCheckException", text)
    }

    fn mutate_alone(&mut self, mutation: &Mutation, nonce_group: u64, now: u64) -> Result<Read> {
        if !self.contains(&mutation.row) {
            return Err(self.wrong_region(&mutation.row, "mutate"));
        }
        let cells = self.write_one(mutation, nonce_group, now, 0)?;
        Ok(Read { cells, exists: None })
    }

    fn multi_atomic(
        &mut self,
        actions: &[pb::Action],
        condition: Option<&pb::Condition>,
        nonce_group: u64,
        cells: &mut Cells,
        now: u64,
    ) -> Result<MultiAnswer> {
        let mut mutations = Vec::new();
        for action in actions {
            let Some(mutation) = &action.mutation else {
                return Err(Exception::do_not_retry(
                    "Atomic put and/or delete only, not a Get",
                ));
            };
            mutations.push(Mutation::read(mutation, cells)?);
        }
        let done = |processed: bool, first: Vec<Cell>| MultiAnswer {
            // Indexes are the places, whatever the call says: Java gives none.
            actions: (0..)
                .zip(&mutations)
                .map(|(place, _)| {
                    let cells = if place == 0 { first.clone() } else { Vec::new() };
                    // A conditional call has one result at most.
                    let has_result =
                        processed && (condition.is_none() || place == 0 && mutations.iter().any(is_addition));
                    let read = has_result.then_some(Read { cells, exists: None });
                    (place, Ok(read))
                })
                .collect(),
            processed: Some(processed),
        };
        let mut least = 0;
        if let Some(condition) = condition {
            if mutations.iter().any(|mutation| mutation.row != condition.row) {
                return Err(Exception::do_not_retry(
                    "the actions and the condition are of several rows",
                ));
            }
            self.check_family(condition)?;
            if !self.contains(&condition.row) {
                return Err(self.wrong_region(&condition.row, "doCheckAndRowMutate"));
            }
            match Condition::read(self, condition)?.holds_for_row(self, now)? {
                Some(timestamp) => least = timestamp,
                None => return Ok(done(false, Vec::new())),
            }
        }
        let nonce = mutations.iter().rev().find(|mutation| is_addition(mutation));
        let nonce = nonce.map_or(0, |mutation| mutation.nonce);
        let cells = self.write_together(&mutations, (nonce_group, nonce), now, least)?;
        Ok(done(true, cells))
    }

    /// Writes mutations as one. Returns the new values of increments and appends.
    fn write_together(
        &mut self,
        mutations: &[Mutation],
        nonce: (u64, u64),
        now: u64,
        least: u64,
    ) -> Result<Vec<Cell>> {
        for mutation in mutations {
            if !self.contains(&mutation.row) {
                return Err(self.wrong_region(&mutation.row, "batchMutate"));
            }
            self.check(mutation)?;
        }
        let repeated = nonce.1 != 0 && mutations.iter().any(is_addition) && !self.nonces.insert(nonce);
        let mut written = Vec::new();
        let mut returned = Vec::new();
        let mut present = Vec::new();
        for mutation in mutations {
            let returns_cells = is_addition(mutation) && mutation.returns_result;
            if repeated && is_addition(mutation) {
                if returns_cells {
                    present.extend(self.present(mutation, now)?);
                }
                continue;
            }
            returned.push(returns_cells);
            written.push(self.resolve(mutation, now, least)?);
        }
        let cells = self.apply(written).into_iter().zip(returned);
        let cells = cells
            .filter(|(_, returned)| *returned)
            .flat_map(|(cells, _)| in_order(cells));
        Ok(present.into_iter().chain(cells).collect())
    }

    /// Applies the endpoint's mutations of several rows. Returns what the answer says, or `None` if
    /// it says nothing.
    pub(crate) fn mutate_rows(&mut self, request: &pb::MutateRowsRequest, now: u64) -> Result<Option<bool>> {
        let pb::MutateRowsRequest {
            mutation_request,
            nonce_group,
            nonce,
            region: _,
            condition,
        } = request;
        let is_old = self.release == Release::V2_4_2;
        let mut mutations = Vec::new();
        for mutation in mutation_request {
            if mutation.associated_cell_count.is_some_and(|count| count > 0) {
                return Err(Exception::do_not_retry(
                    "Cell count of a mutation without a cell scanner",
                ));
            }
            let mutation = Mutation::read(mutation, &mut Cells::new(bytes::Bytes::new(), false))?;
            if is_old && mutation.kind == MutationType::Increment {
                return Err(Exception::io("Unknown mutation type"));
            }
            mutations.push(mutation);
        }
        for (place, mutation) in mutations.iter().enumerate() {
            if !self.contains(&mutation.row) {
                let text = format!("Requested row out of range '{}'", mutation.row.escape_ascii());
                return Err(match place {
                    0 => Exception::new("regionserver.WrongRegionException", text),
                    _ => Exception::do_not_retry(text),
                });
            }
        }
        if !is_old {
            for condition in condition {
                if !self.contains(&condition.row) {
                    return Err(self.wrong_region(&condition.row, "row lock"));
                }
            }
            for condition in condition {
                self.check_family(condition)?;
                if !Condition::read(self, condition)?.holds_for_rows(self, now)? {
                    return Ok(Some(false));
                }
            }
        }
        let nonce = (nonce_group.unwrap_or(0), nonce.unwrap_or(0));
        if !mutations.is_empty() {
            self.write_together(&mutations, nonce, now, 0)?;
        }
        Ok((!is_old).then_some(true))
    }
}

/// Sorts cells of one row as a result has them.
fn in_order(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_by(|one, other| {
        (&one.family, &one.qualifier, other.timestamp).cmp(&(&other.family, &other.qualifier, one.timestamp))
    });
    cells
}
