//! What a recorder and a subscriber cost a get: allocations, which are limited, and processor time
//! of the client's thread. `tests/budgets` counts the allocations without them.

use std::{fs, sync::mpsc, thread, time::Duration};

use hbase_fake::FakeHBase;
use hbase_txn::client::{Config, Connection, ConnectionBuilder, Get, Put};
use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};
use tracing_subscriber::layer::SubscriberExt;

use crate::trace_context::headers;

/// The number of gets that are measured, after as many others.
const GETS: u32 = 1_000;

/// The cost of a get.
#[derive(Clone, Copy, Debug)]
struct Cost {
    allocations: f64,
    /// Processor time of this thread.
    time: Duration,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().unwrap_or_default();
    Duration::from_nanos(nanoseconds.parse().unwrap_or_default())
}

/// Measures gets of a fake cluster that runs in another thread.
fn measure(name: &str, build: impl FnOnce(ConnectionBuilder) -> ConnectionBuilder) -> Cost {
    let (stop, stopped) = oneshot::channel::<()>();
    let (sender, started) = mpsc::channel();
    let server = thread::spawn(move || {
        runtime().block_on(async {
            let hbase = FakeHBase::builder().servers(1).listen().await.unwrap();
            hbase.create_table("plain", &["f"], &[]);
            sender.send(hbase.uri()).unwrap();
            drop(stopped.await);
        });
    });
    let config = Config::from_uri(&started.recv().unwrap()).unwrap();
    let runtime = runtime();
    let connection = runtime
        .block_on(build(Connection::builder(config)).connect())
        .unwrap();
    let plain = connection.table("plain").unwrap();
    let put = Put::new("a").cell("f", "q", "v");
    runtime.block_on(plain.put(put)).unwrap();
    let mut cost = None;
    for _ in 0..2 {
        let began = thread_time();
        let counted = allocation_counter::measure(|| {
            runtime.block_on(async {
                for _ in 0..GETS {
                    plain.get(Get::new("a")).await.unwrap();
                }
            });
        });
        cost = Some(Cost {
            allocations: counted.count_total as f64 / f64::from(GETS),
            time: (thread_time() - began) / GETS,
        });
    }
    runtime.block_on(connection.close());
    drop(stop);
    server.join().unwrap();
    let cost = cost.unwrap();
    let Cost { allocations, time } = cost;
    println!("{name}: {allocations:.0} allocations, {time:.1?}");
    cost
}

#[test]
fn metrics_and_spans_cost_few_allocations() {
    let _turn = crate::turn();
    let nothing = measure("nothing installed", |builder| builder);
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = metrics::with_local_recorder(&recorder, || measure("metrics", |builder| builder));
    let registry = tracing_subscriber::registry();
    let spans = tracing::subscriber::with_default(registry, || measure("spans", |builder| builder));
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let traced = tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        measure("spans of OpenTelemetry with headers", |builder| {
            builder.trace_headers(headers)
        })
    });
    let added = |cost: &Cost| cost.allocations - nothing.allocations;
    assert!(added(&metrics) <= 20.0, "{metrics:?} after {nothing:?}");
    assert!(added(&spans) <= 8.0, "{spans:?} after {nothing:?}");
    assert!(added(&traced) <= 70.0, "{traced:?} after {nothing:?}");
}
