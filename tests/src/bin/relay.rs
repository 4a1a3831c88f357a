//! A relay as a process, to be killed.
//!
//! Arguments: URL, namespace, URL of the database.

use jobq::Client;
use jobq::relay::Relay;
use jobq_tokio_postgres::PgOutbox;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, namespace, database] = &arguments[..] else { panic!("{arguments:?}") };
    // Whatever is away at its start.
    let builder = Client::builder(url).namespace(namespace.as_str());
    let client = builder.connect_lazy().await.expect("its URL is one");
    let outbox = PgOutbox::lazy(database).expect("its URL is one");
    let relaying = Relay::new(&client, outbox).run_until(std::future::pending());
    relaying.await.expect("nobody closes the client");
}
