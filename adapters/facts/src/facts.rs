//! The facts.

use std::collections::BTreeMap;
use std::time::Duration;

use jobq::relay::RelayState;
use jobq::{Client, ErrorKind, JobContext, JobId, RunningPool};
use tokio::time::{sleep, timeout};

use crate::{Adapter, Answer, Database, Effects, End, Note, Step, Users};

/// A program: its database, its queue, and a pool with a relay.
struct Shop<A, D> {
    database: D,
    client: Client,
    pool: RunningPool,
    effects: Effects,
    adapter: A,
}

impl<A: Adapter<D>, D: Database> Shop<A, D> {
    async fn open() -> Self {
        let database = D::start();
        database.sql("CREATE TABLE orders (id bigint PRIMARY KEY)");
        let builder = Client::builder(database.engine()).program("shop");
        let client = builder.connect().await.expect("a file");
        let (pool, effects) = database.pool(&client).await;
        Self { adapter: A::connect(&database.url()).await, database, client, pool, effects }
    }

    async fn commit(&mut self, steps: Vec<Step>) -> Vec<Answer> {
        self.adapter.transaction(steps, End::Commit).await.expect("it commits")
    }

    fn note(&self, text: &str) -> jobq::Enqueue {
        self.client.enqueue(Note { text: text.to_owned() })
    }

    /// Waits until the table is empty.
    async fn relayed(&self) {
        let emptied = async {
            while self.database.sql("SELECT count(*) FROM jobq_outbox") != "0" {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(60), emptied).await.expect("the relay sends all");
    }

    /// Ends the pool, whose relay works, if it has one. That tells so after its first turn, of which a job may have run.
    async fn close(self) {
        let is_sending = || {
            let health = self.pool.health();
            health.relays.iter().all(|relay| matches!(relay.state, RelayState::Sending))
        };
        let working = async {
            while !is_sending() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let working = timeout(Duration::from_secs(60), working).await;
        assert!(working.is_ok(), "{:?}", self.pool.health());
        self.pool.shutdown().await.expect("the pool ends");
    }
}

fn ids(answer: &Answer) -> &[JobId] {
    let Answer::Ids(ids) = answer else { panic!("{answer:?}") };
    ids
}

/// The job runs if and only if the row of the same transaction is there.
pub async fn what_commits_runs_and_what_is_rolled_back_does_not<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    for (order, end) in [(1, End::Rollback), (2, End::Commit), (3, End::Rollback), (4, End::Commit)]
    {
        let insert = Step::Sql(format!("INSERT INTO orders VALUES ({order})"));
        let steps = vec![insert, Step::Enqueue(shop.note(&order.to_string()))];
        shop.adapter.transaction(steps, end).await.expect("each step is valid");
    }
    let ran: Vec<_> = shop.effects.until(2).await.into_iter().map(|effect| effect.text).collect();
    shop.relayed().await;
    assert_eq!(ran, ["2", "4"]);
    assert_eq!(shop.database.sql("SELECT id FROM orders ORDER BY id"), "2\n4");
    assert_eq!(shop.effects.all().len(), 2);
    shop.close().await;
}

/// Id, header, delay and program of the call are those of the job.
pub async fn options_pass_the_table<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    let id = JobId::of_key("order-7");
    let delayed = shop.note("delayed").id(id).delay("1500ms").header("tenant", "acme");
    let payload = BTreeMap::from([("text", "named")]);
    let named = shop.client.enqueue_named("note", "notes", &payload);
    let answers = shop.commit(vec![Step::Enqueue(delayed), Step::EnqueueNamed(named)]).await;
    let effects = shop.effects.until(2).await;
    let [named, delayed] = &*effects else { panic!("{effects:?}") };
    assert_eq!((&*named.text, ids(&answers[1])), ("named", &[named.id][..]));
    assert_eq!(named.enqueued_by.as_deref(), Some("shop"));
    assert_eq!((&*delayed.text, delayed.id, ids(&answers[0])), ("delayed", id, &[id][..]));
    assert_eq!(delayed.tenant.as_deref(), Some("acme"));
    assert!(delayed.started >= delayed.due, "{delayed:?}");
    assert!(delayed.due > named.due + Duration::from_secs(1), "{effects:?}");
    shop.close().await;
}

/// An event is published after the commit.
pub async fn events_reach_their_subscribers<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    let event = |text: &str| shop.client.publish("shop.opened", text).header("tenant", "acme");
    let (lost, event) = (Step::Publish(event("lost")), Step::Publish(event("opened")));
    shop.adapter.transaction(vec![lost], End::Rollback).await.expect("it is valid");
    let answers = shop.commit(vec![event]).await;
    let effects = shop.effects.until(1).await;
    let [opened] = &*effects else { panic!("{effects:?}") };
    assert_eq!((&*opened.text, ids(&answers[0])), ("opened", &[opened.id][..]));
    assert_eq!(opened.topic.as_deref(), Some("shop.opened"));
    assert_eq!(opened.tenant.as_deref(), Some("acme"));
    shop.close().await;
}

/// The jobs of one transaction are enqueued in their order.
pub async fn many_jobs_keep_their_order<A: Adapter<D>, D: Database>() {
    const JOBS: usize = 1_200;
    let mut shop = Shop::<A, D>::open().await;
    let jobs = (0..JOBS).map(|number| Note { text: number.to_string() });
    let answers = shop.commit(vec![Step::EnqueueAll(shop.client.enqueue_all(jobs))]).await;
    let effects = shop.effects.until(JOBS).await;
    let found: Vec<_> = effects.iter().map(|effect| effect.id).collect();
    assert_eq!(ids(&answers[0]), found);
    assert!(effects.iter().enumerate().all(|(number, effect)| effect.text == number.to_string()));
    shop.close().await;
}

