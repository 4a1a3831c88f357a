//! The signals that end a program.

use std::process::Command;

use jobq::{BoxError, State, WorkerPool, job};
use jobq_tests::on_a_file;
use jobq_tests::test_store::{Store, soon};
use tokio::sync::mpsc;

on_a_file!(each_signal_ends_a_pool_and_a_web_server);

#[job(queue = "signalled")]
async fn signalled(told: State<mpsc::UnboundedSender<()>>) -> Result<(), BoxError> {
    Ok(told.send(())?)
}

/// Sends this process a signal; each test is a process of its own.
fn send(signal: &str) {
    let pid = std::process::id().to_string();
    assert!(Command::new("kill").args([&format!("-{signal}"), &*pid]).status().unwrap().success());
}

async fn each_signal_ends_a_pool_and_a_web_server(store: Store) {
    let client = store.client().await;
    for signal in ["INT", "TERM", "HUP"] {
        let (tell, mut told) = mpsc::unbounded_channel::<()>();
        let server = jobq::shutdown_signal().unwrap();
        let pool = WorkerPool::new(&client).state(tell).register::<Signalled>();
        let pool = tokio::spawn(pool.run());
        client.enqueue(Signalled {}).await.unwrap();
        // The pool listens for signals before it takes jobs.
        soon("the job", told.recv()).await.unwrap();
        send(signal);
        soon("the pool's end", pool).await.unwrap().unwrap();
        // The signal came before the first poll.
        soon("the server's end", server).await;
    }
}
