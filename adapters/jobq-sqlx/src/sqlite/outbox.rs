use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jobq::relay::{Backlog, Settled, Source, Take, Taken as _, Taking};
use jobq::{Error, ErrorKind, JobId, Result};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use super::taken::TakenRows;
use crate::connections::Connections;
use crate::dialect::Dialect as _;
use crate::outbox::{KEPT, Table, millis};
use crate::statement::{Statement, Value};

/// The table `jobq_outbox` of a SQLite file, for a [relay](jobq::relay).
///
/// It has up to two connections of its own. It holds no lock of the file while the engine stores jobs.
/// The file needs the journal mode `wal`, and its connections a `busy_timeout`.
///
/// A row of the table `jobq_relay` names the relay that works. If that is killed between taking rows and
/// deleting them, the next one takes over 20 seconds later. If it is stopped for longer and goes on, it
/// deletes nothing.
///
/// This is for a file of the program's own. In a file that jobq keeps its jobs in, the pools make jobs of
/// the rows, and a relay is refused.
///
/// ```no_run
/// use jobq::{BoxError, Client, WorkerPool, job};
/// use jobq_sqlx::{SqliteOutbox, Within};
/// use sqlx::SqlitePool;
/// use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
///
/// #[job(retries = 5)]
/// async fn send_invoice(order: i64) -> Result<(), BoxError> {
///     println!("the invoice of order {order}");
///     Ok(())
/// }
///
/// async fn place_order(db: &SqlitePool, client: &Client, order: i64) -> Result<(), BoxError> {
///     let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
///     let insert = sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(order);
///     insert.execute(&mut *tx).await?;
///     client.enqueue(SendInvoice { order }).within(&mut *tx).await?;
///     tx.commit().await?; // both, or neither
///     Ok(())
/// }
///
/// # async fn work() -> Result<(), BoxError> {
/// let client = Client::connect("amqp://localhost").await?;
/// let options: SqliteConnectOptions = "sqlite://shop.db".parse()?;
/// let db = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
/// let outbox = SqliteOutbox::of_pool(&db);
/// WorkerPool::new(&client).register::<SendInvoice>().relay(outbox).run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SqliteOutbox {
    table: Arc<Table<Sqlite>>,
    /// The name of this relay among others.
    holder: String,
    /// The age of marks that the relay deletes.
    kept: Duration,
}

