//! A shop that takes orders by HTTP. The invoice of an order is booked by a job, which commits together
//! with the order. The shop can crash between its steps, to show what is left.
//!
//! ```sh
//! DATABASE_URL=postgres://shop@localhost/shop cargo run --example outbox
//! curl -X POST localhost:3000/orders            # order 1
//! curl -X POST localhost:3000/orders?crash=before-commit # no order, no invoice
//! curl -X POST localhost:3000/orders?crash=after-commit  # the invoice comes after the restart
//! ```
//!
//! Jobs are in the file `jobq.db`, or on the broker of `JOBQ_URL`. `LISTEN` is another address.

use std::collections::HashMap;
use std::process::abort;

use axum::Router;
use axum::extract::{Query, State as With};
use axum::http::StatusCode;
use axum::routing::post;
use jobq::{BoxError, Client, JobContext, State, WorkerPool, job};
use jobq_sqlx::{Once, Within};
use jobq_tokio_postgres::PgOutbox;
use sqlx::PgPool;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Shop {
    db: PgPool,
    client: Client,
}

/// Books the invoice of an order, once.
#[job(retries = 5, delay = "1s")]
async fn book_invoice(order: i64, db: State<PgPool>, ctx: JobContext) -> Result<(), BoxError> {
    let mut tx = db.begin().await?;
    let is_first = ctx.once(&mut *tx, "invoice").await?.is_first();
    if is_first {
        let update = "UPDATE orders SET invoiced = true WHERE id = $1";
        sqlx::query(update).bind(order).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    // A crash here runs the job again, and nothing is booked twice. What must not be lost, such as a
    // mail, is a job of its own, which is enqueued above `within` the transaction.
    if is_first {
        println!("the invoice of order {order} is booked");
    }
    Ok(())
}

/// The order and its job, or neither.
async fn place_order(shop: &Shop, crash: Option<&str>) -> Result<i64, BoxError> {
    let mut tx = shop.db.begin().await?;
    let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
    let order: i64 = sqlx::query_scalar(insert).fetch_one(&mut *tx).await?;
    shop.client.enqueue(BookInvoice { order }).within(&mut *tx).await?;
    if crash == Some("before-commit") {
        abort();
    }
    tx.commit().await?;
    if crash == Some("after-commit") {
        abort();
    }
    Ok(order)
}

async fn orders(
    With(shop): With<Shop>,
    Query(query): Query<HashMap<String, String>>,
) -> (StatusCode, String) {
    match place_order(&shop, query.get("crash").map(String::as_str)).await {
        Ok(order) => (StatusCode::CREATED, format!("order {order}\n")),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The tables. A program has them in its migrations.
async fn migrate(db: &PgPool, outbox: &PgOutbox) -> Result<(), BoxError> {
    outbox.migrate().await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders \
                  (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, invoiced boolean)";
    sqlx::query(orders).execute(db).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let database = std::env::var("DATABASE_URL")?;
    let (db, outbox) = (PgPool::connect(&database).await?, PgOutbox::lazy(&database)?);
    migrate(&db, &outbox).await?;
    let url = std::env::var("JOBQ_URL").unwrap_or_else(|_| "sqlite://jobq.db".to_owned());
    let client = Client::connect(url).await?;
    let pool = WorkerPool::new(&client).state(db.clone()).register::<BookInvoice>().relay(outbox);
    let pool = pool.spawn().await?;

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let router = Router::new().route("/orders", post(orders)).with_state(Shop { db, client });
    axum::serve(listener, router).with_graceful_shutdown(jobq::shutdown_signal()?).await?;
    pool.shutdown().await?;
    Ok(())
}
