//! The connections of a relay.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobq::{Error, ErrorKind, Result};
use sqlx::{ConnectOptions as _, Connection};
use tokio::time::timeout;

use crate::dialect::Dialect;
use crate::errors::failed;

/// How long the database may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// One that takes rows, and one that counts them meanwhile.
const KEPT: usize = 2;
/// How long a connection is kept without use. A server may close it later.
const FRESH: Duration = Duration::from_secs(5);

type Options<D> = <<D as sqlx::Database>::Connection as Connection>::Options;

/// Connects, and keeps connections that are not in use.
pub(crate) struct Connections<D: Dialect> {
    options: Options<D>,
    name: String,
    idle: Mutex<Vec<(Instant, D::Connection)>>,
}

impl<D: Dialect> Connections<D> {
    pub(crate) fn new(options: Options<D>, name: String) -> Self {
        Self { options, name, idle: Mutex::default() }
    }

    /// The table, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection, which is closed if it is not [given back](Self::give_back): the database rolls its
    /// transaction back then.
    pub(crate) async fn get(&self) -> Result<D::Connection> {
        while let Some((since, connection)) = self.pop() {
            if since.elapsed() < FRESH {
                return Ok(connection);
            }
        }
        let doing = format!("connecting to the database for {}", self.name);
        let connecting = async {
            let connected = self.options.connect().await;
            let mut connection = connected.map_err(|error| failed(&doing, error, D::meaning))?;
            D::set_up(&mut connection, &self.name).await?;
            Ok(connection)
        };
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| {
            let text = format!("{doing}: no answer in {} s", CONNECT.as_secs());
            Err(Error::new(ErrorKind::Connection, text))
        })
    }

    pub(crate) fn give_back(&self, connection: D::Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push((Instant::now(), connection));
        }
    }

    fn pop(&self) -> Option<(Instant, D::Connection)> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Without the URL, which holds a password.
impl<D: Dialect> fmt::Debug for Connections<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.name).finish()
    }
}
