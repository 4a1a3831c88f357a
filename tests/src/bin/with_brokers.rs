//! Runs a command whose tests share private RabbitMQ nodes: `with_brokerss COMMAND [ARGUMENT]...`.

use std::env;
use std::process::{Command, ExitCode};

use jobq_tests::broker::SharedBrokers;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!(
            "with_brokers: the command to run is missing: with_brokers COMMAND [ARGUMENT]..."
        );
        return ExitCode::from(2);
    };
    let brokers = SharedBrokers::start().await;
    let (name, value) = brokers.variable();
    match Command::new(&program).args(words).env(name, value).status() {
        // A command that a signal ended has no code.
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("with_brokers: {} cannot be run: {error}", program.display());
            ExitCode::from(2)
        }
    }
}
