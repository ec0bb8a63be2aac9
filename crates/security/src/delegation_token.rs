//! Delegation tokens.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

/// A delegation token: a proof of its user's identity that a program can use without a Kerberos
/// ticket, for example a task of YARN or Spark.
///
/// Servers accept it until it expires, 7 days after it was issued by default
/// (`hbase.auth.token.max.lifetime`). It cannot be renewed. Connections that are open stay open.
///
/// The password never appears in [`Debug`](fmt::Debug) output.
#[derive(Clone, PartialEq, Eq)]
pub struct DelegationToken {
    pub(crate) identifier: Bytes,
    pub(crate) password: Bytes,
    pub(crate) cluster_id: String,
    pub(crate) user: String,
    pub(crate) key_id: i32,
    pub(crate) sequence_number: i64,
    pub(crate) issue_date: u64,
    pub(crate) expiration_date: u64,
}

impl DelegationToken {
    /// Returns the id of the cluster that issued it.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Returns the user whose identity it proves, as Kerberos names it.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the number of the servers' master key that its password is derived from.
    #[must_use]
    pub fn key_id(&self) -> i32 {
        self.key_id
    }

    /// Returns the number of the token among those of its user and key.
    #[must_use]
    pub fn sequence_number(&self) -> i64 {
        self.sequence_number
    }

    /// Returns the time at which it was issued, by the clock of the server.
    #[must_use]
    pub fn issued(&self) -> SystemTime {
        at(self.issue_date)
    }

    /// Returns the time from which servers refuse it, by their clocks.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        at(self.expiration_date)
    }
}

/// Returns the token of a cluster that expires last.
#[must_use]
pub fn latest_token<'a>(tokens: &'a [DelegationToken], cluster_id: &str) -> Option<&'a DelegationToken> {
    let of_cluster = tokens.iter().filter(|token| token.cluster_id == cluster_id);
    of_cluster.max_by_key(|token| token.expiration_date)
}

/// Returns the time so many milliseconds after 1970; the number has at most 48 bits.
fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

impl fmt::Debug for DelegationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegationToken")
            .field("cluster_id", &self.cluster_id)
            .field("user", &self.user)
            .field("key_id", &self.key_id)
            .field("sequence_number", &self.sequence_number)
            .field("issued", &self.issued())
            .field("expires", &self.expires())
            .finish_non_exhaustive()
    }
}
