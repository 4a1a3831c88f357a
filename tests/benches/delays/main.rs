//! The cost of waiting: many jobs wait, through jobq as its users call it, and each tells how late
//! it starts.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench delays -- --engine rabbitmq|sqlite [--jobs 1000000] [--over 1h]
//! ```
//!
//! It starts its own broker, on the machine's RabbitMQ or on the one in `JOBQ_TEST_BROKER_ROOT`.
//! Progress goes to standard error, tables in Markdown to standard output.

mod enqueueing;
mod lateness;
mod ledger;
mod options;
mod place;
mod waiting;

use jobq_tests::measured::arguments;

use self::options::Options;

const USAGE: &str = "cargo bench -p jobq-tests --bench delays -- --engine rabbitmq|sqlite \
  [--jobs 1000000] [--over 1h]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match arguments(USAGE) {
        Some(words) => waiting::run(Options::parse(words)?).await,
        None => Ok(()),
    }
}
