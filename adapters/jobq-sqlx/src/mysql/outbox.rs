use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jobq::relay::{Backlog, Source, Take, Taking};
use jobq::{Error, ErrorKind, Result};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, MySqlPool};

use super::taken::{LOCK, TakenRows, release};
use crate::connections::Connections;
use crate::errors::failed;
use crate::outbox::{KEPT, Table};
use crate::statement::Statement;
use crate::tables::Tables as _;

/// The table `jobq_outbox` of a MariaDB or MySQL database, for a [relay](jobq::relay).
///
/// It has up to two connections of its own, with the isolation level `READ COMMITTED`: under
/// `REPEATABLE READ`, inserts would wait for the relay. They are encrypted if sqlx has one of its
/// features for TLS (`tls-rustls-..`, `tls-native-tls`) and the URL does not say otherwise (`ssl-mode`).
///
/// ```no_run
/// use jobq::{BoxError, Client, WorkerPool, job};
/// use jobq_sqlx::{MySqlOutbox, Within};
/// use sqlx::MySqlPool;
///
/// #[job(retries = 5)]
/// async fn send_invoice(order: i64) -> Result<(), BoxError> {
///     println!("the invoice of order {order}");
///     Ok(())
/// }
///
/// async fn place_order(db: &MySqlPool, client: &Client, order: i64) -> Result<(), BoxError> {
///     let mut tx = db.begin().await?;
///     let insert = sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(order);
///     insert.execute(&mut *tx).await?;
///     client.enqueue(SendInvoice { order }).within(&mut *tx).await?;
///     tx.commit().await?; // both, or neither
///     Ok(())
/// }
///
/// # async fn work() -> Result<(), BoxError> {
/// let client = Client::connect("amqp://localhost").await?;
/// let db = MySqlPool::connect("mysql://shop:secret@db:3306/shop").await?;
/// let outbox = MySqlOutbox::of_pool(&db);
/// WorkerPool::new(&client).register::<SendInvoice>().relay(outbox).run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MySqlOutbox {
    table: Arc<Table<MySql>>,
    /// The age of marks that the relay deletes.
    kept: Duration,
}

impl MySqlOutbox {
    /// Connects to the database of the URL, and checks the tables and the rights of a relay.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::MySqlOutbox;
    /// let outbox = MySqlOutbox::connect("mysql://shop:secret@db/shop").await?;
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