impl SqliteOutbox {
    /// Opens the file of the URL, and checks the tables.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::SqliteOutbox;
    /// let outbox = SqliteOutbox::connect("sqlite://shop.db").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lazy`](Self::lazy) and [`verify`](Self::verify).
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        let outbox = Self::lazy(url)?;
        outbox.verify().await?;
        Ok(outbox)
    }

    /// Opens the file when a relay needs it. A file without the tables makes its
    /// [health](jobq::relay::RelayHealth) say so, until that has changed.
    ///
    /// ```
    /// let outbox = jobq_sqlx::SqliteOutbox::lazy("sqlite://shop.db")?;
    /// # Ok::<(), jobq::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A URL of another form.
    pub fn lazy(url: impl AsRef<str>) -> Result<Self> {
        let url = url.as_ref();
        let none = |problem: &str| {
            let text = format!(
                "the URL of the file cannot be read: {problem}; expected one such as sqlite://shop.db"
            );
            Error::new(ErrorKind::Invalid, text)
        };
        if !url.starts_with("sqlite:") {
            return Err(none("it does not begin with `sqlite:`"));
        }
        let options: SqliteConnectOptions =
            url.parse().map_err(|error: sqlx::Error| none(&error.to_string()))?;
        Ok(Self::of_options(options))
    }

    /// The file of a pool, with the options of its connections. The relay's connections are not those
    /// of the pool, so they do not count in its `max_connections`, and its `after_connect` is not called.
    ///
    /// ```no_run
    /// # async fn example(client: jobq::Client, db: sqlx::SqlitePool) -> jobq::Result<()> {
    /// use jobq::relay::Relay;
    /// use jobq_sqlx::SqliteOutbox;
    ///
    /// let outbox = SqliteOutbox::of_pool(&db);
    /// Relay::new(&client, outbox).run_until(jobq::shutdown_signal()?).await
    /// # }
    /// ```
    #[must_use]
    pub fn of_pool(db: &SqlitePool) -> Self {
        Self::of_options((*db.connect_options()).clone())
    }

    fn of_options(options: SqliteConnectOptions) -> Self {
        let name = format!("jobq_outbox of the file {}", options.get_filename().display());
        Self {
            table: Arc::new(Table { connections: Connections::new(options, name) }),
            holder: JobId::new().to_string(),
            kept: KEPT,
        }
    }

    /// Sets the age at which the relay deletes marks of `jobq_inbox`. A job that runs again after that
    /// does its steps again. Defaults to 30 days.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use jobq_sqlx::SqliteOutbox;
    /// let outbox = SqliteOutbox::lazy("sqlite://shop.db")?;
    /// let outbox = outbox.keep_marks(Duration::from_secs(7 * 86_400));
    /// # Ok::<(), jobq::Error>(())
    /// ```
    #[must_use]
    pub fn keep_marks(mut self, age: Duration) -> Self {
        self.kept = age;
        self
    }

    /// Checks the tables, and that the file can be written.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::SqliteOutbox;
    /// let outbox = SqliteOutbox::lazy("sqlite://shop.db")?;
    /// outbox.verify().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) without a table; [`Conflict`](ErrorKind::Conflict) without a
    /// column; [`Unsupported`](ErrorKind::Unsupported) without the journal mode `wal` or a
    /// `busy_timeout`; [`Refused`](ErrorKind::Refused) for a file that may not be written; a file that
    /// cannot be opened.
    pub async fn verify(&self) -> Result<()> {
        self.table.verify().await
    }

    /// Makes the tables, for files whose migrations no other tool runs, and returns whether they were
    /// missing.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::SqliteOutbox;
    /// let outbox = SqliteOutbox::lazy("sqlite://shop.db")?;
    /// if outbox.migrate().await? {
    ///     println!("the tables are new");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A file that cannot be opened or written.
    pub async fn migrate(&self) -> Result<bool> {
        self.table.migrate().await
    }

    /// Deletes marks of `jobq_inbox` that are older than this, and returns their number.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::SqliteOutbox;
    /// # use std::time::Duration;
    /// let outbox = SqliteOutbox::lazy("sqlite://shop.db")?;
    /// outbox.delete_marks("jobq", Duration::from_secs(7 * 86_400)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A file that cannot be opened or written.
    pub async fn delete_marks(&self, namespace: &str, older: Duration) -> Result<u64> {
        self.table.delete_marks(namespace, older).await
    }

    /// Whether another relay works on the namespace. This takes no lock of the file.
    async fn is_held(&self, connection: &mut SqliteConnection, take: &Take) -> Result<bool> {
        let statement = format!(
            "SELECT count(*) FROM jobq_relay WHERE namespace = ? AND holder <> ? \
             AND held_until > {now} AND held_until <= {now} + ?",
            now = Sqlite::NOW
        );
        let values = [(&*take.namespace).into(), (&*self.holder).into(), millis(take.hold).into()];
        let statement = Statement::new(statement, &values);
        Ok(self.table.number(connection, "looking at", statement).await? != Some(0))
    }

    /// Becomes the relay that works on the namespace, and returns the number of the take. One that the
    /// clock puts too far into the future holds nothing.
    async fn hold(&self, connection: &mut SqliteConnection, take: &Take) -> Result<Option<i64>> {
        let statement = format!(
            "INSERT INTO jobq_relay (namespace, holder, takes, held_until) VALUES (?, ?, 1, {now} + ?) \
             ON CONFLICT (namespace) DO UPDATE SET holder = excluded.holder, takes = takes + 1, \
             held_until = excluded.held_until WHERE holder = excluded.holder OR held_until <= {now} \
             OR held_until > excluded.held_until RETURNING takes",
            now = Sqlite::NOW
        );
        let values: [Value<'_>; 3] =
            [(&*take.namespace).into(), (&*self.holder).into(), millis(take.hold).into()];
        self.table.number(connection, "taking rows of", Statement::new(statement, &values)).await
    }
}

#[async_trait]
impl Source for SqliteOutbox {
    fn name(&self) -> String {
        self.table.name().to_owned()
    }

    async fn take(&self, take: &Take) -> Result<Taking> {
        let table = &self.table;
        let mut connection = table.connections.get().await?;
        // A relay without work writes nothing.
        let nothing = if self.is_held(&mut connection, take).await? {
            Some(Taking::Standby)
        } else {
            let found = table.find(&mut connection, take).await?;
            found.is_empty().then_some(Taking::Nothing)
        };
        if let Some(nothing) = nothing {
            table.connections.give_back(connection);
            return Ok(nothing);
        }
        let Some(number) = self.hold(&mut connection, take).await? else {
            table.connections.give_back(connection);
            return Ok(Taking::Standby);
        };
        // Another relay may have sent what was found before.
        let found = table.find(&mut connection, take).await?;
        let numbers = take.fitting(&found);
        let rows = match &*numbers {
            [] => Vec::new(),
            numbers => table.read(&mut connection, numbers, take).await?,
        };
        let is_full = found.len() > numbers.len() || numbers.len() >= take.limit as usize;
        table.connections.give_back(connection);
        let taken = TakenRows {
            table: Arc::clone(table),
            namespace: take.namespace.clone(),
            holder: self.holder.clone(),
            number,
        };
        if rows.is_empty() {
            Box::new(taken).settle(Settled::default()).await?;
            return Ok(Taking::Nothing);
        }
        Ok(Taking::Rows { rows, is_full, taken: Box::new(taken) })
    }

    async fn backlog(&self, namespace: &str) -> Result<Backlog> {
        self.table.backlog(namespace).await
    }

    async fn clean(&self, namespace: &str) -> Result<u64> {
        self.delete_marks(namespace, self.kept).await
    }
}
