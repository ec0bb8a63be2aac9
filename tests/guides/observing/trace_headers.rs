use std::collections::HashMap;

use hbase_txn::client::{Config, Connection};
use opentelemetry::global;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

fn trace_headers() -> HashMap<String, String> {
    let mut headers = HashMap::new();
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&Span::current().context(), &mut headers);
    });
    headers
}

async fn connect(config: Config) -> hbase_txn::Result<Connection> {
    Ok(Connection::builder(config)
        .trace_headers(trace_headers)
        .connect()
        .await?)
}

#[tokio::test]
async fn headers_are_those_of_the_current_span() {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracerProvider};
    use tracing_subscriber::layer::SubscriberExt;

    global::set_text_map_propagator(TraceContextPropagator::new());
    let tracer = SdkTracerProvider::builder().build().tracer("program");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let outside = trace_headers();
    let inside = tracing::info_span!("program").in_scope(trace_headers);
    assert!(!outside.contains_key("traceparent") && inside.contains_key("traceparent"));
    let hbase = hbase_fake::FakeHBase::builder().listen().await.unwrap();
    connect(hbase.config()).await.unwrap().close().await;
}
