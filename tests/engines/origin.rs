//! Which program enqueued a job.

use jobq::{BoxError, Client, JobContext, State, WorkerPool, abort, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

both_engines!(a_job_says_which_program_enqueued_it);

type Programs = UnboundedSender<Option<String>>;

#[job(retries = 0)]
async fn report(found: State<Programs>, ctx: JobContext) -> Result<(), BoxError> {
    found.send(ctx.enqueued_by().map(str::to_owned))?;
    Err(abort("that was all").into())
}

#[job(on = "user.created")]
async fn greet(user: u64, found: State<Programs>, ctx: JobContext) -> Result<(), BoxError> {
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
    let (found, mut programs) = unbounded_channel::<Option<String>>();
    let pool = WorkerPool::new(&client).state(found).register::<Report>().register::<Greet>();
    let running = pool.spawn().await.unwrap();
    let named = |program: &str| Some(Some(program.to_owned()));
    client.enqueue(Report {}).await.unwrap();
    assert_eq!(soon("a job", programs.recv()).await, named("shop-web"));
    let other = client_of(&store, "shop-cli").await;
    other.enqueue_all([Report {}]).await.unwrap();
    assert_eq!(soon("a job of many", programs.recv()).await, named("shop-cli"));
    other.publish("user.created", &7).await.unwrap();
    assert_eq!(soon("an event", programs.recv()).await, named("shop-cli"));
    let unnamed = store.client().await;
    unnamed.enqueue(Report {}).await.unwrap();
    let executable = std::env::current_exe().unwrap();
    let executable = executable.file_stem().unwrap().to_str().unwrap();
    assert_eq!(soon("a job", programs.recv()).await, named(executable));

    let failed = client.failed("report");
    let failed =
        until("all to fail", async || failed.list(9).await.ok().filter(|failed| failed.len() == 3));
    let failed = failed.await;
    for (job, program) in failed.iter().zip(["shop-web", "shop-cli", executable]) {
        assert_eq!(job.enqueued_by(), Some(program));
    }
    client.failed("report").retry(failed[1].id()).await.unwrap();
    assert_eq!(soon("the retry of a failed job", programs.recv()).await, named("shop-cli"));
    running.shutdown().await.unwrap();
}
