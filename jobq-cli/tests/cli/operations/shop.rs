//! The shop of the page: three queues with what an operator has to find out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobq::{BoxError, Client, RunningPool, State, WorkerPool, job};
use jobq_tests::test_store::{DEADLINE, Store, until};

/// Mails that fail since their server is down, and those that fail since they have no address.
const UNSENT: u64 = 112;
const WITHOUT_ADDRESS: u64 = 3;
/// Reports that wait behind one that does not end.
const LATE_REPORTS: u32 = 5;
/// Jobs of a queue on which no pool works.
const UNATTENDED: u32 = 20;

/// Whether the mail server answers.
#[derive(Debug, Clone, Default)]
struct MailServer(Arc<AtomicBool>);

/// Sends the confirmation of an order.
#[job(queue = "mail", retries = 1, delay = "200ms")]
async fn send_mail(
    order: u64,
    to: Option<String>,
    server: State<MailServer>,
) -> Result<(), BoxError> {
    if to.is_none() {
        return Err(jobq::abort(format!("order {order} has no address")).into());
    }
    if !server.0.load(Ordering::Relaxed) {
        return Err(format!("mail server 10.0.3.{}:25: connection refused", order % 3).into());
    }
    Ok(())
}

/// Builds the report of a month; the first one waits for a lock that nobody gives back.
#[job(queue = "reports")]
async fn build_report(month: u32) -> Result<(), BoxError> {
    if month == 1 {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// A client that does not name the executable of the test.
async fn client_of(store: &Store) -> Client {
    let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
    builder.program("shop-web").connect().await.unwrap()
}

/// Lets happen what the operator finds. The page shows the oldest failed job, so
/// the first mail fails before all others, and those without an address after them.
async fn trade(client: &Client) {
    for orders in [0..1, 1..UNSENT] {
        let mails = orders.end;
        for order in orders {
            let to = Some(format!("customer{order}@example.com"));
            client.enqueue(SendMail { order, to }).await.unwrap();
        }
        all_failed(client, mails).await;
    }
    for order in UNSENT..UNSENT + WITHOUT_ADDRESS {
        client.enqueue(SendMail { order, to: None }).await.unwrap();
    }
    for month in 1..=1 + LATE_REPORTS {
        client.enqueue(BuildReport { month }).await.unwrap();
    }
    for number in 0..UNATTENDED {
        let item = serde_json::json!({"shelf": number});
        client.enqueue_named("import_stock", "stock", &item).await.unwrap();
    }
    all_failed(client, UNSENT + WITHOUT_ADDRESS).await;
}

/// Waits until so many mails have failed.
async fn all_failed(client: &Client, mails: u64) {
    until("the mails to fail", async || {
        (client.counts("mail").await.ok()?.failed == mails).then_some(())
    })
    .await;
}

/// The running shop.
#[derive(Debug)]
pub(crate) struct Shop {
    server: MailServer,
    mail: RunningPool,
    reports: RunningPool,
}

impl Shop {
    pub(crate) async fn open(store: &Store) -> Self {
        let server = MailServer::default();
        let client = client_of(store).await;
        let mail = WorkerPool::new(&client).state(server.clone()).register::<SendMail>();
        let mail = mail.spawn().await.unwrap();
        // A pool on another machine.
        let elsewhere = client_of(store).await;
        let reports = WorkerPool::new(&elsewhere).register::<BuildReport>().concurrency(1);
        let reports = reports.spawn().await.unwrap();
        trade(&client).await;
        Self { server, mail, reports }
    }

    /// Does what the page says that somebody does without the command.
    pub(crate) fn direct(&self, direction: &str) {
        match direction {
            "the mail server is back" => self.server.0.store(true, Ordering::Relaxed),
            other => panic!("the shop knows no `{other}`"),
        }
    }

    pub(crate) async fn close(self) {
        self.mail.shutdown().await.unwrap();
        self.reports.shutdown().await.unwrap();
    }
}
