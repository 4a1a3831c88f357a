//! What waiting costs.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench delays -- bases [--rounds 3] [--jobs 10000] [--from 2]
//! cargo bench -p jobq-tests --bench delays -- waiting --engine rabbitmq|sqlite [--jobs 1000000] [--over 1h]
//! ```
//!
//! `bases` sets the delay levels of `docs/delays.md` in base 2, 8 and 16 side by side, through
//! plain `lapin`; those from one base on with `--from`. `waiting` has many jobs wait, through jobq as its users call it, and measures
//! how late each of them starts. Both start their own broker, on the machine's RabbitMQ or on
//! the one in `JOBQ_TEST_BROKER_ROOT`. Progress goes to standard error, tables in Markdown to
//! standard output.

mod bases;
mod enqueueing;
mod lateness;
mod ledger;
mod levels;
mod options;
mod place;
mod table;
mod waiting;

use anyhow::bail;
use jobq_tests::measured::arguments;

use self::options::Options;

const USAGE: &str = "cargo bench -p jobq-tests --bench delays -- <part> [options]
  bases    [--rounds 3] [--jobs 10000] [--from 2]
  waiting  --engine rabbitmq|sqlite [--jobs 1000000] [--over 1h]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(mut words) = arguments(USAGE) else { return Ok(()) };
    let part = words.remove(0);
    let options = Options::parse(words)?;
    match part.as_str() {
        "bases" => bases::run(options).await,
        "waiting" => waiting::run(options).await,
        _ => bail!("there is no part `{part}`\n{USAGE}"),
    }
}
