//! Throttles: how many requests, or how many bytes, users and tables may have in a time.

use hbase_client::{
    Cell, Error, Result, Scan, TableName,
    low_level::{convert, pb},
};

use crate::admin::{Admin, bad_answer};

/// What a throttle limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ThrottleType {
    /// The number of requests.
    RequestNumber,
    /// The bytes of requests and answers.
    RequestSize,
    /// The number of writes.
    WriteNumber,
    /// The bytes of writes.
    WriteSize,
    /// The number of reads.
    ReadNumber,
    /// The bytes of reads.
    ReadSize,
    /// The capacity units of requests: one for each begun KiB.
    RequestCapacityUnit,
    /// The capacity units of writes.
    WriteCapacityUnit,
    /// The capacity units of reads.
    ReadCapacityUnit,
    /// The bytes that atomic requests read. HBase 2.6 and later.
    AtomicReadSize,
    /// The number of atomic requests. HBase 2.6 and later.
    AtomicRequestNumber,
    /// The bytes that atomic requests write. HBase 2.6 and later.
    AtomicWriteSize,
    /// The milliseconds that requests occupy handlers. HBase 2.6 and later.
    RequestHandlerUsageMs,
}

/// The time that a throttle's limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThrottleInterval {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

/// The servers that a throttle's limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaScope {
    /// Each region server alone.
    Machine,
    /// All region servers together. Each gets a share by its number of regions.
    Cluster,
}

/// The requests that a throttle is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum QuotaTarget {
    /// Those of a user.
    User(String),
    /// Those of a user to a table.
    UserTable {
        /// The user.
        user: String,
        /// The table.
        table: TableName,
    },
    /// Those of a user to the tables of a namespace.
    UserNamespace {
        /// The user.
        user: String,
        /// The namespace.
        namespace: String,
    },
    /// Those to a table.
    Table(TableName),
    /// Those to the tables of a namespace.
    Namespace(String),
    /// All of a region server.
    RegionServer,
}

/// A limit of requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Throttle {
    /// What is limited.
    pub throttle_type: ThrottleType,
    /// The limit.
    pub limit: u64,
    /// The time that the limit is for.
    pub interval: ThrottleInterval,
    /// The servers that the limit is for.
    pub scope: QuotaScope,
}

/// A throttle, and the requests that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct ThrottleSettings {
    /// The requests.
    pub target: QuotaTarget,
    /// Their limit.
    pub throttle: Throttle,
}

/// The table of quotas, which the master creates.
const QUOTAS: &str = "hbase:quota";
/// The family of settings in it. A row is a letter, a dot and a name.
const SETTINGS: &str = "q";
/// The column of a row's own settings. Those of a user on a table or a namespace follow a dot.
const OWN: &str = "s";
/// The name of all region servers.
const ALL_SERVERS: &str = "all";

impl ThrottleType {
    /// All types.
    pub const ALL: [Self; 13] = [
        Self::RequestNumber,
        Self::RequestSize,
        Self::WriteNumber,
        Self::WriteSize,
        Self::ReadNumber,
        Self::ReadSize,
        Self::RequestCapacityUnit,
        Self::WriteCapacityUnit,
        Self::ReadCapacityUnit,
        Self::AtomicReadSize,
        Self::AtomicRequestNumber,
        Self::AtomicWriteSize,
        Self::RequestHandlerUsageMs,
    ];

    const fn message(self) -> pb::ThrottleType {
        match self {
            Self::RequestNumber => pb::ThrottleType::RequestNumber,
            Self::RequestSize => pb::ThrottleType::RequestSize,
            Self::WriteNumber => pb::ThrottleType::WriteNumber,
            Self::WriteSize => pb::ThrottleType::WriteSize,
            Self::ReadNumber => pb::ThrottleType::ReadNumber,
            Self::ReadSize => pb::ThrottleType::ReadSize,
            Self::RequestCapacityUnit => pb::ThrottleType::RequestCapacityUnit,
            Self::WriteCapacityUnit => pb::ThrottleType::WriteCapacityUnit,
            Self::ReadCapacityUnit => pb::ThrottleType::ReadCapacityUnit,
            Self::AtomicReadSize => pb::ThrottleType::AtomicReadSize,
            Self::AtomicRequestNumber => pb::ThrottleType::AtomicRequestNumber,
            Self::AtomicWriteSize => pb::ThrottleType::AtomicWriteSize,
            Self::RequestHandlerUsageMs => pb::ThrottleType::RequestHandlerUsageMs,
        }
    }

