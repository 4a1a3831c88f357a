//! The conformance suite on every engine. The cases are in `jobq::engine::conformance`.

use std::sync::Arc;

use async_trait::async_trait;
use jobq::Clock;
use jobq::engine::Engine;
use jobq::engine::conformance::{Store, conformance};
use jobq::testing::Memory;
use jobq_tests::broker;
use jobq_tests::files::Directory;

use crate::own_engine::engine::List;

struct SqliteMemory;

#[async_trait]
impl Store for SqliteMemory {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        jobq::engine::conformance::open("sqlite::memory:", "jobq").await
    }
}

struct File(Directory);

#[async_trait]
impl Store for File {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        jobq::engine::conformance::open(&self.0.url("jobs.db"), "jobq").await
    }
}

struct TestKit(Memory);

#[async_trait]
impl Store for TestKit {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        Ok(Arc::new(self.0.clone()))
    }
}

#[async_trait]
impl Store for List {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        Ok(Arc::new(self.clone()))
    }
}

struct RabbitMq {
    namespace: String,
}

impl RabbitMq {
    fn new() -> Self {
        let namespace = broker::namespace();
        Self { namespace }
    }
}

#[async_trait]
impl Store for RabbitMq {
    async fn open(&self) -> jobq::Result<Arc<dyn Engine>> {
        jobq::engine::conformance::open(&broker::shared().await, &self.namespace).await
    }
}

conformance!(
    memory,
    TestKit(Memory::new(Clock::system())),
    delays = yes,
    control = yes,
    shared = no,
    admits = no,
    departs = no
);
conformance!(own_engine, List::default(), delays = yes);
conformance!(
    sqlite_memory,
    SqliteMemory,
    delays = yes,
    control = yes,
    shared = no,
    admits = yes,
    departs = yes
);
conformance!(
    sqlite_file,
    File(Directory::new()),
    delays = yes,
    control = yes,
    shared = yes,
    admits = yes,
    departs = yes
);
conformance!(
    rabbitmq,
    RabbitMq::new(),
    delays = yes,
    control = yes,
    shared = yes,
    admits = yes,
    departs = yes
);
