//! The facts on each database, and what is special about the transactions and relays of SQLite and of
//! MariaDB.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod adapter;
mod file;
mod job_file;
mod mariadb;
mod postgres;
mod relays;
mod sqlite;
mod watch;
