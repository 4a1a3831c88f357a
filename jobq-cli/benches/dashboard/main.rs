//! The cost of the dashboard for the broker and for its own process.
//!
//! ```sh
//! cargo bench -p jobq-cli --bench dashboard -- rabbitmq|sqlite [--queues 300] [--viewers 50] [--seconds 30] [--minutes 0]
//! ```
//!
//! It looks at many queues, one of which is worked on, with a growing number of viewers, and
//! then watches the memory of the process for so many minutes.
//!
//! The dashboard is the command, in a process of its own. The broker is started on the machine's
//! RabbitMQ, or on the one in `JOBQ_TEST_BROKER_ROOT`, with its management API, by which the
//! dashboard knows the queues. Tables in Markdown go to standard output.

mod cost;
mod page;
mod viewer;

use anyhow::Context as _;
use jobq_tests::measured::{Measured, arguments};

const USAGE: &str = "cargo bench -p jobq-cli --bench dashboard -- rabbitmq|sqlite";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(words) = arguments(USAGE) else { return Ok(()) };
    let store = Measured::with_management(&words[0]).await.context(USAGE)?;
    cost::run(&words[0], &store, &words).await
}
