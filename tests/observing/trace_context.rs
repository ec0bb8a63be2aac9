//! The trace context in the header of requests, from a real tracer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use hbase_fake::{Call, FakeHBase, ReceivedCall};
use hbase_txn::{
    PartitionedTable,
    client::{Connection, ConnectionBuilder, Get, Put},
};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Instrument, Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

/// A request: its method, and the headers of its trace.
type Request = (String, BTreeMap<String, String>);

/// The requests that a cluster has received.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Request>>>);

impl Received {
    /// Keeps the requests that are about a table from now on.
    fn watch(hbase: &FakeHBase, table: &'static str) -> Self {
        let received = Self::default();
        let list = received.clone();
        let keep = move |call: &ReceivedCall| {
            list.0
                .lock()
                .unwrap()
                .push((call.method.clone(), call.trace.clone()));
            true
        };
        hbase.fault(Call::Any.on(table).when(keep).delay_request(Duration::ZERO));
        received
    }

    fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

pub(crate) fn headers() -> HashMap<String, String> {
    use opentelemetry::propagation::TextMapPropagator;
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut headers);
    headers
}

/// Runs a test with a tracer that samples everything.
fn traced(test: impl AsyncFnOnce(&FakeHBase)) {
    let _turn = crate::turn();
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        FakeHBase::run(async |hbase| {
            hbase.create_table("plain", &["f"], &[]);
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            test(hbase).await;
            Ok(())
        });
    });
}

fn builder(hbase: &FakeHBase) -> ConnectionBuilder {
    Connection::builder(hbase.config()).connector(hbase.connector())
}

fn put(row: impl Into<String>) -> Put {
    Put::new(row.into()).cell("f", "q", "v")
}

/// Returns the id of the trace of a span, as in `traceparent`.
fn trace_id(span: &Span) -> String {
    span.context().span().span_context().trace_id().to_string()
}

#[test]
fn request_continues_the_trace_of_its_operation() {
    traced(async |hbase| {
        let connection = builder(hbase).trace_headers(headers).connect().await.unwrap();
        let plain = connection.table("plain").unwrap();
        let received = Received::watch(hbase, "plain");
        let caller = info_span!("caller");
        plain.put(put("a")).instrument(caller.clone()).await.unwrap();
        let requests = received.take();
        assert_eq!(requests.len(), 1, "{requests:?}");
        let parts: Vec<_> = requests[0].1["traceparent"].split('-').collect();
        let [version, trace, span, flags] = parts[..] else {
            panic!("{parts:?}")
        };
        assert_eq!((version, flags), ("00", "01"));
        assert_eq!(trace, trace_id(&caller));
        // The parent is the span of the operation, which is a child of the caller's.
        let of_caller = caller.context().span().span_context().span_id().to_string();
        assert!(span.len() == 16 && span != of_caller, "{span} in {of_caller}");
    });
}

#[test]
fn requests_without_a_tracer_have_no_trace() {
    traced(async |hbase| {
        let plain = builder(hbase).connect().await.unwrap().table("plain").unwrap();
        let received = Received::watch(hbase, "plain");
        plain.put(put("a")).await.unwrap();
        assert!(received.take().iter().all(|(_, trace)| trace.is_empty()));
        let empty = builder(hbase).trace_headers(HashMap::new);
        let plain = empty.connect().await.unwrap().table("plain").unwrap();
        plain.get(Get::new("a")).await.unwrap();
        assert!(received.take().iter().all(|(_, trace)| trace.is_empty()));
    });
}

#[test]
fn shared_calls_continue_the_trace_of_one_of_their_callers() {
    traced(async |hbase| {
        let connection = builder(hbase).trace_headers(headers).connect().await.unwrap();
        let plain = connection.table("plain").unwrap();
        let orders = PartitionedTable::open(&connection, "orders").await.unwrap();
        plain.get(Get::new("a")).await.unwrap();
        for table in ["plain", "orders"] {
            let received = Received::watch(hbase, table);
            let callers: Vec<_> = (0..8).map(|_| info_span!("caller")).collect();
            let writes = callers.iter().enumerate().map(|(number, caller)| {
                let (plain, orders) = (&plain, &orders);
                let write = async move {
                    if table == "plain" {
                        plain.put(put(format!("a{number}"))).await.unwrap();
                    } else {
                        let transaction = orders.transaction("xxx").put(put(format!("xxx{number}")));
                        assert!(transaction.commit().await.is_committed());
                    }
                };
                write.instrument(caller.clone())
            });
            join_all(writes).await;
            let requests = received.take();
            assert!(requests.len() < 8, "{requests:?}");
            let traces: Vec<_> = callers.iter().map(trace_id).collect();
            for (method, trace) in requests {
                let parent = &trace["traceparent"];
                let is_known = traces.iter().any(|trace| parent.contains(trace));
                assert!(is_known, "{method} on {table}: {parent}");
            }
        }
    });
}
