//! The statements for PostgreSQL.

use jobq::Error;
use jobq::outbox::{Mark, Row, postgres};
use sqlx::error::DatabaseError;
use sqlx::postgres::PgBindIterExt as _;
use sqlx::{Connection as _, PgConnection};

use crate::tables::{Look, Tables};

impl Tables for PgConnection {
    async fn insert(&mut self, row: &Row) -> sqlx::Result<u64> {
        let query = sqlx::query(postgres::INSERT)
            .bind(row.version)
            .bind(&row.namespace)
            .bind(&row.queue)
            .bind(&row.topic)
            .bind(&row.name)
            .bind(&row.job_id)
            .bind(row.enqueued_at)
            .bind(row.due_at)
            .bind(row.expires_at)
            .bind(row.retry_wait)
            .bind(&row.content_encoding)
            .bind(&row.enqueued_by)
            .bind(&row.headers)
            .bind(&row.payload);
        Ok(query.execute(self).await?.rows_affected())
    }

    async fn insert_many(&mut self, rows: &[Row]) -> sqlx::Result<u64> {
        let query = sqlx::query(postgres::INSERT_MANY)
            .bind(rows.iter().map(|row| row.version).bind_iter())
            .bind(rows.iter().map(|row| &row.namespace).bind_iter())
            .bind(rows.iter().map(|row| &row.queue).bind_iter())
            .bind(rows.iter().map(|row| &row.topic).bind_iter())
            .bind(rows.iter().map(|row| &row.name).bind_iter())
            .bind(rows.iter().map(|row| &row.job_id).bind_iter())
            .bind(rows.iter().map(|row| row.enqueued_at).bind_iter())
            .bind(rows.iter().map(|row| row.due_at).bind_iter())
            .bind(rows.iter().map(|row| row.expires_at).bind_iter())
            .bind(rows.iter().map(|row| row.retry_wait).bind_iter())
            .bind(rows.iter().map(|row| &row.content_encoding).bind_iter())
            .bind(rows.iter().map(|row| &row.enqueued_by).bind_iter())
            .bind(rows.iter().map(|row| &row.headers).bind_iter())
            .bind(rows.iter().map(|row| &row.payload).bind_iter());
        Ok(query.execute(self).await?.rows_affected())
    }

    async fn mark(&mut self, mark: &Mark) -> sqlx::Result<u64> {
        let query = sqlx::query(postgres::MARK)
            .bind(&mark.namespace)
            .bind(&mark.queue)
            .bind(&mark.name)
            .bind(&mark.job_id)
            .bind(&mark.step);
        Ok(query.execute(self).await?.rows_affected())
    }

    async fn look(&mut self) -> sqlx::Result<Look> {
        Ok(Look { is_begun: self.is_in_transaction(), largest: None })
    }

    fn meaning(doing: &str, problem: &dyn DatabaseError) -> Error {
        postgres::error(doing, &problem.code().unwrap_or_default(), problem.message())
    }
}
