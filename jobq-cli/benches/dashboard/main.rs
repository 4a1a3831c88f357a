//! What the dashboard costs the broker, its own process and the workers.
//!
//! ```sh
//! cargo bench -p jobq-cli --bench dashboard -- cost rabbitmq|sqlite [--queues 300] [--viewers 50] [--seconds 30] [--minutes 0]
//! cargo bench -p jobq-cli --bench dashboard -- tabs rabbitmq|sqlite [--pairs 7] [--jobs 100000]
//! ```
//!
//! `cost` looks at many queues, one of which is worked on, with a growing number of viewers, and
//! then watches the memory of the process for so many minutes. `tabs` compares how fast jobs are
//! enqueued and drained with five pages open and with none, in turn.
//!
//! The dashboard is the command, in a process of its own. The broker is started on the machine's
//! RabbitMQ, or on the one in `JOBQ_TEST_BROKER_ROOT`, with its management API, by which the
//! dashboard knows the queues. Tables in Markdown go to standard output.

mod cost;
mod page;
mod tabs;
mod viewer;

use anyhow::Context as _;
use jobq_tests::measured::{Measured, arguments};

const USAGE: &str = "cargo bench -p jobq-cli --bench dashboard -- cost|tabs rabbitmq|sqlite";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    let engine = words.get(1).context(USAGE)?;
    let store = Measured::with_management(engine).await.context(USAGE)?;
    match &*words[0] {
        "cost" => cost::run(engine, &store, &words).await,
        "tabs" => tabs::run(engine, &store, &words).await,
        _ => anyhow::bail!(USAGE),
    }
}
