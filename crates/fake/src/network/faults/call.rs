//! Selections of calls and of dials.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    action::{Action, DialAction},
    fault::Fault,
};
use crate::exception::Exception;

type Predicate = dyn Fn(&ReceivedCall) -> bool + Send + Sync;

/// A call as a server received it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceivedCall {
    /// The number of the call in this cluster, from 1.
    pub number: u64,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// The client's user.
    pub user: Arc<str>,
    /// The number of the server: region servers from 0, then masters.
    pub server: usize,
    /// The method; of an endpoint's call the method of the endpoint.
    pub method: String,
    /// The table, as `namespace:qualifier` or the qualifier alone.
    pub table: Option<String>,
    /// The encoded name of the region; the first one of a call with several.
    pub region: Option<String>,
    /// The rows that the call is about.
    pub rows: Vec<Bytes>,
    /// The encoded message of the request.
    pub parameter: Bytes,
    /// The cell block.
    pub cells: Bytes,
    /// The priority that the client gave.
    pub priority: u32,
    /// The timeout that the client gave.
    pub timeout: Option<Duration>,
    /// The request attributes.
    pub attributes: BTreeMap<String, Bytes>,
    /// The attributes of the connection.
    pub connection_attributes: BTreeMap<String, Bytes>,
    /// The headers of the client's trace, such as `traceparent`.
    pub trace: BTreeMap<String, String>,
}

impl fmt::Display for ReceivedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of {}: {}", self.number, self.user, self.method)?;
        if let Some(table) = &self.table {
            write!(f, " on {table}")?;
        }
        if let Some(row) = self.rows.first() {
            write!(f, " of row {}", row.escape_ascii())?;
        }
        write!(f, " at server {}", self.server)
    }
}

/// A selection of calls, for a [`Fault`].
///
/// # Examples
///
/// ```
/// use hbase_fake::Call;
///
/// let fault = Call::MutateRows.on("accounts").lose_answer().times(1);
/// assert_eq!(fault.to_string(), "MutateRows on accounts: lose answer");
/// ```
#[derive(Clone)]
pub struct Call {
    method: Option<&'static str>,
    table: Option<String>,
    server: Option<usize>,
    user: Option<String>,
    row: Option<Vec<u8>>,
    nth: Option<u64>,
    predicate: Option<Arc<Predicate>>,
}

#[allow(non_upper_case_globals, reason = "these are named as HBase names its methods")]
impl Call {
    /// All calls.
    pub const Any: Self = Self::new(None);
    /// Reads of a row.
    pub const Get: Self = Self::named("Get");
    /// Single mutations, with or without a condition.
    pub const Mutate: Self = Self::named("Mutate");
    /// Batches of reads and mutations.
    pub const Multi: Self = Self::named("Multi");
    /// Scans: opening, reading and closing scanners. All look-ups in `hbase:meta` are scans.
    pub const Scan: Self = Self::named("Scan");
    /// Mutations of several rows of one region, which are calls of an endpoint.
    pub const MutateRows: Self = Self::named("MutateRows");

    /// Calls of a method by the name in HBase's protocol, such as `ModifyTable`.
    pub const fn named(method: &'static str) -> Self {
        Self::new(Some(method))
    }

    const fn new(method: Option<&'static str>) -> Self {
        Self {
            method,
            table: None,
            server: None,
            user: None,
            row: None,
            nth: None,
            predicate: None,
        }
    }
}

