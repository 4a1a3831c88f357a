//! What is special about diesel and its transactions.

#![cfg(all(feature = "sync", feature = "async"))]
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use jobq::{Client, Enqueue};
use jobq_outbox_facts::{Note, Postgres};

/// Counts the rows of both tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM jobq_outbox) + (SELECT count(*) FROM jobq_inbox)";
const NOTES: &str = "SELECT convert_from(payload, 'UTF8')::json->>'text' FROM jobq_outbox \
                     ORDER BY seq";

/// A program: its database with the URL of that, and a client.
struct Shop {
    database: Postgres,
    url: String,
    client: Client,
}

impl Shop {
    async fn open() -> Self {
        let database = Postgres::start();
        let client = Client::connect("sqlite::memory:").await.unwrap();
        Self { url: database.url("postgres"), database, client }
    }

    fn note(&self, text: &str) -> Enqueue {
        self.client.enqueue(note(text))
    }
}

fn note(text: &str) -> Note {
    Note { text: text.to_owned() }
}

fn is_outside(error: &jobq::Error) -> bool {
    error.is_invalid() && error.to_string().contains("`connection.transaction(..)`")
}

mod synchronous {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use diesel::connection::SimpleConnection as _;
    use diesel::r2d2::{ConnectionManager, Pool};
    use diesel::{Connection, PgConnection};
    use jobq::{BoxError, JobContext, JobId};
    use jobq_diesel::{Once, Within};

    use super::*;

    fn commit(shop: &Shop, text: &str, db: &mut PgConnection) -> Result<JobId, BoxError> {
        db.transaction(|connection| Ok(shop.note(text).within(connection)?))
    }

    #[tokio::test]
    async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
        let shop = Shop::open().await;
        let mut db = PgConnection::establish(&shop.url).unwrap();
        let done = db.transaction::<_, BoxError, _>(|connection| {
            shop.note("outer").within(connection)?;
            let nested = connection.transaction::<(), BoxError, _>(|connection| {
                shop.note("rolled back").within(connection)?;
                Err("on purpose".into())
            });
            nested.unwrap_err();
            commit(&shop, "nested", connection)
        });
        done.unwrap();
        assert_eq!(shop.database.sql(NOTES), "outer\nnested");
    }

    #[tokio::test]
    async fn without_a_transaction_nothing_is_written() {
        let shop = Shop::open().await;
        let mut db = PgConnection::establish(&shop.url).unwrap();
        let job = shop.note("a").within(&mut db).unwrap_err();
        let jobs = shop.client.enqueue_all([note("a")]).within(&mut db).unwrap_err();
        let mark = JobContext::for_test().once(&mut db, "pay").unwrap_err();
        db.batch_execute("BEGIN").unwrap();
        let unknown = shop.note("a").within(&mut db).unwrap_err();
        db.batch_execute("COMMIT").unwrap();
        for error in [job, jobs, mark, unknown] {
            assert!(is_outside(&error), "{error}");
        }
        assert_eq!(shop.database.sql(ROWS), "0");
    }

    /// In version 2.3.14 of diesel. A pool closes the connection.
    #[tokio::test]
    async fn a_panic_leaves_the_transaction_open() {
        let shop = Shop::open().await;
        let panic = |db: &mut PgConnection| {
            let panicking = || db.transaction::<(), BoxError, _>(|_| panic!("on purpose"));
            catch_unwind(AssertUnwindSafe(panicking)).unwrap_err();
        };
        let mut db = PgConnection::establish(&shop.url).unwrap();
        panic(&mut db);
        commit(&shop, "lost", &mut db).unwrap();
        let pool = Pool::builder().max_size(1).build(ConnectionManager::new(&shop.url)).unwrap();
        panic(&mut pool.get().unwrap());
        commit(&shop, "kept", &mut pool.get().unwrap()).unwrap();
        assert_eq!(shop.database.sql(NOTES), "kept");
    }
}

mod asynchronous {
    use std::future::pending;

    use diesel_async::pooled_connection::AsyncDieselConnectionManager;
    use diesel_async::pooled_connection::deadpool::Pool;
    use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection as _};
    use jobq::{BoxError, JobContext, JobId};
    use jobq_diesel::asynchronous::{Once, Within};
    use tokio::sync::Notify;

    use super::*;

    async fn commit(
        shop: &Shop,
        text: &str,
        db: &mut AsyncPgConnection,
    ) -> Result<JobId, BoxError> {
        db.transaction(async |connection| Ok(shop.note(text).within(connection).await?)).await
    }

    #[tokio::test]
    async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
        let shop = Shop::open().await;
        let mut db = AsyncPgConnection::establish(&shop.url).await.unwrap();
        let transaction = db.transaction::<_, BoxError, _>(async |connection| {
            shop.note("outer").within(connection).await?;
            let nested = connection.transaction::<(), BoxError, _>(async |connection| {
                shop.note("rolled back").within(connection).await?;
                Err("on purpose".into())
            });
            nested.await.unwrap_err();
            commit(&shop, "nested", connection).await
        });
        transaction.await.unwrap();
        assert_eq!(shop.database.sql(NOTES), "outer\nnested");
    }

    #[tokio::test]
    async fn without_a_transaction_nothing_is_written() {
        let shop = Shop::open().await;
        let mut db = AsyncPgConnection::establish(&shop.url).await.unwrap();
        let job = shop.note("a").within(&mut db).await.unwrap_err();
        let jobs = shop.client.enqueue_all([note("a")]).within(&mut db).await.unwrap_err();
        let mark = JobContext::for_test().once(&mut db, "pay").await.unwrap_err();
        db.batch_execute("BEGIN").await.unwrap();
        let unknown = shop.note("a").within(&mut db).await.unwrap_err();
        db.batch_execute("COMMIT").await.unwrap();
        for error in [job, jobs, mark, unknown] {
            assert!(is_outside(&error), "{error}");
        }
        assert_eq!(shop.database.sql(ROWS), "0");
    }

    /// In version 0.9.2 of diesel-async. A pool closes the connection.
    #[tokio::test]
    async fn a_dropped_future_leaves_the_transaction_open() {
        let shop = Shop::open().await;
        let drop_one = async |db: &mut AsyncPgConnection| {
            let begun = Notify::new();
            let transaction = db.transaction::<(), BoxError, _>(async |_| {
                begun.notify_one();
                pending().await
            });
            tokio::select! {
                done = transaction => panic!("{done:?}"),
                () = begun.notified() => {}
            }
        };
        let mut db = AsyncPgConnection::establish(&shop.url).await.unwrap();
        drop_one(&mut db).await;
        commit(&shop, "lost", &mut db).await.unwrap();
        let manager = AsyncDieselConnectionManager::new(&shop.url);
        let pool = Pool::builder(manager).max_size(1).build().unwrap();
        drop_one(&mut pool.get().await.unwrap()).await;
        commit(&shop, "kept", &mut pool.get().await.unwrap()).await.unwrap();
        assert_eq!(shop.database.sql(NOTES), "kept");
    }
}
