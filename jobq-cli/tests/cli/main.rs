//! The command as a process: what it prints, its exit codes, and its JSON.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod alarm;
mod control;
mod dashboard;
mod enqueue;
mod failed;
mod files;
mod log;
mod looks;
mod made;
mod moving;
mod nights;
mod operations;
mod outbox;
mod process;
mod schedules;
mod schema;
mod server;
mod slow;
mod terminal;
mod topology;
mod watch;