impl Call {
    /// Selects calls about one table, as `namespace:qualifier` or the qualifier alone.
    #[must_use]
    pub fn on(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Selects calls at one server: region servers from 0, then masters.
    #[must_use]
    pub fn at(mut self, server: usize) -> Self {
        self.server = Some(server);
        self
    }

    /// Selects calls of one user.
    #[must_use]
    pub fn by(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Selects calls about a row, among others.
    #[must_use]
    pub fn row(mut self, row: impl Into<Vec<u8>>) -> Self {
        self.row = Some(row.into());
        self
    }

    /// Selects calls for which the predicate is true. It runs while the cluster is locked, and must
    /// not use it.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&ReceivedCall) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(predicate));
        self
    }

    /// Selects only the n-th of the calls that match otherwise, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// The server never receives the request.
    pub fn lose_request(self) -> Fault {
        self.with(Action::LoseRequest)
    }

    /// The server executes the call, and the client never receives the answer.
    pub fn lose_answer(self) -> Fault {
        self.with(Action::LoseAnswer)
    }

    /// The server receives the request later. The timeout of the call begins then.
    pub fn delay_request(self, delay: Duration) -> Fault {
        self.with(Action::DelayRequest(delay))
    }

    /// The call waits for a handler of the server, which drops it if its timeout passes.
    pub fn delay_in_queue(self, delay: Duration) -> Fault {
        self.with(Action::DelayInQueue(delay))
    }

    /// The client receives the answer later.
    pub fn delay_answer(self, delay: Duration) -> Fault {
        self.with(Action::DelayAnswer(delay))
    }

    /// The client receives the answer a second time, this long after the first.
    pub fn answer_twice(self, later: Duration) -> Fault {
        self.with(Action::AnswerTwice { later })
    }

    /// The server executes the call once more, this long after the first time. Only the first
    /// answer is sent.
    pub fn deliver_twice(self, later: Duration) -> Fault {
        self.with(Action::DeliverTwice { later })
    }

    /// The server executes the call, sends half of the answer and closes the connection.
    pub fn cut_answer(self) -> Fault {
        self.with(Action::CutAnswer)
    }

    /// The server closes the connection instead of executing the call.
    pub fn close_before(self) -> Fault {
        self.with(Action::CloseBefore)
    }

    /// The server executes the call and closes the connection instead of answering.
    pub fn close_after(self) -> Fault {
        self.with(Action::CloseAfter)
    }

    /// The answer has the id of a call that does not exist.
    pub fn wrong_call_id(self) -> Fault {
        self.with(Action::WrongCallId)
    }

    /// The server answers with an exception instead of executing the call. A class without `java.`
    /// or `org.` is in the package `org.apache.hadoop.hbase`.
    pub fn fail_before(self, class: &'static str, message: impl Into<String>) -> Fault {
        self.with(Action::FailBefore(Exception::new(class, message)))
    }

    /// The time of a call of a scan is over when the server has looked at so many stored cells, and
    /// it answers with what it has found until then: a heartbeat, perhaps without results. Clients
    /// that cannot handle heartbeats receive none.
    pub fn heartbeat_after(self, cells: u64) -> Fault {
        self.with(Action::EndAfterCells(cells))
    }

    /// The server executes the call, and answers with an exception.
    pub fn fail_after(self, class: &'static str, message: impl Into<String>) -> Fault {
        self.with(Action::FailAfter(Exception::new(class, message)))
    }

    /// The server does not receive the request until [`release`](super::FaultHandle::release).
    pub fn hold_request(self) -> Fault {
        self.with(Action::HoldRequest)
    }

    /// The server executes the call, and does not answer until
    /// [`release`](super::FaultHandle::release).
    pub fn hold_answer(self) -> Fault {
        self.with(Action::HoldAnswer)
    }

    /// The connection is silent from this call on: the server receives none of its requests, and
    /// sends nothing.
    pub fn mute(self) -> Fault {
        self.with(Action::Mute)
    }

    fn with(self, action: Action) -> Fault {
        Fault::of_call(self, action)
    }

    /// Returns whether the call is selected. `earlier` counts the calls that match apart from
    /// [`nth`](Self::nth), and is updated.
    pub(in crate::network) fn selects(&self, call: &ReceivedCall, earlier: &mut u64) -> bool {
        let matches = self.method.is_none_or(|method| method == call.method)
            && self
                .table
                .as_ref()
                .is_none_or(|table| call.table.as_ref() == Some(table))
            && self.server.is_none_or(|server| server == call.server)
            && self.user.as_ref().is_none_or(|user| **user == *call.user)
            && self
                .row
                .as_ref()
                .is_none_or(|row| call.rows.iter().any(|other| other == row))
            && self.predicate.as_ref().is_none_or(|predicate| predicate(call));
        if !matches {
            return false;
        }
        *earlier += 1;
        self.nth.is_none_or(|nth| nth == *earlier)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({self})")
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            table,
            server,
            user,
            row,
            nth,
            predicate,
        } = self;
        f.write_str(method.unwrap_or("any call"))?;
        if let Some(table) = table {
            write!(f, " on {table}")?;
        }
        if let Some(row) = row {
            write!(f, " of row {}", row.escape_ascii())?;
        }
        if let Some(server) = server {
            write!(f, " at server {server}")?;
        }
        if let Some(user) = user {
            write!(f, " by {user}")?;
        }
        if predicate.is_some() {
            f.write_str(" with a predicate")?;
        }
        if let Some(nth) = nth {
            write!(f, ", number {nth}")?;
        }
        Ok(())
    }
}

/// A selection of dials, for a [`Fault`].
#[derive(Clone, Debug)]
pub struct Dial {
    server: Option<usize>,
}

impl Dial {
    /// Selects all dials.
    pub const fn any() -> Self {
        Self { server: None }
    }

    /// Selects dials to one server: region servers from 0, then masters.
    pub const fn to(server: usize) -> Self {
        Self { server: Some(server) }
    }

    /// The server refuses the connection.
    pub fn refuse(self) -> Fault {
        Fault::of_dial(self, DialAction::Refuse)
    }

    /// The connection opens later.
    pub fn delay(self, delay: Duration) -> Fault {
        Fault::of_dial(self, DialAction::Delay(delay))
    }

    /// Nothing answers, so that the dial ends by its timeout.
    pub fn lose(self) -> Fault {
        Fault::of_dial(self, DialAction::Lose)
    }

    pub(super) fn selects(&self, server: usize) -> bool {
        self.server.is_none_or(|selected| selected == server)
    }
}

impl fmt::Display for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server {
            Some(server) => write!(f, "dial of server {server}"),
            None => f.write_str("any dial"),
        }
    }
}
