//! Which program enqueued a job.

use jobq::{BoxError, Client, Job, JobContext, State, WorkerPool, abort, job};
use jobq_tests::both_engines;
use jobq_tests::seen::Seen;
use jobq_tests::stage::{DEADLINE, Scripted, Stage, Step, Store, soon, until};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

both_engines!(
    a_job_says_which_program_enqueued_it,
    a_job_of_two_crates_is_reported_once,
    an_origin_writes_no_line_of_the_log,
);

type Origins = UnboundedSender<Option<String>>;

#[job(retries = 0)]
async fn report(found: State<Origins>, ctx: JobContext) -> Result<(), BoxError> {
    found.send(ctx.enqueued_by().map(str::to_owned))?;
    Err(abort("that was all").into())
}

#[job(on = "user.created")]
async fn greet(user: u64, found: State<Origins>, ctx: JobContext) -> Result<(), BoxError> {
    assert_eq!(user, 7);
    found.send(ctx.enqueued_by().map(str::to_owned))?;
    Ok(())
}

async fn client_of(store: &Store, program: &str) -> Client {
    let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
    builder.program(program).connect().await.unwrap()
}

async fn a_job_says_which_program_enqueued_it(store: Store) {
    let client = client_of(&store, "shop-web").await;
    let (found, mut origins) = unbounded_channel::<Option<String>>();
    let pool = WorkerPool::new(&client).state(found).register::<Report>().register::<Greet>();
    let running = pool.spawn().await.unwrap();
    // The payload's type is of the crate of these tests.
    let in_crate = |program: &str| Some(Some(format!("{program} (engines)")));
    client.enqueue(Report {}).await.unwrap();
    assert_eq!(soon("a job", origins.recv()).await, in_crate("shop-web"));
    let other = client_of(&store, "shop-cli").await;
    other.enqueue_all([Report {}]).await.unwrap();
    assert_eq!(soon("a job of many", origins.recv()).await, in_crate("shop-cli"));
    other.publish("user.created", &7).await.unwrap();
    assert_eq!(soon("an event", origins.recv()).await, Some(Some("shop-cli".to_owned())));
    let unnamed = store.client().await;
    unnamed.enqueue(Report {}).await.unwrap();
    let executable = std::env::current_exe().unwrap();
    let executable = executable.file_stem().unwrap().to_str().unwrap();
    assert_eq!(soon("a job", origins.recv()).await, in_crate(executable));

    let failed = client.failed("report");
    let failed =
        until("all to fail", async || failed.list(9).await.ok().filter(|failed| failed.len() == 3));
    let failed = failed.await;
    let programs = ["shop-web", "shop-cli", executable];
    for (job, program) in failed.iter().zip(programs) {
        assert_eq!(Some(job.enqueued_by().map(str::to_owned)), in_crate(program));
    }
    client.failed("report").retry(failed[1].id()).await.unwrap();
    assert_eq!(soon("a job put back", origins.recv()).await, in_crate("shop-cli"));
    running.shutdown().await.unwrap();
}

/// A job of the same name as [`Scripted`], of another crate.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "scripted")]
struct Other {
    steps: Vec<Step>,
}

async fn a_job_of_two_crates_is_reported_once(store: Store) {
    let log = Seen::log();
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    for _ in 0..2 {
        stage.client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
        stage.end().await;
        assert!(log.lines(&["payload types of two crates"]).len() <= 1, "{}", log.text());
        stage.client.enqueue(Other { steps: vec![Step::Succeed] }).await.unwrap();
        stage.end().await;
        let [line] = &log.lines(&["payload types of two crates"])[..] else {
            panic!("{}", log.text())
        };
        for part in [" WARN ", "(jobq_tests)", "(engines)", "job=\"scripted\""] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    running.shutdown().await.unwrap();
}

async fn an_origin_writes_no_line_of_the_log(store: Store) {
    let log = Seen::log();
    let mut stage = Stage::on(store).await;
    let running = stage.pool().spawn().await.unwrap();
    stage.enqueue([Step::Succeed]).await;
    stage.end().await;
    let engine =
        jobq::engine::conformance::open(&stage.store.url, &stage.store.namespace).await.unwrap();
    engine.declare(&[jobq::engine::QueueSpec::new("scripted")]).await.unwrap();
    let mut forged = jobq::Envelope::new("scripted", br#"{"steps": ["Succeed"]}"#.to_vec());
    forged.name = Some("scripted".into());
    forged.enqueued_by = Some("web\nERROR all is lost (evil)".into());
    engine.push(forged).await.unwrap();
    stage.end().await;
    engine.close().await;
    running.shutdown().await.unwrap();
    let lines = log.lines(&["all is lost"]);
    assert!(lines.len() == 1 && lines[0].contains(" WARN "), "{}", log.text());
}
