//! The same jobs without jobq, as a program would do it that has only this to do.

mod message;
pub(crate) mod rabbitmq;
pub(crate) mod sqlite;
