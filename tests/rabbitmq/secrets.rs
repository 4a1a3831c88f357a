//! A password is in no log, no error and no `Debug`, whatever goes wrong.

use std::time::Duration;

use jobq::{BoxError, Client, ErrorKind, Secret, State, WorkerPool, job};
use jobq_tests::broker::Broker;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::test_store::{soon, until};
use tokio::sync::mpsc;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// With characters that a URL must encode, so that it has two forms.
const PASSWORD: &str = "s3kr1t/pa:ss@w0rd";
const ENCODED: &str = "s3kr1t%2Fpa%3Ass%40w0rd";
/// Its parts, whichever form they come from or are cut out of, and its bytes as numbers.
const TELLTALES: [&str; 3] = ["s3kr1t", "w0rd", "115, 51, 107, 114, 49, 116"];

#[job]
async fn greet(told: State<mpsc::UnboundedSender<()>>) -> Result<(), BoxError> {
    Ok(told.send(())?)
}

async fn runs_a_job(client: &Client, heard: &mut mpsc::UnboundedReceiver<()>) {
    until("a job to be accepted", async || client.enqueue(Greet {}).await.ok()).await;
    soon("a job to run", heard.recv()).await.expect("the pool runs");
}

/// What cannot connect says why, and is seen.
async fn refused(seen: &mut LogCapture, url: &str, kind: ErrorKind) {
    let builder = Client::builder(url);
    seen.debug(&builder);
    let error = builder.connect().await.expect_err("it cannot connect");
    assert_eq!(error.kind(), kind);
    seen.error(&error);
}

/// Its subscriber hears all that its process logs.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_shown_nowhere() {
    let mut seen = LogCapture::default();
    let writer = seen.clone();
    // Everything from everywhere, from other threads and from the libraries as well. There
    // is one exception, which jobq cannot hold: this module of lapin logs each frame at
    // TRACE, and with it the one by which the client logs in, the password as numbers.
    let all = Targets::new().with_default(LevelFilter::TRACE);
    let all = all.with_target("lapin::io_loop", LevelFilter::DEBUG);
    let log = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    tracing_subscriber::registry().with(log.with_filter(all)).init();

    for url in [
        format!("amqp:/ann:{ENCODED}@mq"),
        format!("http://ann:{ENCODED}@mq"),
        format!("ann:{ENCODED}@mq"),
        format!("amqp://ann:{PASSWORD}@mq"),
        format!("amqp://ann:{ENCODED}"),
        format!("amqp://ann:{ENCODED}@"),
        format!("amqp://ann:{ENCODED}@mq:port"),
        format!("amqp://ann:{ENCODED}@mq,,mq"),
        format!("amqp://ann:{ENCODED}@[::1]"),
        format!("amqp://ann%3A{ENCODED}%40mq"),
        format!("amqp://mq/?password={ENCODED}"),
        format!("amqps://ann:{ENCODED}@mq:0"),
    ] {
        refused(&mut seen, &url, ErrorKind::Invalid).await;
    }
    let nobody = format!("amqp://ann:{ENCODED}@127.0.0.1:1,127.0.0.1:2/shop");
    refused(&mut seen, &nobody, ErrorKind::Connection).await;

    let Some(node) = Broker::to_kill("a_password_is_shown_nowhere").await else {
        return;
    };
    let host = node.url().trim_start_matches("amqp://").to_owned();
    let url = format!("amqp://ann:{ENCODED}@{host}");
    refused(&mut seen, &url, ErrorKind::Refused).await;
    node.ctl(&["add_user", "ann", PASSWORD]).await;
    refused(&mut seen, &url, ErrorKind::Refused).await;
    node.ctl(&["set_permissions", "-p", "/", "ann", ".*", ".*", ".*"]).await;
    refused(&mut seen, &format!("{url}/nowhere"), ErrorKind::Refused).await;
    refused(&mut seen, &format!("amqps://ann:{ENCODED}@{host}"), ErrorKind::Connection).await;

    let engine = jobq::engine::conformance::open(&url, "other").await.expect("opens");
    let client = Client::builder(&url).timeout(Duration::from_secs(10)).connect().await;
    let client = client.expect("connects");
    let (told, mut heard) = mpsc::unbounded_channel::<()>();
    let pool = WorkerPool::new(&client).state(told).register::<Greet>();
    seen.debug(&pool);
    let pool = pool.spawn().await.expect("the pool starts");
    runs_a_job(&client, &mut heard).await;
    seen.debug(&(&engine, &client, &pool));

    let again = seen.count("connection restored");
    node.ctl(&["close_all_connections", "an operator's reasons"]).await;
    seen.once_more("connection restored", again).await;
    runs_a_job(&client, &mut heard).await;

    let failed = seen.count("reconnect failed");
    node.kill();
    seen.once_more("reconnect failed", failed).await;
    if let Err(error) = client.failed("greet").list(1).await {
        seen.error(&error);
    }
    seen.debug(&(&engine, &client, &pool));
    node.restart().await;
    runs_a_job(&client, &mut heard).await;

    // The password is no longer right when the connection comes back.
    node.ctl(&["change_password", "ann", "another"]).await;
    let refusals = seen.count("the broker refuses user `ann`");
    node.ctl(&["close_all_connections", "an operator's reasons"]).await;
    seen.once_more("the broker refuses user `ann`", refusals).await;
    node.ctl(&["change_password", "ann", PASSWORD]).await;
    runs_a_job(&client, &mut heard).await;
    pool.shutdown().await.expect("the pool ends");
    engine.close().await;

    // Open connections get the password again.
    let renewed = seen.count("credentials renewed");
    let source =
        || async { Ok(Secret::password("ann", PASSWORD).expires_in(Duration::from_secs(3))) };
    let builder = Client::builder(node.url()).credentials(source);
    seen.debug(&builder);
    let client = builder.connect().await.expect("connects");
    seen.once_more("credentials renewed", renewed).await;
    seen.debug(&client);
    client.close().await;

    let text = seen.text();
    for captured in ["connection lost", "TRACE lapin", "amqp://ann:***@127.0.0.1"] {
        assert!(text.contains(captured), "the test sees `{captured}`");
    }
    let is_telling = |line: &&str| TELLTALES.iter().any(|part| line.contains(part));
    let shown: Vec<_> = text.lines().filter(is_telling).collect();
    // Not the whole lines, or this test would show it.
    let begin = |line: &&str| line.chars().take(40).collect::<String>();
    let lines: Vec<_> = shown.iter().map(begin).collect();
    assert!(shown.is_empty(), "the lines that begin so: {lines:#?}");
}
