//! Turns the remaining operations of a row into mutations.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use bytes::Bytes;
use hbase_client::{
    Append, Delete, Durability, Increment, Mutation, Put,
    low_level::{Column, Counter, DeleteScope, MutationParts, MutationStamp},
};

use super::{
    cell::{Change, Source},
    row::{Key, Scope},
};

/// A remaining operation.
pub(super) enum Part<'a> {
    Change(Key<'a>, Change),
    Version(Key<'a>, u64, Bytes),
    Delete(Scope<'a>, Option<u64>),
    DeleteVersion(Key<'a>, u64),
}

/// The properties that all parts of one mutation share.
type Carrier<'a> = (Kind, Cow<'a, [(String, Bytes)]>, Durability);

#[derive(PartialEq, Eq, Hash)]
enum Kind {
    Put,
    Increment,
    Append,
    Delete(Option<u64>),
    DeleteRow(Option<u64>),
}

impl Part<'_> {
    fn kind(&self) -> Kind {
        match self {
            Self::Change(_, Change::Put(_)) | Self::Version(..) => Kind::Put,
            Self::Change(_, Change::Increment(_)) => Kind::Increment,
            Self::Change(_, Change::Append(_)) => Kind::Append,
            Self::Delete(Scope::Row, timestamp) => Kind::DeleteRow(*timestamp),
            Self::Delete(_, timestamp) => Kind::Delete(*timestamp),
            Self::DeleteVersion(..) => Kind::Delete(None),
        }
    }
}

/// Returns the fewest mutations that can carry these parts, in the order of the first part of each.
pub(super) fn gather(row: &Bytes, parts: Vec<(Source<'_>, Part<'_>)>) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut places: HashMap<Carrier<'_>, usize> = HashMap::new();
    for (source, part) in parts {
        let place = match places.entry((part.kind(), source.attributes, source.durability)) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let (kind, attributes, durability) = place.key();
                mutations.push(empty(row, kind, attributes, *durability));
                *place.insert(mutations.len() - 1)
            }
        };
        add(&mut mutations[place], part);
    }
    mutations
}

fn empty(row: &Bytes, kind: &Kind, attributes: &[(String, Bytes)], durability: Durability) -> Mutation {
    let (row, attributes) = (row.clone(), attributes.to_vec());
    match kind {
        Kind::Put => Put::new(row)
            .durability(durability)
            .with_attributes(attributes)
            .into(),
        Kind::Increment => Increment::new(row)
            .durability(durability)
            .with_attributes(attributes)
            .into(),
        Kind::Append => Append::new(row)
            .durability(durability)
            .with_attributes(attributes)
            .into(),
        Kind::Delete(timestamp) | Kind::DeleteRow(timestamp) => Delete::new(row)
            .durability(durability)
            .with_attributes(attributes)
            .with_stamp(*timestamp)
            .into(),
    }
}

/// Adds a part to a mutation of its kind.
fn add(mutation: &mut Mutation, part: Part<'_>) {
    let column = |(family, qualifier): Key<'_>, timestamp, value| Column {
        family: family.clone(),
        qualifier: qualifier.clone(),
        timestamp,
        value,
    };
    match (mutation, part) {
        (Mutation::Put(put), Part::Change(key, Change::Put(value))) => {
            put.parts_mut().push(column(key, None, value.into_bytes()));
        }
        (Mutation::Put(put), Part::Version(key, timestamp, value)) => {
            put.parts_mut().push(column(key, Some(timestamp), value));
        }
        (Mutation::Append(append), Part::Change(key, Change::Append(suffix))) => {
            append.parts_mut().push(column(key, None, suffix.into_bytes()));
        }
        (Mutation::Increment(increment), Part::Change((family, qualifier), Change::Increment(amount))) => {
            increment.parts_mut().push(Counter {
                family: family.clone(),
                qualifier: qualifier.clone(),
                amount,
                timestamp: None,
            });
        }
        (Mutation::Delete(delete), Part::Delete(Scope::Family(family), _)) => {
            delete.parts_mut().push(DeleteScope::Family(family.clone()));
        }
        (Mutation::Delete(delete), Part::Delete(Scope::Column((family, qualifier)), _)) => {
            delete.parts_mut().push(DeleteScope::Column {
                family: family.clone(),
                qualifier: qualifier.clone(),
            });
        }
        (Mutation::Delete(delete), Part::DeleteVersion((family, qualifier), timestamp)) => {
            delete.parts_mut().push(DeleteScope::Version {
                family: family.clone(),
                qualifier: qualifier.clone(),
                timestamp,
            });
        }
        // A delete without scopes deletes the row.
        (Mutation::Delete(_), Part::Delete(Scope::Row, _)) => {}
        _ => unreachable!("parts are gathered by kind"),
    }
}
