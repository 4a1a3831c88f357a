//! The statements, with their parameters.

use diesel::pg::Pg;
use diesel::query_builder::{QueryFragment, QueryId};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use jobq::outbox::{Mark, Row, postgres};

/// What [`insert`] does, for errors.
pub(crate) const INSERTING: &str = "writing a row of jobq_outbox";
/// What [`mark`] does, for errors.
pub(crate) const MARKING: &str = "marking a step";

/// A statement that diesel does not keep prepared, so that it may pass PgBouncer.
pub(crate) trait Statement: QueryFragment<Pg> + QueryId + Send {}

impl<S: QueryFragment<Pg> + QueryId + Send> Statement for S {}

pub(crate) fn insert(row: &Row) -> impl Statement {
    sql_query(postgres::INSERT)
        .bind::<BigInt, _>(row.version)
        .bind::<Text, _>(&row.namespace)
        .bind::<Nullable<Text>, _>(&row.queue)
        .bind::<Nullable<Text>, _>(&row.topic)
        .bind::<Nullable<Text>, _>(&row.name)
        .bind::<Text, _>(&row.job_id)
        .bind::<BigInt, _>(row.enqueued_at)
        .bind::<Nullable<BigInt>, _>(row.due_at)
        .bind::<Nullable<BigInt>, _>(row.expires_at)
        .bind::<Nullable<BigInt>, _>(row.retry_wait)
        .bind::<Nullable<Text>, _>(&row.content_encoding)
        .bind::<Nullable<Text>, _>(&row.enqueued_by)
        .bind::<Text, _>(&row.headers)
        .bind::<Binary, _>(&row.payload)
}

pub(crate) fn mark(mark: &Mark) -> impl Statement {
    sql_query(postgres::MARK)
        .bind::<Text, _>(&mark.namespace)
        .bind::<Text, _>(&mark.queue)
        .bind::<Text, _>(&mark.name)
        .bind::<Text, _>(&mark.job_id)
        .bind::<Text, _>(&mark.step)
}
