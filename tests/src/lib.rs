//! What the tests share: private RabbitMQ nodes, fresh files and namespaces, a scripted job.

pub mod broker;
pub mod files;
pub mod flaky;
pub mod jobs;
pub mod raw;
pub mod stage;
