//! Unique index: no two users of a tenant have the same e-mail, and a user is found by it.
//!
//! | row | cell | |
//! |---|---|---|
//! | `TENANT/user/USER` | `f:email` | the user |
//! | `TENANT/email/EMAIL` | `f:user` | the index: whose e-mail it is |
//!
//! **Conditions.** A new e-mail's index row is absent; the user is as it was read (absent, or with
//! the old e-mail). All rows are written by one transaction.
//!
//! **Invariant.** Users and index rows match one to one, in every snapshot.
//!
//! **When something goes wrong.** The e-mail is taken: the rejection names the condition, and shows
//! the cell that was found, so whose it is. The user was changed meanwhile: it is read again. The
//! answer was lost: with `recorded()` the commit is sent again, and is applied once. The caller
//! died: all rows were written, or none; asking again is harmless.
//!
//! Only the rows in question are read, so a tenant may have any number of users.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example unique_index`

use bytes::Bytes;
use hbase_txn::{
    Condition, Connection, Delete, Get, Outcome, PartitionRule, PartitionedTable, Put, Rejection, Result,
};

mod support;

/// How setting an e-mail ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmailSet {
    /// The user has it.
    Done,
    /// Nothing was changed: another user has it.
    TakenBy(String),
}

/// How often a user is read again who changes all the time.
const ATTEMPTS: usize = 32;

/// The label of the condition that nobody has the e-mail.
const IS_FREE: &str = "the e-mail is free";

/// Gives a user an e-mail: registers one who is not there, and moves the index row of one who is.
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
            // The user's cell is overwritten: a clock that went back must not hide the new e-mail
            // behind the old one.
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

/// Who has the e-mail, if that is why nothing was changed.
fn owner(rejection: &Rejection) -> Option<String> {
    let taken = rejection.failed.iter().find(|failed| failed.label == IS_FREE)?;
    taken.found.as_ref().map(|cell| support::text(&cell.value))
}

/// The users of a tenant with their e-mails, after a check that the index says the same.
///
/// # Panics
///
/// When it does not.
pub async fn checked_users(users: &PartitionedTable, tenant: &str) -> Result<Vec<(String, String)>> {
    let snapshot = users.snapshot(tenant).await?;
    let pairs = |kind: &str, qualifier: &str| {
        let prefix = format!("{tenant}/{kind}/");
        let pair = |row: &hbase_txn::Row| {
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

/// Eight users want four e-mails, and change their minds.
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
