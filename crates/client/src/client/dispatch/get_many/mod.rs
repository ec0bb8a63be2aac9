//! Many gets at once, with one call for each server.

mod exists;
mod kind;

use bytes::Bytes;
use futures::{
    Stream, StreamExt, TryFutureExt, TryStreamExt,
    future::{BoxFuture, try_join},
    stream,
};
use prost::Message;
use tokio::time::Instant;

use self::kind::Gets;
use super::{Dispatch, Ended, Item};
use crate::{
    client::Table,
    error::{Error, Result},
    model::{Consistency, Get, Row},
    wire::{convert, pb},
};

/// The answer to some of the gets of one call. Each get is identified by its index in the list that
/// was passed.
#[derive(Debug)]
pub enum GetAnswer {
    /// Rows that were read, each with the index of its get. `None` for a row without any requested
    /// cell.
    Found(Vec<(usize, Option<Row>)>),
    /// Gets that failed for good or did not complete before the deadline.
    Failed(Vec<usize>, Error),
}

/// A read of one row that a replica may answer, within the deadline.
type ReadTimeline<'a> = fn(&'a Table, Get, Instant) -> BoxFuture<'a, Result<Option<Row>>>;

/// The number of gets with [`Consistency::Timeline`] that are in flight at a time.
const TIMELINE_GETS: usize = 64;

impl Table {
    /// Reads many rows, with one concurrent call per server. Returns the answers in the order of
    /// the gets, with `None` for a row without a requested cell. Two gets of one row have an answer
    /// each.
    ///
    /// One call requests at most 5,000 rows of a server, in at most 1 MiB. Further rows go in
    /// further calls, two at a time. All answers are held in memory. Each row is read on its own,
    /// so the rows may be from different moments. If regions move or split meanwhile, only their
    /// rows are located and read again.
    ///
    /// A get with [`Consistency::Timeline`](crate::Consistency::Timeline) goes in a call of its own, 64 of
    /// them at a time, and replicas may answer it as a single one.
    ///
    /// The call is all or nothing: if a row cannot be read within the operation timeout, the error
    /// names it. Dropping the future has no effect on the data.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does, with the first row that failed.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Get;
    ///
    /// # use hbase_client::Put;
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// # table.put(Put::new("a").cell("f", "q", "v")).await?;
    /// let rows = table.get_many(["a", "b"].map(Get::new)).await?;
    /// assert!(rows[0].is_some() && rows[1].is_none());
    /// # Ok(()) });
    /// ```
    pub async fn get_many(&self, gets: impl IntoIterator<Item = Get>) -> Result<Vec<Option<Row>>> {
        self.read_many("get_many", gets, convert::get_message, |table, get, deadline| {
            Box::pin(async move { table.get_timeline("get_many", &get, deadline).await })
        })
        .await
    }

    /// Reads many rows, with gets of this form on the wire.
    async fn read_many<'a>(
        &'a self,
        name: &'static str,
        gets: impl IntoIterator<Item = Get>,
        message: impl Fn(&Get) -> pb::Get,
        read_timeline: ReadTimeline<'a>,
    ) -> Result<Vec<Option<Row>>> {
        let deadline = self.deadline();
        let (mut rows, mut strong, mut timeline) = (Vec::new(), Vec::new(), Vec::new());
        for (place, get) in gets.into_iter().enumerate() {
            get.check()
                .map_err(|error| error.at_operation(name).at_table(&self.name))?;
            rows.push(None);
            match get.selection.consistency {
                Consistency::Strong => strong.push(item(place, get, &message)),
                Consistency::Timeline => timeline.push((place, get)),
            }
        }
        let mut reading = Dispatch::new(self, Gets::IN_FEW_CALLS, name, deadline, strong);
        let shared = async {
            let mut all = Vec::with_capacity(rows.len());
            while let Some(ended) = reading.next().await {
                match ended {
                    Ended::Done(found) => all.extend(found.into_iter().map(|(get, row)| (get.place, row))),
                    Ended::Failed(_, error) => return Err(error),
                }
            }
            Ok(all)
        };
        let single = stream::iter(timeline)
            .map(|(place, get)| read_timeline(self, get, deadline).map_ok(move |row| (place, row)))
            .buffer_unordered(TIMELINE_GETS)
            .try_collect::<Vec<_>>();
        let (shared, single) = try_join(shared, single).await?;
        for (place, row) in shared.into_iter().chain(single) {
            rows[place] = row;
        }
        Ok(rows)
    }

    /// Reads as [`get_many`](Self::get_many) does, but returns each answer as soon as it is known.
    /// A row that cannot be read does not delay the others. One call requests at most 1,250 rows of
    /// a server, in four calls at a time. Every get is answered once, by the deadline. The gets
    /// must be [checked](Get::check).
    pub(crate) fn get_each(
        &self,
        name: &'static str,
        gets: Vec<Get>,
        deadline: Instant,
    ) -> impl Stream<Item = GetAnswer> + Send + '_ {
        let items = gets.into_iter().enumerate();
        let items = items.map(|(place, get)| item(place, get, convert::get_message));
        let reading = Dispatch::new(self, Gets::SOON, name, deadline, items.collect());
        stream::unfold(reading, async |mut reading| {
            let answer = match reading.next().await? {
                Ended::Done(found) => {
                    GetAnswer::Found(found.into_iter().map(|(get, row)| (get.place, row)).collect())
                }
                Ended::Failed(gets, error) => {
                    GetAnswer::Failed(gets.into_iter().map(|get| get.place).collect(), error)
                }
            };
            Some((answer, reading))
        })
    }
}

fn item(place: usize, get: Get, message: impl Fn(&Get) -> pb::Get) -> Item<Bytes> {
    let payload: Bytes = message(&get).encode_to_vec().into();
    Item {
        place,
        row: get.row,
        weight: payload.len(),
        payload,
    }
}
