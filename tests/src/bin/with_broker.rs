//! Runs a command that shares one private RabbitMQ node: `with_broker COMMAND [ARGUMENT]...`.
//!
//! The tests that the command runs find the node in a variable of their environment.

use std::env;
use std::process::{Command, ExitCode};

use jobq_tests::broker::{Broker, SHARED};

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("with_broker: the command to run is missing: with_broker COMMAND [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let broker = Broker::start().await;
    let node = serde_json::to_string(broker.node()).expect("a node can be written as JSON");
    match Command::new(&program).args(words).env(SHARED, node).status() {
        // A command that a signal ended has no code.
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("with_broker: {} cannot be run: {error}", program.display());
            ExitCode::from(2)
        }
    }
}
