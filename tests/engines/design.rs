//! A program as the design of jobq promises that it can be written, on both engines.

use std::time::Duration;

use jobq::{Client, FailedReason, Job, JobContext, JobId, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

both_engines!(a_service);

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("the address {0} does not exist")]
    NoAddress(String),
    #[error(transparent)]
    Control(#[from] jobq::Control),
}

/// Neither `Clone` nor `Debug`.
struct Mailer {
    sent: mpsc::UnboundedSender<String>,
}

impl Mailer {
    async fn send(&self, email: &str, text: &str) -> Result<(), MailError> {
        tokio::task::yield_now().await;
        if email == "nobody" {
            return Err(MailError::NoAddress(email.into()));
        }
        let _ = self.sent.send(format!("{email}: {text}"));
        Ok(())
    }
}

/// Emails a welcome letter.
#[job(retries = 3, delay = "100ms")]
async fn send_welcome(user_id: u64, email: String, mailer: State<Mailer>) -> Result<(), MailError> {
    mailer.send(&email, &format!("welcome {user_id}")).await
}

#[job(
    name = "mail.digest",
    queue = "mail",
    retries = 2,
    delay = exponential("100ms", max = "1s", factor = 2, jitter = 0.1),
    timeout = "2m",
    concurrency = 8,
    expires = "1h",
    payload = "Digest"
)]
async fn send_digest(
    email: String,
    #[serde(default)] weekly: bool,
    ctx: JobContext,
    mailer: State<Mailer>,
) -> Result<u32, MailError> {
    if ctx.attempt() < ctx.max_attempts() {
        return Err(jobq::retry_in(Duration::from_millis(100), "not yet"))?;
    }
    mailer.send(&email, &format!("digest, weekly: {weekly}")).await?;
    Ok(1)
}

#[job(queue = "mail")]
fn cleanup(mailer: State<Mailer>) -> std::io::Result<()> {
    mailer.sent.send("clean".into()).map_err(std::io::Error::other)
}

/// Declared alone, as a web service would.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = "images", delay = ["100ms", "200ms"])]
struct ResizeImage {
    image: u64,
}

async fn resize_image(
    mailer: State<Mailer>,
    job: ResizeImage,
    ctx: JobContext,
) -> anyhow::Result<()> {
    if job.image == 0 {
        return Err(jobq::abort(anyhow::anyhow!("there is no image 0")).into());
    }
    let follow_up = Cleanup {};
    ctx.client().enqueue(follow_up).await?;
    mailer.sent.send(format!("image {}", job.image))?;
    Ok(())
}

async fn a_service(store: Store) {
    let client: Client = Client::builder(&store.url)
        .namespace(&store.namespace)
        .connection_name("a service")
        .connect()
        .await
        .unwrap();
    client.declare::<SendWelcome>().await.unwrap();
    let (sent, mut letters) = mpsc::unbounded_channel();
    let pool = WorkerPool::new(&client)
        .state(Mailer { sent })
        .register::<SendWelcome>()
        .register::<Digest>()
        .register::<Cleanup>()
        .handle(resize_image)
        .concurrency(16)
        .shutdown_timeout(Duration::from_secs(30));
    let running = pool.spawn().await.unwrap();

    let ann = || "ann@example.com".to_owned();
    let id: JobId = client.enqueue(SendWelcome { user_id: 7, email: ann() }).await.unwrap();
    let mut next = async || soon("the next letter", letters.recv()).await.unwrap();
    assert_eq!(next().await, "ann@example.com: welcome 7");

    let digest = Digest { email: ann(), weekly: true };
    client.enqueue(digest).id(id).expires_in(Duration::from_secs(60)).await.unwrap();
    assert_eq!(next().await, "ann@example.com: digest, weekly: true");

    let images = [1, 2].map(|image| ResizeImage { image });
    let ids: Vec<JobId> = client.enqueue_all(images).await.unwrap();
    assert_eq!(ids.len(), 2);
    let mut seen = [next().await, next().await, next().await, next().await];
    seen.sort();
    assert_eq!(seen, ["clean", "clean", "image 1", "image 2"]);

    let id = client.enqueue(ResizeImage { image: 0 }).await.unwrap();
    let failed = client.failed("images");
    let job = until("a failed job", || async { failed.list(50).await.ok()?.pop() }).await;
    assert_eq!((job.id(), job.name(), job.attempts()), (id, "resize_image", 1));
    assert_eq!(job.payload(), serde_json::json!({ "image": 0 }));
    assert_eq!((job.error(), job.reason()), ("there is no image 0", FailedReason::Aborted));
    assert!(job.failed_at() >= job.enqueued_at());
    assert_eq!(failed.show(id).await.unwrap().id(), id);
    failed.discard(id).await.unwrap();
    assert_eq!(failed.purge().await.unwrap(), 0);

    client.enqueue(SendWelcome { user_id: 8, email: "nobody".into() }).await.unwrap();
    let failed = client.failed("send_welcome");
    let job = until("a failed job", || async { failed.list(50).await.ok()?.pop() }).await;
    assert_eq!((job.error(), job.attempts()), ("the address nobody does not exist", 4));
    assert_eq!(failed.retry_all().await.unwrap(), 1);
    until("it to fail again", || async { failed.list(50).await.ok()?.pop() }).await;

    running.shutdown().await.unwrap();
    let pool = WorkerPool::new(&client)
        .handle(resize_image)
        .state(Mailer { sent: mpsc::unbounded_channel().0 });
    pool.run_until(std::future::ready(())).await.unwrap();
}

#[tokio::test]
async fn a_job_function_is_called_in_a_unit_test() {
    let (sent, mut letters) = mpsc::unbounded_channel();
    let mailer = State(Mailer { sent });
    send_welcome(7, "bob".into(), mailer.clone()).await.unwrap();
    assert_eq!(letters.recv().await.unwrap(), "bob: welcome 7");
    let sent = send_digest("bob".into(), false, JobContext::for_test(), mailer.clone()).await;
    assert_eq!(sent.unwrap(), 1);
    cleanup(mailer).unwrap();
    let error = JobContext::for_test().client().enqueue(Cleanup {}).await.unwrap_err();
    assert!(error.to_string().contains("with_client"), "{error}");
}
