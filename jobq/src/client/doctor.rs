use super::{Client, JobKind};
use crate::awaitable::awaitable;
use crate::background;
use crate::engine::QueueSpec;
use crate::error::Result;
use crate::finding::Report;
use crate::job::{Job, check_name};

/// Connects to the broker or the file of this URL, looks for settings that weaken the guarantees of
/// jobq, and reports each with a remedy. It changes nothing.
///
/// It uses a client with the default settings, in the namespace `jobq`. If the environment variable
/// `JOBQ_MANAGEMENT_URL` is the URL of the broker's management API
/// ([`ClientBuilder::management`](crate::ClientBuilder::management)), it examines all queues of
/// that namespace. For another namespace, certificates, or queues by name, use [`Client::doctor`];
/// for the queues of a pool, [`WorkerPool::doctor`](crate::WorkerPool::doctor).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let report = jobq::doctor("sqlite::memory:").await?; // or amqp://user:password@host
/// println!("{report}");
/// for finding in report.findings() {
///     println!("{}: {}", finding.severity(), finding.what());
/// }
/// assert!(report.is_sound()); // nothing is an error
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`Client::connect`] and [`Client::doctor`].
pub async fn doctor(url: impl AsRef<str>) -> Result<Report> {
    let mut builder = Client::builder(url.as_ref());
    if url.as_ref().starts_with("amqp") {
        builder = builder.management_in_env()?;
    }
    let client = builder.connect().await?;
    let report = client.doctor().await;
    client.close().await;
    report
}

/// An examination of a client's broker or file, made by [`Client::doctor`]. Await it.
///
/// ```
/// # use jobq::{Client, job};
/// # #[job] async fn send_welcome(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let report = client.doctor().queue("mail").job::<SendWelcome>().await?;
/// assert!(report.is_sound());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is looked at until this is awaited"]
pub struct Doctor {
    client: Client,
    queues: Vec<QueueSpec>,
}

impl Doctor {
    pub(crate) fn new(client: Client, queues: Vec<QueueSpec>) -> Self {
        Self { client, queues }
    }

    /// Adds the queue of this name.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(QueueSpec::new(name));
        self
    }

    /// Adds the queue of this job, with its tiers.
    pub fn job<J: Job>(mut self) -> Self {
        self.queues.push(JobKind::of::<J>().spec());
        self
    }

    async fn examine(self) -> Result<Report> {
        self.queues.iter().try_for_each(|queue| check_name("queue", &queue.name))?;
        match self.client.engine().diagnose() {
            Some(diagnose) => background::call(diagnose.examine(&self.queues)).await,
            None => Ok(Report::unexamined()),
        }
    }
}

awaitable!(Doctor, DoctorFuture, Result<Report>, examine, "The future of a [`Doctor`].");
