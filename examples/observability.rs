//! A web server that enqueues jobs, a pool that runs them, and their metrics for Prometheus.
//!
//! ```text
//! cargo run --example observability                                # on a file: no server
//! JOBQ_URL=amqp://localhost cargo run --example observability      # on RabbitMQ
//! curl -X POST localhost:8080/orders/17
//! curl localhost:8080/metrics
//! ```

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

// `axum::extract::State` would clash with `jobq::State`.
use axum::extract::{self, Path};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::{Router, routing};
use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

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
        Err(jobq::snooze(Duration::from_millis(200)))?;
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
    let client = Client::from_env().await?;
    let depot = Depot { is_open: AtomicBool::new(false) };
    let pool = WorkerPool::new(&client).state(depot).register::<Ship>().spawn().await?;

    let scrape = async move || ([(CONTENT_TYPE, "text/plain; version=0.0.4")], recorder.render());
    let routes = Router::new()
        .route("/orders/{order}", routing::post(post_order))
        .route("/metrics", routing::get(scrape))
        .with_state(client.clone());
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, routes).with_graceful_shutdown(interrupted).await?;
    pool.shutdown().await?;
    client.close().await;
    Ok(())
}
