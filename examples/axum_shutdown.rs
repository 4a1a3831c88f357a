//! A web server that enqueues jobs and runs them in the same process. Its graceful shutdown
//! lets the requests and the attempts that have begun finish.
//!
//! ```text
//! cargo run --example axum_shutdown                            # in memory: no server, no file
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

// `axum::extract::State` would clash with `jobq::State`.
use axum::extract::{self, Path};
use axum::http::StatusCode;
use axum::{Router, routing};
use jobq::{BoxError, Client, State, WorkerPool, job};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedSender};

#[job]
async fn ship(order: u64, begun: State<UnboundedSender<()>>) -> Result<(), BoxError> {
    println!("ship:   order {order} is being packed");
    begun.send(())?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    println!("ship:   order {order} is on its way");
    Ok(())
}

/// Answers when the job is stored, and does not wait until it is done.
async fn post_order(client: extract::State<Client>, order: Path<u64>) -> (StatusCode, String) {
    match client.enqueue(Ship { order: order.0 }).await {
        Ok(id) => (StatusCode::ACCEPTED, id.to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // A service needs a file or a broker, which keeps the jobs that the pool does not begin.
    let client = Client::builder("sqlite::memory:")
        // On RabbitMQ: during an outage a request gets its 503 at once, and not after 30 s.
        .fail_fast_after("2s")
        .connect()
        .await?;
    let (begun, mut has_begun) = mpsc::unbounded_channel::<()>();
    let pool = WorkerPool::new(&client).state(begun).register::<Ship>();
    // The shutdown signal of axum is `'static`, so it needs a handle of its own.
    let running = Arc::new(pool.spawn().await?);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let request = tokio::spawn(post(listener.local_addr()?));
    let routes = Router::new().route("/orders/{order}", routing::post(post_order));
    let stopping = Arc::clone(&running);
    let signal = jobq::shutdown_signal()?;
    axum::serve(listener, routes.with_state(client.clone()))
        .with_graceful_shutdown(async move {
            tokio::select! {
                () = signal => {}
                // A server without its pool would accept jobs that nobody runs.
                _ = stopping.wait() => {}
                // This example ends by itself, while its job runs.
                _ = has_begun.recv() => {}
            }
            println!("server: shutting down");
            // Here, so that the server and the pool end side by side.
            stopping.stop();
        })
        .await?;
    println!("client: {}", request.await??);
    // The second half of `shutdown`: `shutdown` would take the handle out of its `Arc`.
    running.wait().await?;
    println!("pool:   ended");
    client.close().await;
    Ok(())
}

/// Posts an order as a client would, and gives the status line of the answer.
async fn post(server: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    let request = "POST /orders/17 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}
