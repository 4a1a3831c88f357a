//! A move as a process, to be killed.
//!
//! Arguments: URL of the source, URL of the target, namespace, and the URL of the management API of a source
//! that is a broker.

use std::future::pending;

use jobq::moving::Move;
use jobq::{Client, ClientBuilder};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [source, target, namespace, management @ ..] = &arguments[..] else {
        panic!("{arguments:?}")
    };
    let client = |url| Client::builder(url).namespace(namespace.as_str());
    let source = management.iter().fold(client(source), ClientBuilder::management);
    // A broker that is down is waited for by the next one.
    let Ok(source) = source.connect().await else { std::process::exit(1) };
    let Ok(target) = client(target).connect().await else { std::process::exit(1) };
    let Ok(moved) = Move::new(&source, &target).run_until(pending(), |_| {}).await else {
        std::process::exit(1)
    };
    std::process::exit(i32::from(moved.end.is_some()));
}
