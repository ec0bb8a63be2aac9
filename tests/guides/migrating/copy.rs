use futures::TryStreamExt;
use hbase_txn::{
    Result,
    client::{Condition, Connection, Delete, Get, Mutation, Put, Row, Scan, Table},
};

/// More versions than a family keeps.
const ALL: u32 = i32::MAX as u32;

/// The key in the new table: what belongs together first.
fn new_key(customer: &[u8], order: &[u8]) -> Vec<u8> {
    [customer, b"/", order].concat()
}

/// Sets the status of an order in both tables, or deletes the order. `now` is the writer's clock,
/// in milliseconds since 1970.
async fn write(
    [old, new]: [&Table; 2],
    customer: &str,
    order: &str,
    status: Option<&str>,
    now: u64,
) -> Result<()> {
    loop {
        // The stamp first: if it is unchanged below, so is what the scan read.
        let row = old.get(Get::new(order.to_owned()).column("f", "stamp")).await?;
        let unchanged = match row.as_ref().and_then(|row| row.value("f", "stamp")) {
            Some(stamp) => Condition::equal(order.to_owned(), "f", "stamp", stamp),
            None => Condition::absent(order.to_owned(), "f", "stamp"),
        };
        // A raw scan also returns deletes.
        let scan = Scan::new()
            .start_row(order.to_owned())
            .stop_row_inclusive(order.to_owned());
        let row = old.scan(scan.raw().versions(ALL))?.next().await?;
        let times = row.iter().flat_map(Row::cells).map(|cell| cell.timestamp);
        // Later than all that the row has, whatever the clocks of other writers and of servers say.
        let stamp = times.max().map_or(now, |newest| now.max(newest + 1));

        let change = |key: Vec<u8>| match status {
            None => Mutation::from(Delete::new(key).timestamp(stamp)),
            Some(status) => Put::new(key)
                .cell("f", "customer", customer)
                .cell("f", "status", status)
                .cell("f", "stamp", stamp.to_string())
                .timestamp(stamp)
                .into(),
        };
        let changed = old.check_and_mutate(unchanged, [change(order.into())]).await?;
        if changed.success {
            new.mutate_row([change(new_key(customer.as_bytes(), order.as_bytes()))])
                .await?;
            return Ok(());
        }
    }
}

/// Copies all versions of all rows, with their timestamps.
async fn copy([old, new]: [&Table; 2]) -> Result<()> {
    let rows = old.scan(Scan::new().versions(ALL))?.into_stream();
    let copies = rows.map_ok(|row| {
        let customer = row.value("f", "customer").map_or(&[][..], |value| value);
        let mut put = Put::new(new_key(customer, row.key()));
        for cell in row.cells() {
            put = put.cell_at(&cell.family, &cell.qualifier, cell.timestamp, &cell.value);
        }
        put
    });
    copies.try_for_each_concurrent(32, |put| new.put(put)).await?;
    Ok(())
}

/// Returns the keys of the rows in which the tables differ: those of the old table that the new one
/// has not, or has otherwise, and those of the new table that the old one has not.
async fn differences([old, new]: [&Table; 2]) -> Result<[Vec<String>; 2]> {
    let cells = |row: &Row| -> Vec<_> {
        let cells = row.cells().iter();
        cells
            .map(|cell| (cell.qualifier.clone(), cell.timestamp, cell.value.clone()))
            .collect()
    };
    let [mut missing, mut surplus] = [Vec::new(), Vec::new()];
    let mut rows = old.scan(Scan::new().versions(ALL))?;
    while let Some(row) = rows.next().await? {
        let customer = row.value("f", "customer").map_or(&[][..], |value| value);
        let copy = new
            .get(Get::new(new_key(customer, row.key())).versions(ALL))
            .await?;
        if copy.is_none_or(|copy| cells(&copy) != cells(&row)) {
            missing.push(String::from_utf8_lossy(row.key()).into_owned());
        }
    }
    let mut rows = new.scan(Scan::new())?;
    while let Some(row) = rows.next().await? {
        let order = row
            .key()
            .split(|byte| *byte == b'/')
            .next_back()
            .unwrap_or_default();
        if old.get(Get::new(order.to_vec())).await?.is_none() {
            surplus.push(String::from_utf8_lossy(row.key()).into_owned());
        }
    }
    Ok([missing, surplus])
}

mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use bytes::Bytes;
    use futures::future::try_join;
    use hbase_fake::{FakeHBase, Latency};
    use hbase_txn::{
        admin::Admin,
        client::{Environment, FamilyDescriptor, TableDescriptor},
    };

    use super::*;

    /// The clocks of the two servers and of the two writers, in milliseconds ahead.
    const SERVERS: [i64; 2] = [3_000, -3_000];
    const WRITERS: [i64; 2] = [0, -2_000];
    /// An order that both writers write at the same time, those that they write now and then, and one of each.
    const CONTENDED: &str = "order-32";
    const SHARED: [&str; 6] = ["order-1", "order-2", "order-3", "order-5", "order-6", "order-7"];
    const OWN: [&str; 2] = ["order-30", "order-31"];
    const WRITES: usize = 15;

    /// How a writer writes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Way {
        /// As the guide shows.
        OneTimestamp,
        /// Each server stamps the write of its table.
        OfServers,
    }

    /// A writer, with a client and clocks of its own.
    struct Writer {
        way: Way,
        name: usize,
        tables: [Table; 2],
        clock: hbase_fake::FakeEnvironment,
    }

    impl Writer {
        fn random(&self, below: usize) -> usize {
            let mut bytes = [0; 4];
            self.clock.fill_random(&mut bytes);
            u32::from_be_bytes(bytes) as usize % below
        }

        async fn write(&self, order: &str, status: Option<&str>) -> Result<()> {
            let customer = customer(order);
            let [old, new] = &self.tables;
            if self.way == Way::OneTimestamp {
                let now = self.clock.wall_clock().duration_since(UNIX_EPOCH).unwrap();
                let now = u64::try_from(now.as_millis()).unwrap();
                return write([old, new], customer, order, status, now).await;
            }
            let change = |key: Vec<u8>| match status {
                None => Mutation::from(Delete::new(key)),
                Some(status) => Put::new(key)
                    .cell("f", "customer", customer)
                    .cell("f", "status", status)
                    .into(),
            };
            old.mutate_row([change(order.into())]).await?;
            let key = new_key(customer.as_bytes(), order.as_bytes());
            new.mutate_row([change(key)]).await?;
            Ok(())
        }

        /// Writes orders that the other writer writes too, and one that it does not write. Returns how often
        /// a table did not return the last write of the latter.
        async fn run(&self) -> Result<usize> {
            let own = OWN[self.name];
            let mut lost = 0;
            for number in 0..WRITES {
                let status = format!("{}-{number}", self.name);
                self.write(CONTENDED, Some(&status)).await?;
            }
            for number in 0..WRITES {
                let status = format!("{}-{number}", self.name);
                let shared = SHARED[self.random(SHARED.len())];
                let status_of_shared = (self.random(4) > 0).then_some(&*status);
                self.write(shared, status_of_shared).await?;
                self.write(own, Some(&status)).await?;
                let [old, new] = &self.tables;
                let key = new_key(customer(own).as_bytes(), own.as_bytes());
                for (table, key) in [(old, own.as_bytes()), (new, &key)] {
                    let row = table.get(Get::new(key.to_vec())).await?;
                    let visible = row.as_ref().and_then(|row| row.value("f", "status"));
                    lost += usize::from(visible.is_none_or(|visible| *visible != status));
                }
                tokio::time::sleep(Duration::from_millis(self.random(20) as u64)).await;
            }
            Ok(lost)
        }
    }

    fn customer(order: &str) -> &'static str {
        ["anna", "bert", "zoe"][order.len() * usize::from(order.as_bytes()[order.len() - 1]) % 3]
    }

    async fn open(connection: &Connection) -> Result<[Table; 2]> {
        Ok([
            connection.table("orders")?,
            connection.table("orders_by_customer")?,
        ])
    }

    async fn create_tables(hbase: &FakeHBase, connection: &Connection) -> Result<()> {
        for (table, split) in [("orders", "order-4"), ("orders_by_customer", "c")] {
            let family = FamilyDescriptor::new("f").with_attribute("VERSIONS", "100");
            let descriptor = TableDescriptor::new(table)?.with_family(family);
            let splits = [Bytes::from(split)];
            Admin::new(connection).create_table(&descriptor, &splits).await?;
        }
        // The regions of orders of one customer are on different servers, with different clocks.
        for (table, row, server) in [
            ("orders", "a", 0),
            ("orders", "z", 1),
            ("orders_by_customer", "a", 1),
            ("orders_by_customer", "z", 0),
        ] {
            hbase.move_region(table, row, server);
        }
        for (server, ahead) in SERVERS.into_iter().enumerate() {
            hbase.server(server).set_clock_ahead(ahead);
        }
        Ok(())
    }

    /// What is wrong after a migration.
    #[derive(Debug, Default, PartialEq)]
    struct Faults {
        /// The rows that differ, in whatever version.
        differences: usize,
        /// The orders whose status differs.
        wrong: usize,
        /// The reads of orders of one writer that did not return its last write, which was acknowledged.
        lost: usize,
    }

    /// Migrates while two writers write.
    async fn migrate(seed: u64, way: Way) -> Result<Faults> {
        let millis = |from, to| Duration::from_millis(from)..Duration::from_millis(to);
        let latency = Latency {
            request: millis(0, 8),
            queue: millis(0, 4),
            answer: millis(0, 8),
        };
        let hbase = FakeHBase::builder()
            .servers(2)
            .seed(seed)
            .latency(latency)
            .build();
        let connection = hbase.connect().await?;
        create_tables(&hbase, &connection).await?;
        let [old, new] = open(&connection).await?;
        // Rows from before the migration, with older versions.
        for order in SHARED.into_iter().chain(OWN).chain([CONTENDED, "order-4"]) {
            for status in ["new", "paid"] {
                let put = Put::new(order).cell("f", "customer", customer(order));
                old.put(put.cell("f", "status", status).cell("f", "since", "2024"))
                    .await?;
            }
        }
        let mut writers = Vec::new();
        for (name, ahead) in WRITERS.into_iter().enumerate() {
            let connection = hbase.connect().await?;
            writers.push(Writer {
                way,
                name,
                tables: open(&connection).await?,
                clock: hbase.environment().ahead(ahead).seed(seed * 2 + name as u64),
            });
        }
        let copies = async {
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_millis(200)).await;
                copy([&old, &new]).await?;
            }
            Ok(())
        };
        let writers = try_join(writers[0].run(), writers[1].run());
        // A copy while they write is enough, because both writers write to both tables since before it.
        let ((first, second), ()) = try_join(writers, copies).await?;
        let [missing, surplus] = differences([&old, &new]).await?;
        let mut wrong = 0;
        for order in SHARED.into_iter().chain(OWN).chain([CONTENDED]) {
            let key = new_key(customer(order).as_bytes(), order.as_bytes());
            let [before, after] = [old.get(Get::new(order)).await?, new.get(Get::new(key)).await?];
            let status = |row: &Option<Row>| row.as_ref().and_then(|row| row.value("f", "status").cloned());
            wrong += usize::from(status(&before) != status(&after));
        }
        Ok(Faults {
            differences: missing.len() + surplus.len(),
            wrong,
            lost: first + second,
        })
    }

    fn migrations(way: Way, seeds: u64) -> Vec<Faults> {
        let run = |seed| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(migrate(seed, way)).unwrap()
        };
        (0..seeds).map(run).collect()
    }

    #[test]
    fn tables_are_equal_after_two_writers_and_copies() {
        for faults in migrations(Way::OneTimestamp, 24) {
            assert_eq!(faults, Faults::default());
        }
    }

    /// Shows that the test above finds what goes wrong with two timestamps.
    #[test]
    fn timestamps_of_servers_lose_writes() {
        let found = migrations(Way::OfServers, 6);
        eprintln!("{found:#?}");
        assert!(
            found
                .iter()
                .all(|faults| faults.differences > 0 && faults.lost > 0)
        );
        assert!(found.iter().any(|faults| faults.wrong > 0));
    }

    #[test]
    fn differences_are_found() {
        FakeHBase::run(async |hbase| {
            hbase.create_table("orders", &["f"], &[]);
            hbase.create_table("orders_by_customer", &["f"], &[]);
            let [old, new] = open(&hbase.connect().await?).await?;
            for order in ["order-1", "order-2", "order-3"] {
                write([&old, &new], "anna", order, Some("new"), 1_000).await?;
            }
            assert_eq!(
                differences([&old, &new]).await?,
                [const { Vec::<String>::new() }; 2]
            );
            new.delete(Delete::new("anna/order-1")).await?;
            old.delete(Delete::new("order-2")).await?;
            new.put(Put::new("anna/order-3").cell("f", "status", "odd"))
                .await?;
            let expected = [vec!["order-1", "order-3"], vec!["anna/order-2"]];
            assert_eq!(differences([&old, &new]).await?, expected);
            Ok(())
        });
    }
}
