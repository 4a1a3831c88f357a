//! What the tests share: private RabbitMQ nodes, fresh files and namespaces.

pub mod broker;
pub mod flaky;
pub mod stage;
