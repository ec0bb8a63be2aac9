//! Cluster outages half-way, and concurrent changes of the same table.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{BoxFuture, join};
use hbase_provision::{ApplyStep, ApplyWatcher, Plan, audit_table};
use hbase_txn::{
    ClientErrorKind, ErrorKind,
    admin::Admin,
    client::{Connector, DialTarget, FamilyDescriptor, Io, TableName},
};
use rstest::rstest;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::provision::{apply, by_three, is_settled, plan, unmade};
use crate::support::{connect, connect_by, says, standalone, table::TestTable, table::plain, within};

/// Enough to create a table on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// How the cluster becomes unavailable.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Away {
    Silent = 1,
    Refusing = 2,
}

/// Connects as the library does, until the cluster becomes unavailable.
#[derive(Clone, Debug, Default)]
struct Line(Arc<AtomicU8>);

impl Line {
    fn is(&self, away: Away) -> bool {
        self.0.load(Ordering::SeqCst) == away as u8
    }
}

impl Connector for Line {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (line, address) = (self.clone(), (target.address.host.clone(), target.address.port));
        Box::pin(async move {
            if line.is(Away::Refusing) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(End { stream, line }) as Box<dyn Io>)
        })
    }

    fn is_transparent(&self) -> bool {
        true
    }
}

struct End {
    stream: TcpStream,
    line: Line,
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.line.is(Away::Silent) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.line.is(Away::Refusing) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Makes the cluster unavailable when a step is done.
struct GoesAway {
    line: Line,
    behind: &'static str,
    how: Away,
}

impl ApplyWatcher for GoesAway {
    fn begins(&self, _: &TableName, _: ApplyStep) {}

    fn done(&self, _: &TableName, step: ApplyStep) {
        if step.name() == self.behind {
            self.line.0.store(self.how as u8, Ordering::SeqCst);
        }
    }
}

#[rstest]
#[case::made(false, "create-table", "created with 2 regions; the next step failed")]
#[case::read_back(
    false,
    "read-back",
    "created with 2 regions, read back, as planned; the next step failed"
)]
#[case::modified(true, "modify-table", "changed, 2 regions reopened; the next step failed")]
#[case::modified_and_read_back(
    true,
    "read-back",
    "changed, 2 regions reopened, read back, as planned; the next step failed"
)]
#[tokio::test]
async fn outage_in_an_apply_names_the_done_steps_and_can_be_resumed(
    #[case] is_there: bool,
    #[case] behind: &'static str,
    #[case] done: &str,
    #[values(Away::Silent, Away::Refusing)] how: Away,
) {
    let line = Line::default();
    let config = standalone().config().with_operation_timeout(DEADLINE);
    let connection = connect_by(line.clone(), config.with_read_timeout(Duration::from_secs(1))).await;
    let table = if is_there {
        TestTable::create("away", plain, &["8"]).await
    } else {
        unmade("away")
    };
    let file = by_three(&table.name, "split = {hex = 2}");
    let plan = plan(&connection, &file).await;
    let goes_away = GoesAway { line, behind, how };
    let error = within(DEADLINE * 3, plan.apply(&connection, &goes_away))
        .await
        .unwrap_err();
    says(
        &error,
        &[
            "test.toml:1:9: applying a plan",
            done,
            table.name.qualifier(),
            "apply it again",
            "127.0.0.1",
        ],
    );
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Client(ClientErrorKind::DeadlineExceeded)
                | ErrorKind::Client(ClientErrorKind::ConnectionLost)
                | ErrorKind::Client(ClientErrorKind::Unreachable)
        ),
        "{error:?}"
    );
    let well = connect().await;
    apply(&well, &file).await;
    is_settled(&well, &file).await;
}

/// The same before anything is planned.
#[tokio::test]
async fn outage_before_a_plan_names_the_place_in_the_file() {
    let line = Line::default();
    let config = standalone().config().with_operation_timeout(DEADLINE);
    let connection = connect_by(line.clone(), config).await;
    let table = unmade("away");
    let file = by_three(&table.name, "");
    line.0.store(Away::Refusing as u8, Ordering::SeqCst);
    let error = within(DEADLINE * 3, Plan::read(&connection, &file))
        .await
        .unwrap_err();
    says(&error, &["test.toml:1:9", table.name.qualifier(), "127.0.0.1"]);
}

#[tokio::test]
async fn table_changed_since_its_plan_is_not_overwritten() {
    let connection = connect().await;
    let table = TestTable::create("changed", plain, &[]).await;
    let file = by_three(&table.name, "");
    let planned = plan(&connection, &file).await;
    let admin = Admin::new(&connection);
    let found = admin.descriptor(&table.name).await.unwrap();
    let theirs = found.with_attribute("theirs", "1");
    let more = theirs.clone().with_family(FamilyDescriptor::new("more"));
    admin.modify_table(&more).await.unwrap();
    // The file would drop their family.
    let error = planned.clone().apply(&connection, &()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    says(
        &error,
        &[
            "test.toml:1:9: applying a plan",
            "changed since it was planned",
            "- family more",
            "plan again",
        ],
    );
    assert_eq!(
        admin.descriptor(&table.name).await.unwrap().families.len(),
        more.families.len()
    );
    admin.modify_table(&theirs).await.unwrap();
    planned.apply(&connection, &()).await.unwrap();
    let after = admin.descriptor(&table.name).await.unwrap();
    assert_eq!(after.attribute("theirs"), Some("1"));
    is_settled(&connection, &file).await;
}

/// Both plans start without a table. One creates it, the other finds it created.
#[tokio::test]
async fn two_who_make_the_same_table_at_once_both_end_with_it() {
    let connection = connect().await;
    let table = unmade("twice");
    let file = by_three(&table.name, "split = {hex = 4}");
    let (one, other) = (plan(&connection, &file).await, plan(&connection, &file).await);
    let (one, other) = join(one.apply(&connection, &()), other.apply(&connection, &())).await;
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.regions, other.regions), (4, 4));
    assert!(one.changed != other.changed, "{one:?} {other:?}");
    is_settled(&connection, &file).await;
    assert_eq!(audit_table(&connection, &table.name).await.unwrap(), []);
}

/// A run that was stopped leaves its procedure to the master. The next run waits for the procedure.
#[tokio::test]
async fn plan_during_a_change_waits_for_its_end() {
    let connection = connect().await;
    let table = TestTable::create("busy", plain, &["b", "c", "d", "e", "f", "g", "h"]).await;
    let file = by_three(&table.name, "");
    let first = plan(&connection, &file).await;
    let begun = {
        let connection = connection.clone();
        tokio::spawn(async move { first.apply(&connection, &()).await })
    };
    let changed = crate::support::eventually("the descriptor has changed", async || {
        let now = Admin::new(&connection).descriptor(&table.name).await.unwrap();
        now.names_multi_row_mutation_endpoint().then_some(())
    });
    changed.await;
    begun.abort();
    is_settled(&connection, &file).await;
    assert_eq!(audit_table(&connection, &table.name).await.unwrap(), []);
}
