//! The dashboard in a web application, behind the application's own login.
//!
//! ```text
//! cargo run --example dashboard                                # in memory: no server, no file
//! ```

use axum::extract::Request;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing};
use jobq::{BoxError, Client, WorkerPool, job};
use jobq_dashboard::{Access, Dashboard};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[job]
async fn ship(order: u64) -> Result<(), BoxError> {
    Err(format!("order {order}: no parcel fits").into())
}

/// The name of a user who is logged in. An application has more than this.
#[derive(Clone)]
struct User(&'static str);

async fn session(mut request: Request, next: Next) -> Response {
    if request.headers().get(COOKIE).is_some_and(|cookie| cookie == "session=1234") {
        request.extensions_mut().insert(User("ann"));
    }
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::connect("sqlite::memory:").await?;
    let pool = WorkerPool::new(&client).register::<Ship>().spawn().await?;
    client.enqueue(Ship { order: 17 }).await?;
    let (stop, stopped) = watch::channel(());
    // A service awaits SIGTERM here.
    let signal = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.changed().await) }
    };
    let dashboard = Dashboard::new(&client)
        .access(|request| request.extensions.get::<User>().map_or(Access::No, |_| Access::All))
        .actor(|request| request.extensions.get::<User>().map(|user| user.0.to_owned()))
        // The pages that are open do not hold up the end of the server.
        .shutdown(signal())
        .prefix("/admin/jobs");
    let routes = Router::new()
        .nest_service("/admin/jobs", dashboard.router())
        .route("/login", routing::post(|| async { [(SET_COOKIE, "session=1234")] }))
        .layer(from_fn(session));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = axum::serve(listener, routes).with_graceful_shutdown(signal());
    let server = tokio::spawn(server.into_future());
    // The requests of a browser, before and after the login.
    for cookie in ["session=none", "session=1234"] {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /admin/jobs HTTP/1.0\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        println!("{cookie}: {}", page.lines().next().unwrap_or_default());
    }
    stop.send_replace(());
    server.await??;
    Ok(pool.shutdown().await?)
}
