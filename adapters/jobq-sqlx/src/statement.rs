//! Statements whose parameters are question marks.

use jobq::outbox::{Mark, Row};
use sqlx::database::HasStatementCache;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

/// A value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'v> {
    Number(Option<i64>),
    Text(Option<&'v str>),
    Bytes(&'v [u8]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(Some(text))
    }
}

/// A statement with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement<'v> {
    text: String,
    values: Vec<Value<'v>>,
    is_kept: bool,
}

impl<'v> Statement<'v> {
    /// One that the connection keeps prepared.
    pub(crate) fn new(text: impl Into<String>, values: &[Value<'v>]) -> Self {
        Self { text: text.into(), values: values.to_vec(), is_kept: true }
    }

    /// One whose text is hardly ever the same again.
    pub(crate) fn once(text: String, values: &[Value<'v>]) -> Self {
        Self { is_kept: false, ..Self::new(text, values) }
    }

    /// The query, with its values bound.
    pub(crate) fn query<DB>(self) -> Query<'static, DB, DB::Arguments>
    where
        DB: Database + HasStatementCache,
        Option<i64>: Encode<'v, DB> + Type<DB>,
        Option<&'v str>: Encode<'v, DB> + Type<DB>,
        &'v [u8]: Encode<'v, DB> + Type<DB>,
    {
        // The text has numbers besides what is written in this crate.
        let query = sqlx::query(AssertSqlSafe(self.text)).persistent(self.is_kept);
        self.values.into_iter().fold(query, |query, value| match value {
            Value::Number(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
        })
    }
}

/// The values of a row, in the order of its fields.
pub(crate) fn of_row(row: &Row) -> [Value<'_>; 14] {
    [
        Value::Number(Some(row.version)),
        Value::Text(Some(&row.namespace)),
        Value::Text(row.queue.as_deref()),
        Value::Text(row.topic.as_deref()),
        Value::Text(row.name.as_deref()),
        Value::Text(Some(&row.job_id)),
        Value::Number(Some(row.enqueued_at)),
        Value::Number(row.due_at),
        Value::Number(row.expires_at),
        Value::Number(row.retry_wait),
        Value::Text(row.content_encoding.as_deref()),
        Value::Text(row.enqueued_by.as_deref()),
        Value::Text(Some(&row.headers)),
        Value::Bytes(&row.payload),
    ]
}

/// The values of a mark, in the order of its fields.
pub(crate) fn of_mark(mark: &Mark) -> [Value<'_>; 5] {
    [&mark.namespace, &mark.queue, &mark.name, &mark.job_id, &mark.step]
        .map(|text| (&**text).into())
}
