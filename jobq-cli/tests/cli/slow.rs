//! Silent and slow clients of the servers of the command.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jobq_tests::test_store::{Step, Store, TestStore, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;

use crate::server::Server;

/// Below the time that a silent client has.
const AT_ONCE: Duration = Duration::from_secs(8);

/// A server that may open 256 files.
async fn server(store: &Store, command: &str) -> Server {
    let script = r#"ulimit -n 256 && exec "$0" "$@""#;
    let mut process = Command::new("sh");
    process.args(["-c", script, env!("CARGO_BIN_EXE_jobq"), command, "--listen", "127.0.0.1:0"]);
    process.args(["--namespace", &store.namespace]).env("JOBQ_URL", &store.url);
    process.stdin(Stdio::null()).kill_on_drop(true);
    Server::spawn(process).await
}

/// A client that sends this and waits.
async fn client(address: &str, sent: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(sent.as_bytes()).await.unwrap();
    client
}

/// Reads to the end of a connection, also to one that is reset.
async fn end(mut client: TcpStream) -> String {
    let mut all = Vec::new();
    let _ = soon("the end of a connection", client.read_to_end(&mut all)).await;
    String::from_utf8(all).unwrap()
}

async fn bears_slow_clients(store: &Store, command: &str, path: &str) {
    let server = server(store, command).await;
    let address = &*server.address;
    let parts = [
        String::new(),
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 9\r\n\r\nhalf"),
    ];
    let silent = join_all((0..300).map(|number| client(address, &parts[number % 3]))).await;
    // More than it may open: whoever asks is answered all the same.
    let (began, ask) = (Instant::now(), format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n"));
    let answer = end(client(address, &format!("{ask}Connection: close\r\n\r\n")).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{command}: {answer}");
    assert!(began.elapsed() < AT_ONCE, "{command}: {:?}", began.elapsed());

    // So it is when as many have had an answer, and keep their connections.
    let mut answered = Vec::new();
    for _ in 0..300 {
        let (began, mut client) = (Instant::now(), client(address, &format!("{ask}\r\n")).await);
        let mut first = [0; 12];
        soon("an answer", client.read_exact(&mut first)).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200", "{command}");
        assert!(began.elapsed() < AT_ONCE, "{command}: {:?}", began.elapsed());
        answered.push(client);
    }
    drop(answered);

    // One that is idle is closed, as all of the silent ones are.
    let idle = client(address, &format!("{ask}\r\n")).await;
    // So is one that takes no answers.
    let small = TcpSocket::new_v4().unwrap();
    small.set_recv_buffer_size(4_096).unwrap();
    let mut greedy = small.connect(address.parse().unwrap()).await.unwrap();
    let takes_nothing = async {
        let request = format!("{ask}\r\n").repeat(100);
        while greedy.write_all(request.as_bytes()).await.is_ok() {}
    };
    let (answers, idle, ()) =
        tokio::join!(join_all(silent.into_iter().map(end)), end(idle), async {
            soon("the end of one that takes nothing", takes_nothing).await;
        });
    assert!(idle.starts_with("HTTP/1.1 200"), "{command}: {idle}");
    assert!(answers.iter().all(|answer| !answer.contains(" 200 ")), "{command}: {answers:?}");
    let answer = end(client(address, &format!("{ask}Connection: close\r\n\r\n")).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{command}: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_lock_nobody_out() {
    let test = TestStore::on(Store::sqlite().await).await;
    test.enqueue([Step::Succeed]).await;
    tokio::join!(
        bears_slow_clients(&test.store, "dashboard", "/"),
        bears_slow_clients(&test.store, "metrics", "/metrics"),
    );
}