    const fn of(self, throttle: &pb::Throttle) -> &Option<pb::TimedQuota> {
        match self {
            Self::RequestNumber => &throttle.req_num,
            Self::RequestSize => &throttle.req_size,
            Self::WriteNumber => &throttle.write_num,
            Self::WriteSize => &throttle.write_size,
            Self::ReadNumber => &throttle.read_num,
            Self::ReadSize => &throttle.read_size,
            Self::RequestCapacityUnit => &throttle.req_capacity_unit,
            Self::WriteCapacityUnit => &throttle.write_capacity_unit,
            Self::ReadCapacityUnit => &throttle.read_capacity_unit,
            Self::AtomicReadSize => &throttle.atomic_read_size,
            Self::AtomicRequestNumber => &throttle.atomic_req_num,
            Self::AtomicWriteSize => &throttle.atomic_write_size,
            Self::RequestHandlerUsageMs => &throttle.req_handler_usage_ms,
        }
    }
}

impl Throttle {
    /// Creates a limit for each region server alone.
    #[must_use]
    pub const fn new(throttle_type: ThrottleType, limit: u64, interval: ThrottleInterval) -> Self {
        Self {
            throttle_type,
            limit,
            interval,
            scope: QuotaScope::Machine,
        }
    }

    /// Makes the limit one for all region servers together.
    #[must_use]
    pub const fn for_cluster(mut self) -> Self {
        self.scope = QuotaScope::Cluster;
        self
    }

    fn message(self) -> pb::TimedQuota {
        pb::TimedQuota {
            time_unit: match self.interval {
                ThrottleInterval::Second => pb::TimeUnit::Seconds.into(),
                ThrottleInterval::Minute => pb::TimeUnit::Minutes.into(),
                ThrottleInterval::Hour => pb::TimeUnit::Hours.into(),
                ThrottleInterval::Day => pb::TimeUnit::Days.into(),
            },
            soft_limit: Some(self.limit),
            scope: Some(match self.scope {
                QuotaScope::Machine => pb::QuotaScope::Machine.into(),
                QuotaScope::Cluster => pb::QuotaScope::Cluster.into(),
            }),
        }
    }

    fn of(throttle_type: ThrottleType, quota: &pb::TimedQuota) -> Result<Self> {
        Ok(Self {
            throttle_type,
            limit: quota.soft_limit(),
            interval: match quota.time_unit() {
                pb::TimeUnit::Seconds => ThrottleInterval::Second,
                pb::TimeUnit::Minutes => ThrottleInterval::Minute,
                pb::TimeUnit::Hours => ThrottleInterval::Hour,
                pb::TimeUnit::Days => ThrottleInterval::Day,
                other => return Err(unreadable(&format!("a throttle for {}", other.as_str_name()))),
            },
            scope: match quota.scope() {
                pb::QuotaScope::Machine => QuotaScope::Machine,
                pb::QuotaScope::Cluster => QuotaScope::Cluster,
            },
        })
    }
}

impl QuotaTarget {
    /// Adds the target to a request.
    fn add_to(&self, mut request: pb::SetQuotaRequest) -> Result<pb::SetQuotaRequest> {
        let named = |name: &String| {
            if name.is_empty() {
                Err(Error::invalid("a quota of a user or a namespace without a name"))
            } else {
                Ok(Some(name.clone()))
            }
        };
        match self {
            Self::User(user) => request.user_name = named(user)?,
            Self::UserTable { user, table } => {
                request.user_name = named(user)?;
                request.table_name = Some(convert::table_name_message(table));
            }
            Self::UserNamespace { user, namespace } => {
                request.user_name = named(user)?;
                request.namespace = named(namespace)?;
            }
            Self::Table(table) => request.table_name = Some(convert::table_name_message(table)),
            Self::Namespace(namespace) => request.namespace = named(namespace)?,
            Self::RegionServer => request.region_server = Some(ALL_SERVERS.to_owned()),
        }
        Ok(request)
    }

