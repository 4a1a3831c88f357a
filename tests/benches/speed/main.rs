//! What jobq costs beside `lapin` and SQLite themselves.
//!
//! ```sh
//! cargo bench -p jobq-tests --bench speed -- pairs [--engine rabbitmq|sqlite|both] [--scenario all] [--pairs 5] [--scale 1] [--root <of another RabbitMQ>]
//! cargo bench -p jobq-tests --bench speed -- instructions [--check]
//! cargo bench -p jobq-tests --bench speed -- growth [--rounds 3] [--quick] [--plots .]
//! cargo bench -p jobq-tests --bench speed -- report [--pairs 5] [--scale 1] [--rounds 3] [--quick] [--to docs] [--newer <root>]
//! cargo bench -p jobq-tests --bench speed -- one <engine> <scenario> <side> <url> <jobs> [--types 1] [--bytes 100] [--concurrency 100] [--backlog 0]
//! ```
//!
//! `pairs` runs each scenario on all sides in turn, each time in a process of its own, and
//! prints the ratios: beside the library with the guarantees of jobq, and on RabbitMQ beside plain
//! `lapin` with bare payloads, too, which shows what a job's message costs whoever sends it. `instructions` counts instructions and allocations
//! a job under valgrind; with `--check` it fails where jobq takes more than it may. `growth` has
//! jobq alone handle more and more types, waiting jobs, bytes and jobs at once, and draws what a
//! job costs. `report` does all three, with the pairs on another RabbitMQ, too, where its root
//! is stated, and writes `docs/performance.md`; `--quick` is for trying. `one` is a process of
//! these: it prints what it measured as one line of JSON, and can be run under a profiler. The
//! jobs that `drain` and `retry` run must be there: `one .. enqueue_all ..` puts them. Its
//! options are for jobq. Progress goes to standard
//! error, tables in Markdown to standard output.

mod callgrind;
mod case;
mod gauge;
mod goal;
mod growth;
mod instructions;
mod jobs;
mod kinds;
mod own;
mod pairs;
mod plot;
mod process;
mod raw;
mod report;
mod sample;
mod scenario;

#[path = "../delays/options.rs"]
mod options;

use anyhow::bail;
use jobq_tests::measured::arguments;

use self::case::Case;
use self::options::Options;
use self::sample::Sample;
use self::scenario::{Engine, Side};

const USAGE: &str = "cargo bench -p jobq-tests --bench speed -- <part> [options]
  pairs  [--engine rabbitmq|sqlite|both] [--scenario all] [--pairs 5] [--scale 1] [--root <of another RabbitMQ>]
  instructions [--check]
  growth [--rounds 3] [--quick] [--plots .]
  report [--pairs 5] [--scale 1] [--rounds 3] [--quick] [--to docs] [--newer <root>]
  one    <rabbitmq|sqlite> <scenario> <equal|bare|jobq> <url> <jobs> [--types 1] [--bytes 100] [--concurrency 100] [--backlog 0]";

fn main() -> anyhow::Result<()> {
    let Some(mut words) = arguments(USAGE) else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let part = words.remove(0);
    match part.as_str() {
        "pairs" => runtime.block_on(pairs::run(Options::parse(words)?)),
        "instructions" => runtime.block_on(instructions::run(Options::parse(words)?)),
        "growth" => runtime.block_on(growth::run(Options::parse(words)?)),
        "report" => runtime.block_on(report::run(Options::parse(words)?)),
        "one" => {
            let sample = runtime.block_on(one(&words))?;
            println!("{}", serde_json::to_string(&sample)?);
            Ok(())
        }
        _ => bail!("there is no part `{part}`\n{USAGE}"),
    }
}

async fn one(words: &[String]) -> anyhow::Result<Sample> {
    let (case, url) = Case::parse(words)?;
    match (case.side, case.engine) {
        (Side::Jobq, _) => own::run(&case, url).await,
        (Side::Equal | Side::Bare, Engine::RabbitMq) => raw::rabbitmq::run(&case, url).await,
        (Side::Equal, Engine::Sqlite) => raw::sqlite::run(&case, url).await,
        (Side::Bare, Engine::Sqlite) => bail!("SQLite has no bare messages"),
    }
}
