//! One span for each operation.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use hbase_fake::{Call, FakeHBase};
use hbase_txn::{
    PartitionedTable,
    client::{Connection, Get, Put, Scan},
};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

/// The fields of a span, as text.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// The spans that have ended, in that order.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedSpans(Arc<Mutex<Vec<Fields>>>);

impl EndedSpans {
    /// Returns the spans of an operation that have ended since the last call.
    fn take(&self, operation: &str) -> Vec<Fields> {
        let mut ended = std::mem::take(&mut *self.0.lock().unwrap());
        ended.retain(|span| span.get("db.operation.name") == operation);
        ended
    }

    /// Returns the only span of an operation that has ended since the last call.
    fn take_one(&self, operation: &str) -> Fields {
        let mut spans = self.take(operation);
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.remove(0)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for EndedSpans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        if let Some(parent) = span.parent()
            && let Some(parent) = parent.extensions().get::<Fields>()
        {
            let name = parent.get("db.operation.name").to_owned();
            fields.0.insert("parent", name);
        }
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if let Some(fields) = span.extensions_mut().remove::<Fields>() {
            self.0.lock().unwrap().push(fields);
        }
    }
}

/// Runs a test with a subscriber that keeps the spans.
fn traced(test: impl AsyncFnOnce(&FakeHBase, &EndedSpans)) {
    let _turn = crate::turn();
    let ended = EndedSpans::default();
    let subscriber = tracing_subscriber::registry().with(ended.clone());
    tracing::subscriber::with_default(subscriber, || {
        FakeHBase::run(async |hbase| {
            hbase.create_table("plain", &["f"], &[]);
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            test(hbase, &ended).await;
            Ok(())
        });
    });
}

fn put(row: &str) -> Put {
    Put::new(row.to_owned()).cell("f", "q", "v")
}

#[test]
fn span_of_a_success_names_table_region_server_and_attempt() {
    traced(async |hbase, ended| {
        let plain = hbase.connect().await.unwrap().table("plain").unwrap();
        plain.put(put("secret")).await.unwrap();
        let span = ended.take_one("put");
        let (host, port) = hbase.server(0).address();
        for (field, expected) in [
            ("otel.name", "put plain"),
            ("otel.kind", "client"),
            ("db.system.name", "hbase"),
            ("db.namespace", "default"),
            ("db.collection.name", "plain"),
            ("server.address", host.as_str()),
            ("server.port", port.to_string().as_str()),
            ("hbase.attempt", "1"),
            ("hbase.outcome", "ok"),
            ("error.type", ""),
        ] {
            assert_eq!(span.get(field), expected, "{field}: {span:?}");
        }
        assert_eq!(span.get("hbase.region").len(), 32, "{span:?}");
        assert!(span.get("hbase.duration_ms").parse::<f64>().is_ok(), "{span:?}");
        assert!(!format!("{span:?}").contains("secret"), "{span:?}");
    });
}

#[test]
fn row_is_in_the_span_if_it_is_asked_for() {
    traced(async |hbase, ended| {
        let connection = Connection::builder(hbase.config())
            .connector(hbase.connector())
            .rows_in_spans(true);
        let plain = connection.connect().await.unwrap().table("plain").unwrap();
        plain.put(put("a\u{1}")).await.unwrap();
        assert_eq!(ended.take_one("put").get("hbase.row"), "a\\x01");
    });
}

#[test]
fn retried_operation_has_one_span_with_its_last_attempt() {
    traced(async |hbase, ended| {
        let plain = hbase.connect().await.unwrap().table("plain").unwrap();
        let moved = "org.apache.hadoop.hbase.NotServingRegionException";
        hbase.fault(Call::Get.on("plain").fail_before(moved, "moved").times(2));
        plain.get(Get::new("a")).await.unwrap();
        let span = ended.take_one("get");
        assert_eq!(
            (span.get("hbase.attempt"), span.get("hbase.outcome")),
            ("3", "ok")
        );
    });
}

#[test]
fn failure_is_named_by_its_kind() {
    traced(async |hbase, ended| {
        let connection = hbase.connect().await.unwrap();
        let missing = connection.table("missing").unwrap();
        missing.get(Get::new("a")).await.unwrap_err();
        let span = ended.take_one("get");
        assert_eq!(
            (span.get("hbase.outcome"), span.get("error.type")),
            ("failed", "TableNotFound")
        );
        assert_eq!(span.get("otel.status_code"), "ERROR");
        let plain = connection.table("plain").unwrap();
        hbase.fault(Call::Mutate.on("plain").lose_answer().times(1));
        plain.put(put("a")).await.unwrap_err();
        let span = ended.take_one("put");
        assert_eq!(
            (span.get("hbase.outcome"), span.get("error.type")),
            ("unknown", "DeadlineExceeded")
        );
    });
}

#[test]
fn dropped_operation_was_cancelled() {
    traced(async |hbase, ended| {
        let plain = hbase.connect().await.unwrap().table("plain").unwrap();
        let held = hbase.fault(Call::Get.on("plain").hold_answer());
        let mut get = Box::pin(plain.get(Get::new("a")));
        tokio::select! {
            biased;
            _ = &mut get => panic!("the answer is held"),
            () = held.wait_for(1) => {}
        }
        drop(get);
        assert_eq!(ended.take_one("get").get("hbase.outcome"), "cancelled");
    });
}

#[test]
fn scan_and_many_reads_and_writes_have_spans() {
    traced(async |hbase, ended| {
        let plain = hbase.connect().await.unwrap().table("plain").unwrap();
        let written = plain.mutate_many(["a", "b", "c"].map(put)).await;
        assert!(written.iter().all(Result::is_ok));
        assert_eq!(ended.take_one("mutate_many").get("hbase.outcome"), "ok");
        plain.get_many(["a", "b"].map(Get::new)).await.unwrap();
        assert_eq!(ended.take_one("get_many").get("hbase.outcome"), "ok");
        let mut scanner = plain.scan(Scan::new()).unwrap();
        while scanner.next().await.unwrap().is_some() {}
        let scans = ended.take("scan");
        assert!(!scans.is_empty());
        assert!(
            scans.iter().all(|span| span.get("hbase.outcome") == "ok"),
            "{scans:?}"
        );
    });
}

#[test]
fn spans_of_calls_are_within_that_of_the_commit() {
    traced(async |hbase, ended| {
        let connection = hbase.connect().await.unwrap();
        let orders = PartitionedTable::open(&connection, "orders").await.unwrap();
        let commit = || orders.transaction("xxx").put(put("xxxa")).commit();
        // The first one compares clocks, because the region was opened recently.
        assert!(commit().await.is_committed());
        ended.take("");
        assert!(commit().await.is_committed());
        let spans = std::mem::take(&mut *ended.0.lock().unwrap());
        let names: Vec<_> = spans.iter().map(|span| span.get("db.operation.name")).collect();
        assert_eq!(names, ["transaction", "commit"]);
        assert_eq!(spans[0].get("parent"), "commit");
        assert_eq!(
            (spans[1].get("hbase.outcome"), spans[1].get("otel.kind")),
            ("committed", "internal")
        );
    });
}