/// A mistake of the call is found before the database is asked.
pub async fn an_invalid_job_leaves_the_transaction_usable<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    let large = "x".repeat(jobq::MAX_PAYLOAD + 1);
    let steps = vec![
        Step::Refused(shop.note(&large)),
        Step::Refused(shop.note("a").header("x-death", "1")),
        Step::Refused(shop.note("a").delay("soon")),
        Step::Refused(shop.note("a").timeout("1s")),
        Step::Enqueue(shop.note("valid")),
    ];
    let answers = shop.commit(steps).await;
    let expected = ["the payload of job", "not a valid header name", "soon", "it has no timeout"];
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(matches!(answer, Answer::Refused(text) if text.contains(expected)), "{answer:?}");
    }
    assert_eq!(shop.effects.until(1).await[0].text, "valid");
    shop.close().await;
}

/// A mark and its effect commit together, for each step and each job.
pub async fn a_step_is_done_once<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    let job = JobContext::for_test();
    let other = JobContext::for_test();
    let once = |ctx: &JobContext, step| Step::Once(ctx.clone(), step);
    let lost = vec![once(&job, "pay")];
    let answers = shop.adapter.transaction(lost, End::Rollback).await.expect("it is valid");
    assert_eq!(answers, [Answer::IsFirst(true)]);
    for (ctx, step, is_first) in [
        (&job, "pay", true),
        (&job, "pay", false),
        (&job, "ship", true),
        (&other, "pay", true),
        (&other, "pay", false),
    ] {
        let answers = shop.commit(vec![once(ctx, step)]).await;
        assert_eq!(answers, [Answer::IsFirst(is_first)], "{} {step}", ctx.id());
    }
    let bad = shop.adapter.transaction(vec![once(&job, "")], End::Rollback).await;
    assert!(bad.is_err_and(|error| error.is_invalid()));
    shop.close().await;
}

/// The second one waits for the first.
pub async fn a_step_of_two_attempts_at_once_is_done_once<A: Adapter<D>, D: Database>() {
    let shop = Shop::<A, D>::open().await;
    let url = shop.database.url();
    let ctx = JobContext::for_test();
    let (mut first, mut second) = (A::connect(&url).await, A::connect(&url).await);
    for round in 0..20 {
        let order = round * 2;
        let run = |order: i32| {
            let insert = format!("INSERT INTO orders VALUES ({order})");
            let step: &'static str = Box::leak(format!("step-{round}").into_boxed_str());
            vec![Step::Once(ctx.clone(), step), Step::Sql(insert)]
        };
        let (one, two) = tokio::join!(
            first.transaction(run(order), End::Commit),
            second.transaction(run(order + 1), End::Commit),
        );
        let firsts = [one.expect("it commits"), two.expect("it commits")]
            .iter()
            .filter(|answers| answers[0] == Answer::IsFirst(true))
            .count();
        assert_eq!(firsts, 1, "round {round}");
    }
    shop.close().await;
}

/// Payloads and headers may have any characters.
pub async fn any_bytes_pass_the_table<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    let text = "NUL \0, quotes ' \" \\, ümlaut, \u{10FFFF}";
    let job = shop.note(text).header("tenant", text);
    shop.commit(vec![Step::Enqueue(job)]).await;
    let effects = shop.effects.until(1).await;
    assert_eq!((&*effects[0].text, effects[0].tenant.as_deref()), (text, Some(text)));
    shop.close().await;
}

/// The error says which migration to run.
pub async fn a_missing_table_is_named<A: Adapter<D>, D: Database>() {
    let mut shop = Shop::<A, D>::open().await;
    shop.relayed().await;
    shop.database.sql("ALTER TABLE jobq_outbox RENAME TO elsewhere");
    let steps = vec![Step::Enqueue(shop.note("a"))];
    let error = shop.adapter.transaction(steps, End::Commit).await.expect_err("there is no table");
    let text = error.to_string();
    assert!(text.contains("jobq_outbox") && text.contains("MIGRATION"), "{text}");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{text}");
    shop.database.sql("ALTER TABLE elsewhere RENAME TO jobq_outbox");
    shop.commit(vec![Step::Enqueue(shop.note("later"))]).await;
    assert_eq!(shop.effects.until(1).await[0].text, "later");
    shop.close().await;
}

/// The error says which right to grant.
pub async fn a_missing_right_is_named<A: Adapter<D>, D: Users>() {
    let shop = Shop::<A, D>::open().await;
    let mut clerk = A::connect(&shop.database.add_clerk()).await;
    let steps = vec![Step::Enqueue(shop.note("a"))];
    let error = clerk.transaction(steps, End::Commit).await.expect_err("it may not");
    let text = error.to_string();
    assert!(text.contains("INSERT on jobq_outbox"), "{text}");
    assert!(error.is_refused(), "{text}");
    shop.database.let_clerk_enqueue();
    let steps = vec![Step::Enqueue(shop.note("granted"))];
    clerk.transaction(steps, End::Commit).await.expect("it may now");
    assert_eq!(shop.effects.until(1).await[0].text, "granted");
    shop.close().await;
}
