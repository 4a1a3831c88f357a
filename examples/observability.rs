//! A web server that enqueues jobs, a pool that runs them, their logs, their metrics for Prometheus,
//! and their traces by OpenTelemetry: a request, the job that it enqueues and the attempts of that job
//! are one connected picture. A service exports it by OTLP; here a page shows it.
//!
//! ```text
//! cargo run --example observability                                # on a file: no server
//! JOBQ_URL=amqp://localhost cargo run --example observability      # on RabbitMQ
//! curl -X POST localhost:8080/orders/17
//! curl localhost:8080/metrics
//! curl localhost:8080/traces
//! ```

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};

// `axum::extract::State` would clash with `jobq::State`.
use axum::extract::{self, Path, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing};
use jobq::{BoxError, Client, ClientBuilder, JobContext, State, WorkerPool, job};
use jobq_opentelemetry::OpenTelemetry;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tokio::net::TcpListener;
use tracing::Instrument as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The bounds of the histograms, in seconds. Without them Prometheus would get quantiles, which
/// cannot be added up over several processes.
const SECONDS: [f64; 11] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0, 1800.0];

struct Depot {
    is_open: AtomicBool,
}

/// Opens the depot with the first order, and asks the carrier twice for odd ones.
#[job(retries = 2, delay = "200ms")]
async fn ship(order: u64, ctx: JobContext, depot: State<Depot>) -> Result<(), BoxError> {
    if order == 0 {
        Err(jobq::abort("there is no order 0"))?;
    }
    if !depot.is_open.swap(true, Ordering::Relaxed) {
        Err(jobq::snooze("200ms"))?;
    }
    if order % 2 == 1 && ctx.attempt() == 1 {
        return Err("the carrier does not answer".into());
    }
    Ok(())
}

async fn post_order(client: extract::State<Client>, order: Path<u64>) -> (StatusCode, String) {
    match client.enqueue(Ship { order: order.0 }).await {
        Ok(id) => (StatusCode::ACCEPTED, id.to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// The span of a request. Layers of other crates make it, with the attributes of HTTP.
async fn traced(request: Request, next: Next) -> Response {
    let name = format!("{} {}", request.method(), request.uri().path());
    let span = tracing::info_span!("request", otel.name = name, otel.kind = "server");
    next.run(request).instrument(span).await
}

/// Installs the logs and the spans of the program, and returns where the spans are exported to.
fn trace() -> InMemorySpanExporter {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    // `lapin` has a span for as long as a connection lives.
    let wanted =
        Targets::new().with_default(LevelFilter::INFO).with_target("lapin", LevelFilter::OFF);
    tracing_subscriber::registry()
        .with(wanted)
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("shop")))
        .init();
    exporter
}

/// The spans as text, each below the one that caused it: its parent, or the one it is linked to.
fn picture(spans: &[SpanData], cause: SpanId, depth: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for span in spans {
        let linked = span.links.first().map(|link| link.span_context.span_id());
        if linked.unwrap_or(span.parent_span_id) != cause {
            continue;
        }
        let arrow = if linked.is_some() { "~> " } else { "" };
        let error = match &span.status {
            Status::Error { description } => format!(": {description}"),
            _ => String::new(),
        };
        let kind = format!("{:?}", span.span_kind).to_lowercase();
        lines.push(format!("{}{arrow}{} ({kind}){error}\n", "  ".repeat(depth), span.name));
        lines.extend(picture(spans, span.span_context.span_id(), depth + 1));
    }
    lines
}

/// Installs the recorder of the program.
fn record() -> Result<PrometheusHandle, BoxError> {
    let durations = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(durations, &SECONDS)?;
    Ok(builder.install_recorder()?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // Before the client and the pool are made, which get their handles from it.
    let recorder = record()?;
    let spans = trace();
    let propagation = OpenTelemetry::with_propagator(TraceContextPropagator::new());
    let client = ClientBuilder::from_env()?.propagation(propagation).connect().await?;
    let depot = Depot { is_open: AtomicBool::new(false) };
    let pool = WorkerPool::new(&client).state(depot).register::<Ship>().spawn().await?;

    let scrape = async move || ([(CONTENT_TYPE, "text/plain; version=0.0.4")], recorder.render());
    let show = async move || {
        let mut spans = spans.get_finished_spans().unwrap_or_default();
        spans.sort_by_key(|span| span.start_time);
        picture(&spans, SpanId::INVALID, 0).concat()
    };
    let routes = Router::new()
        .route("/orders/{order}", routing::post(post_order))
        .layer(from_fn(traced))
        .route("/metrics", routing::get(scrape))
        .route("/traces", routing::get(show))
        .with_state(client.clone());
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(jobq::shutdown_signal()?).await?;
    pool.shutdown().await?;
    client.close().await;
    Ok(())
}