    /// Connects when a relay needs it. A database that is away, or without the tables, makes its
    /// [health](jobq::relay::RelayHealth) say so, until that has changed.
    ///
    /// ```
    /// let outbox = jobq_sqlx::MySqlOutbox::lazy("mysql://shop:secret@db:3306/shop")?;
    /// assert_eq!(format!("{outbox:?}").matches("secret").count(), 0);
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
                "the URL of the database cannot be read: {problem}; expected one such as \
                 mysql://user:password@host:3306/database"
            );
            Error::new(ErrorKind::Invalid, text)
        };
        if !["mysql://", "mariadb://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(none("it does not begin with `mysql://` or `mariadb://`"));
        }
        let options: MySqlConnectOptions =
            url.parse().map_err(|error: sqlx::Error| none(&error.to_string()))?;
        Ok(Self::of_options(options))
    }

    /// The database of a pool, with the options of its connections. The relay's connections are not
    /// those of the pool, so they do not count in its `max_connections`, and its `after_connect` is not
    /// called.
    ///
    /// ```no_run
    /// # async fn example(client: jobq::Client, db: sqlx::MySqlPool) -> jobq::Result<()> {
    /// use jobq::relay::Relay;
    /// use jobq_sqlx::MySqlOutbox;
    ///
    /// let outbox = MySqlOutbox::of_pool(&db);
    /// Relay::new(&client, outbox).run_until(jobq::shutdown_signal()?).await
    /// # }
    /// ```
    #[must_use]
    pub fn of_pool(db: &MySqlPool) -> Self {
        Self::of_options((*db.connect_options()).clone())
    }

    fn of_options(options: MySqlConnectOptions) -> Self {
        let database = options.get_database().unwrap_or("(none)");
        let name = match options.get_socket() {
            Some(socket) => format!("jobq_outbox of database {database} at {}", socket.display()),
            None => format!("jobq_outbox of database {database} at {}", options.get_host()),
        };
        Self { table: Arc::new(Table { connections: Connections::new(options, name) }), kept: KEPT }
    }

    /// Sets the age at which the relay deletes marks of `jobq_inbox`. A job that runs again after that
    /// does its steps again. Defaults to 30 days.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use jobq_sqlx::MySqlOutbox;
    /// let outbox = MySqlOutbox::lazy("mysql://shop@db/shop")?;
    /// let outbox = outbox.keep_marks(Duration::from_secs(7 * 86_400));
    /// # Ok::<(), jobq::Error>(())
    /// ```
    #[must_use]
    pub fn keep_marks(mut self, age: Duration) -> Self {
        self.kept = age;
        self
    }

    /// Checks the tables, and the rights of the user.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::MySqlOutbox;
    /// let outbox = MySqlOutbox::lazy("mysql://shop:secret@db/shop")?;
    /// outbox.verify().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) without a table; [`Conflict`](ErrorKind::Conflict) without a
    /// column; [`Refused`](ErrorKind::Refused) without a right; a database that cannot be reached.
    pub async fn verify(&self) -> Result<()> {
        self.table.verify().await
    }

    /// Makes the tables, for databases whose migrations no other tool runs, and returns whether they
    /// were missing.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::MySqlOutbox;
    /// let outbox = MySqlOutbox::lazy("mysql://shop:secret@db/shop")?;
    /// if outbox.migrate().await? {
    ///     println!("the tables are new");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<bool> {
        self.table.migrate().await
    }

    /// Deletes marks of `jobq_inbox` that are older than this, and returns their number.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// # use jobq_sqlx::MySqlOutbox;
    /// # use std::time::Duration;
    /// let outbox = MySqlOutbox::lazy("mysql://shop:secret@db/shop")?;
    /// outbox.delete_marks("jobq", Duration::from_secs(7 * 86_400)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A database that cannot be reached or refuses.
    pub async fn delete_marks(&self, namespace: &str, older: Duration) -> Result<u64> {
        self.table.delete_marks(namespace, older).await
    }

    /// Takes the lock of the one relay of a table and namespace, and begins a transaction. The server
    /// closes the connection if nothing comes for that long, which ends both.
    async fn begin(&self, connection: &mut MySqlConnection, take: &Take) -> Result<bool> {
        const DOING: &str = "taking rows of";
        // The name of the lock has the database, and a user may have none.
        let lock = Statement::new(LOCK, &[(&*take.namespace).into()]);
        match self.table.number(connection, DOING, lock).await? {
            Some(0) => return Ok(false),
            Some(_) => {}
            None => {
                let text = format!(
                    "{DOING} {}: the server gives no lock by GET_LOCK; name a database in the URL",
                    self.table.name()
                );
                return Err(Error::new(ErrorKind::Refused, text));
            }
        }
        let hold = take.hold.as_millis().div_ceil(1_000).max(1);
        let statements = format!("SET SESSION wait_timeout = {hold}; START TRANSACTION");
        let begun = sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await;
        begun.map_err(|error| {
            failed(&format!("{DOING} {}", self.table.name()), error, MySqlConnection::meaning)
        })?;
        Ok(true)
    }
}

#[async_trait]
impl Source for MySqlOutbox {
    fn name(&self) -> String {
        self.table.name().to_owned()
    }

    async fn take(&self, take: &Take) -> Result<Taking> {
        let table = &self.table;
        let mut connection = table.connections.get().await?;
        if !self.begin(&mut connection, take).await? {
            table.connections.give_back(connection);
            return Ok(Taking::Standby);
        }
        let found = table.find(&mut connection, take).await?;
        let numbers = take.fitting(&found);
        if numbers.is_empty() {
            table.run(&mut connection, "looking at", "ROLLBACK").await?;
            release(table, connection, &take.namespace).await?;
            return Ok(Taking::Nothing);
        }
        let is_full = found.len() > numbers.len() || numbers.len() >= take.limit as usize;
        let rows = table.read(&mut connection, &numbers, take).await?;
        let taken =
            TakenRows { connection, table: Arc::clone(table), namespace: take.namespace.clone() };
        Ok(Taking::Rows { rows, is_full, taken: Box::new(taken) })
    }

    async fn backlog(&self, namespace: &str) -> Result<Backlog> {
        self.table.backlog(namespace).await
    }

    async fn clean(&self, namespace: &str) -> Result<u64> {
        self.delete_marks(namespace, self.kept).await
    }
}
