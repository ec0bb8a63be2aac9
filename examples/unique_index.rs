//! Unique index: no two users of a tenant have the same e-mail, and a user is found by it.
//!
//! | row | cell | |
//! |---|---|---|
//! | `TENANT/user/USER` | `f:email` | the user |
//! | `TENANT/email/EMAIL` | `f:user` | the index: the user with this e-mail |
//!
//! **Conditions.** A new e-mail's index row is absent; the user is unchanged since it was read
//! (absent, or with the old e-mail). One transaction writes all rows.
//!
//! **Invariant.** Users and index rows match one to one, in every snapshot.
//!
//! **Failures.** If the e-mail is taken, the rejection names the condition, and has the cell that
//! was found, which names its user. If the user was changed meanwhile, it is read again. After a
//! lost answer a commit with `recorded()` is sent again, and is applied once. If the caller
//! crashes, either all rows were written or none; repeating the request is harmless.
//!
//! Only the affected rows are read, so a tenant may have any number of users.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example unique_index`

use bytes::Bytes;
use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Rejection, Result,
    client::{Condition, Connection, Delete, Get, Put},
};

mod support;

/// The result of setting an e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmailSet {
    /// The user has the e-mail.
    Done,
    /// Nothing was changed: another user has the e-mail.
    TakenBy(String),
}

/// The limit of reads of a user that changes all the time.
const ATTEMPTS: usize = 32;

/// The label of the condition that no user has the e-mail.
const IS_FREE: &str = "the e-mail is free";

/// Sets the e-mail of a user: registers a new user, or moves the index row of an existing one.
pub async fn set_email(users: &PartitionedTable, tenant: &str, user: &str, email: &str) -> Result<EmailSet> {
    let user_row = format!("{tenant}/user/{user}");
    let index_row = |email: &str| format!("{tenant}/email/{email}");
    let mut attempts = 0;
    loop {
        let old = email_of(users, &user_row).await?;
        if old.as_deref() == Some(email) {
            return Ok(EmailSet::Done);
        }
        let change = users
            .transaction(tenant)
            .condition(Condition::absent(index_row(email), "f", "user").label(IS_FREE))
            .put(Put::new(index_row(email)).cell("f", "user", user))
            .put(Put::new(&user_row).cell("f", "email", email))
            // The user's cell is overwritten: if a clock was set back, the old e-mail must not hide
            // the new one.
            .recorded()
            .guard_timestamps();
        let change = match &old {
            None => change.condition(Condition::absent(&user_row, "f", "email")),
            Some(old) => change
                .condition(Condition::equal(&user_row, "f", "email", old))
                .delete(Delete::new(index_row(old))),
        };
        match change.commit().await {
            Outcome::Rejected(rejection) => match owner(&rejection) {
                Some(other) if other != user => return Ok(EmailSet::TakenBy(other)),
                _ if attempts == ATTEMPTS => return Err(rejection.into()),
                _ => attempts += 1,
            },
            other => return other.into_result().map(|_| EmailSet::Done),
        }
    }
}

async fn email_of(users: &PartitionedTable, user_row: &str) -> Result<Option<String>> {
    let row = users.table().get(Get::new(user_row)).await?;
    Ok(row.map_or(Ok(None), |row| row.get("f", "email"))?)
}

/// Returns the user that has the e-mail, if that is the reason of the rejection.
fn owner(rejection: &Rejection) -> Option<String> {
    let taken = rejection.failed.iter().find(|failed| failed.label == IS_FREE)?;
    taken.found.as_ref().map(|cell| support::text(&cell.value))
}

/// Returns the users of a tenant with their e-mails.
///
/// # Panics
///
/// Panics if the index does not agree.
pub async fn checked_users(users: &PartitionedTable, tenant: &str) -> Result<Vec<(String, String)>> {
    let snapshot = users.snapshot(tenant).await?;
    let pairs = |kind: &str, qualifier: &str| {
        let prefix = format!("{tenant}/{kind}/");
        let pair = |row: &hbase_txn::client::Row| {
            let name = support::text(row.key()).strip_prefix(&prefix)?.into();
            Some((name, support::text(row.value("f", qualifier)?)))
        };
        snapshot.rows().iter().filter_map(pair).collect::<Vec<_>>()
    };
    let users = pairs("user", "email");
    let mut by_index: Vec<_> = pairs("email", "user")
        .into_iter()
        .map(|(email, user)| (user, email))
        .collect();
    by_index.sort_unstable();
    assert_eq!(by_index, users, "the index is not what the users say");
    Ok(users)
}

/// Eight users compete for four e-mails, and change them again.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let users = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let wish = async |number: usize| {
        let user = format!("user{number}");
        for _ in 0..4 {
            let email = format!(
                "{}@example.org",
                ["ann", "bea", "cleo", "dora"][fastrand::usize(..4)]
            );
            let ended = set_email(&users, "acme", &user, &email).await?;
            println!("{user} wants {email}: {ended:?}");
        }
        Ok::<_, hbase_txn::Error>(())
    };
    futures::future::try_join_all((0..8).map(wish)).await?;

    for (user, email) in checked_users(&users, "acme").await? {
        let row = users.table().get(Get::new(format!("acme/email/{email}"))).await?;
        let found = row.as_ref().and_then(|row| row.value("f", "user"));
        assert_eq!(found.map(Bytes::as_ref), Some(user.as_bytes()));
        println!("{email} belongs to {user}");
    }
    println!("users and index match one to one");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_unique_index").await?;
    connection.close().await;
    Ok(())
}
