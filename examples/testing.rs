//! Tests of a program with jobs: a sign-up that enqueues, a charge that is retried for three days,
//! an event with two subscribers, and a job that bears to run twice. No broker is needed, and no
//! test waits.
//!
//! ```text
//! cargo test --example testing
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use jobq::{BoxError, Client, Event, State, WorkerPool, job};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
    email: String,
}

/// The handler of a web request.
async fn sign_up(client: &Client, user_id: u64, email: &str) -> jobq::Result<()> {
    client.publish_event(&UserCreated { user_id, email: email.to_owned() }).await?;
    client.enqueue(Charge { user_id, cents: 999 }).delay("1h").await?;
    Ok(())
}

/// The services that the jobs use. A test has fakes.
#[derive(Clone, Default)]
struct Services {
    letters: Arc<Mutex<Vec<String>>>,
    charged: Arc<Mutex<BTreeSet<u64>>>,
    bank_is_closed: bool,
}

#[job(on = "user.created")]
async fn send_welcome(event: UserCreated, services: State<Services>) -> Result<(), BoxError> {
    services.letters.lock().await.push(event.email);
    Ok(())
}

#[job(on = "user.*")]
async fn index_user(event: UserCreated) -> Result<(), BoxError> {
    println!("user {} can be found", event.user_id);
    Ok(())
}

/// It may run twice, as every job may. A user is charged once.
#[job(retries = 3, delay = "1d")]
async fn charge(user_id: u64, cents: u64, services: State<Services>) -> Result<(), BoxError> {
    if services.bank_is_closed {
        return Err("the bank is closed".into());
    }
    if services.charged.lock().await.insert(user_id) {
        println!("user {user_id} pays {cents} cents");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> jobq::Result<()> {
    let client = Client::connect("sqlite::memory:").await?;
    let pool = WorkerPool::new(&client).state(Services::default());
    let pool = pool.register::<SendWelcome>().register::<IndexUser>().register::<Charge>();
    let running = pool.spawn().await?;
    sign_up(&client, 7, "ann@example.com").await?;
    running.shutdown().await
}

#[cfg(test)]
mod tests {
    use jobq::FailedReason;
    use jobq::testing::{Jobs, assert_enqueued, assert_published, refute_enqueued};

    use super::*;

    async fn shop(services: &Services) -> Jobs {
        let jobs = Jobs::new().state(services.clone());
        jobs.register::<SendWelcome>().register::<IndexUser>().register::<Charge>().start().await
    }

    #[tokio::test]
    async fn a_new_user_is_welcomed_at_once_and_charged_later() -> Result<(), BoxError> {
        let services = Services::default();
        let jobs = shop(&services).await;
        sign_up(jobs.client(), 7, "ann@example.com").await?;
        assert_published!(jobs, UserCreated { user_id: 7, email } if email.ends_with(".com"));
        assert_enqueued!(jobs, 1, Charge { user_id: 7, cents: 999 }, within = "1h");
        refute_enqueued!(jobs, Charge { .. }, within = "30m");
        jobs.drain().await.all_completed(); // the two subscribers
        assert_eq!(*services.letters.lock().await, ["ann@example.com"]);
        jobs.advance("1h").await.all_completed(); // the charge
        assert!(services.charged.lock().await.contains(&7));
        Ok(())
    }

    #[tokio::test]
    async fn a_charge_is_retried_for_three_days() -> Result<(), BoxError> {
        let jobs = shop(&Services { bank_is_closed: true, ..Services::default() }).await;
        jobs.client().enqueue(Charge { user_id: 7, cents: 999 }).await?;
        let ran = jobs.advance("2d 23h").await;
        assert_eq!(ran.of::<Charge>().count(), 3);
        assert!(jobs.failed::<Charge>().is_empty());
        jobs.advance("1h").await.of::<Charge>().next().expect("the last attempt");
        assert_eq!(jobs.failed::<Charge>()[0].reason(), FailedReason::Exhausted);
        Ok(())
    }

    #[tokio::test]
    async fn a_charge_that_comes_twice_is_made_once() -> Result<(), BoxError> {
        let services = Services::default();
        let jobs = shop(&services).await;
        let id = jobs.client().enqueue(Charge { user_id: 7, cents: 999 }).await?;
        jobs.deliver_twice(id).await.all_completed();
        assert_eq!(services.charged.lock().await.len(), 1);
        Ok(())
    }

    #[tokio::test]
    async fn the_last_attempt_says_that_the_bank_is_closed() {
        let jobs = shop(&Services { bank_is_closed: true, ..Services::default() }).await;
        let end = jobs.run(Charge { user_id: 7, cents: 999 }).attempt(4).await;
        assert_eq!(end.error(), Some("the bank is closed"));
        assert_eq!(end.failed_as(), Some(FailedReason::Exhausted));
    }
}