    /// Reads the row and the column of settings. Returns `None` for what has no quotas.
    fn of(cell: &Cell) -> Result<Option<Self>> {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec());
            text.map_err(|_| unreadable("a name that is not text"))
        };
        let table = |name: String| name.parse::<TableName>();
        let (row, column) = (text(&cell.row)?, text(&cell.qualifier)?);
        let Some((kind, name)) = row.split_once('.') else {
            return Ok(None);
        };
        let name = name.to_owned();
        let on = match column.strip_prefix(OWN) {
            Some("") => None,
            Some(rest) => rest.strip_prefix('.').map(str::to_owned),
            None => return Ok(None),
        };
        Ok(Some(match (kind, on) {
            ("u", None) => Self::User(name),
            ("u", Some(on)) => match on.strip_suffix(':') {
                Some(namespace) => Self::UserNamespace {
                    user: name,
                    namespace: namespace.to_owned(),
                },
                None => Self::UserTable {
                    user: name,
                    table: table(on)?,
                },
            },
            ("t", None) => Self::Table(table(name)?),
            ("n", None) => Self::Namespace(name),
            ("r", None) => Self::RegionServer,
            _ => return Ok(None),
        }))
    }
}

impl Admin {
    /// Limits requests. Replaces the throttle of the same type. Region servers apply it within
    /// their refresh period (`hbase.quota.refresh.period`, 5 minutes).
    ///
    /// A client of this crate waits for as long as a server asks it to, within its operation
    /// timeout.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](hbase_client::ErrorKind::InvalidInput) for a limit of zero, and an error of
    /// the server if quotas are switched off (`hbase.quota.enabled`).
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::{Admin, QuotaTarget, Throttle, ThrottleInterval, ThrottleType};
    /// use hbase_client::Connection;
    ///
    /// # async fn example(connection: &Connection) -> hbase_client::Result<()> {
    /// let target = QuotaTarget::Table("orders".parse()?);
    /// let throttle = Throttle::new(ThrottleType::WriteNumber, 1_000, ThrottleInterval::Second);
    /// Admin::new(connection).set_throttle(&target, &throttle).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_throttle(&self, target: &QuotaTarget, throttle: &Throttle) -> Result<()> {
        let in_context = |error: Error| error.at_operation("setting a throttle");
        if throttle.limit == 0 {
            return Err(in_context(Error::invalid("a throttle that allows nothing")));
        }
        let request = pb::ThrottleRequest {
            r#type: Some(throttle.throttle_type.message().into()),
            timed_quota: Some(throttle.message()),
        };
        self.set_quota(target, of_throttle(request))
            .await
            .map_err(in_context)
    }

    /// Removes a throttle, or all throttles of the target if `throttle_type` is `None`. Does nothing
    /// if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error of the server if quotas are switched off.
    pub async fn remove_throttle(
        &self,
        target: &QuotaTarget,
        throttle_type: Option<ThrottleType>,
    ) -> Result<()> {
        let request = pb::ThrottleRequest {
            r#type: throttle_type.map(|throttle_type| throttle_type.message().into()),
            timed_quota: None,
        };
        self.set_quota(target, of_throttle(request))
            .await
            .map_err(|error| error.at_operation("removing a throttle"))
    }

    /// Returns all throttles, as `hbase:quota` has them.
    ///
    /// # Errors
    ///
    /// Returns [`TableNotFound`](hbase_client::ErrorKind::TableNotFound) if quotas were never switched on,
    /// and [`AccessDenied`](hbase_client::ErrorKind::AccessDenied) if the user may not read the table.
    pub async fn throttles(&self) -> Result<Vec<ThrottleSettings>> {
        let in_context = |error: Error| error.at_operation("listing the throttles");
        let mut found = Vec::new();
        for (target, quotas) in self.quotas().await.map_err(in_context)? {
            let throttle = quotas.throttle.unwrap_or_default();
            for throttle_type in ThrottleType::ALL {
                if let Some(quota) = throttle_type.of(&throttle) {
                    found.push(ThrottleSettings {
                        target: target.clone(),
                        throttle: Throttle::of(throttle_type, quota).map_err(in_context)?,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Switches all throttles of the cluster on or off, and returns the previous state. While they are off,
    /// they stay set. Space quotas are not switched.
    ///
    /// # Errors
    ///
    /// Returns an error of the server if quotas are switched off, and if the region servers do not know of
    /// the change within the operation timeout.
    pub async fn rpc_throttle_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SwitchRpcThrottleRequest {
            rpc_throttle_enabled: on,
        };
        let answer: pb::SwitchRpcThrottleResponse = self
            .call_once("SwitchRpcThrottle", &request)
            .await
            .map_err(|error| error.at_operation("switching throttles"))?;
        Ok(answer.previous_rpc_throttle_enabled)
    }

    /// Returns whether throttles apply.
    ///
    /// # Errors
    ///
    /// Returns an error of the server if quotas are switched off.
    pub async fn is_rpc_throttle_enabled(&self) -> Result<bool> {
        let request = pb::IsRpcThrottleEnabledRequest {};
        let answer: pb::IsRpcThrottleEnabledResponse = self.call("IsRpcThrottleEnabled", &request).await?;
        Ok(answer.rpc_throttle_enabled)
    }

    /// Lets requests exceed the throttles of users, tables and namespaces while their region server has
    /// capacity, or not any more, and returns the previous state. The capacity is the throttles of
    /// [`QuotaTarget::RegionServer`], for reads and for writes, in seconds.
    ///
    /// # Errors
    ///
    /// Returns an error of the server if quotas are switched off, or if region servers have no such throttles.
    pub async fn exceed_throttle_quota_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SwitchExceedThrottleQuotaRequest {
            exceed_throttle_quota_enabled: on,
        };
        let answer: pb::SwitchExceedThrottleQuotaResponse = self
            .call_once("SwitchExceedThrottleQuota", &request)
            .await
            .map_err(|error| error.at_operation("switching the excess of throttles"))?;
        Ok(answer.previous_exceed_throttle_quota_enabled)
    }

    /// Returns the contents of `hbase:quota`.
    pub(crate) async fn quotas(&self) -> Result<Vec<(QuotaTarget, pb::Quotas)>> {
        let table = self.connection.table(QUOTAS)?;
        let mut rows = table
            .with_operation_timeout(self.operation_timeout)
            .scan(Scan::new().family(SETTINGS))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().await? {
            for cell in row.cells() {
                if let Some(target) = QuotaTarget::of(cell)? {
                    let quotas = convert::stored(cell.value.clone());
                    found.push((target, quotas.map_err(|error| unreadable(&error.to_string()))?));
                }
            }
        }
        Ok(found)
    }

    /// Changes the quotas of a target.
    pub(crate) async fn set_quota(&self, target: &QuotaTarget, quota: pb::SetQuotaRequest) -> Result<()> {
        let request = target.add_to(quota)?;
        let changed = self.call_until("SetQuota", &request, self.deadline()).await;
        let in_context = |error: Error| match target {
            QuotaTarget::Table(table) | QuotaTarget::UserTable { table, .. } => error.at_table(table),
            _ => error,
        };
        changed.map(|_: pb::SetQuotaResponse| ()).map_err(in_context)
    }
}

fn of_throttle(throttle: pb::ThrottleRequest) -> pb::SetQuotaRequest {
    pb::SetQuotaRequest {
        throttle: Some(throttle),
        ..pb::SetQuotaRequest::default()
    }
}

pub(crate) fn unreadable(what: &str) -> Error {
    bad_answer(&format_args!("{QUOTAS} has {what}"))
}
