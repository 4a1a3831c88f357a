//! Clients on any thread: with the program's runtime, with one that has no timers, or with none.

use std::process::Command;
use std::thread;

use futures_executor::block_on;
use jobq::{BoxError, Client, ErrorKind, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Store, soon};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

both_engines!(
    a_client_works_on_a_thread_without_a_runtime,
    a_program_without_timers_runs_jobs,
    a_pool_without_a_runtime_is_an_error,
    a_forked_process_is_told_so,
);

#[job(retries = 1, delay = "100ms")]
async fn greet(
    name: String,
    greeted: State<mpsc::UnboundedSender<String>>,
) -> Result<(), BoxError> {
    // In the program's runtime, as the job functions of the pool.
    tokio::spawn(async move { greeted.send(name) }).await??;
    Ok(())
}

fn greeting(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}

/// All that a client can be asked.
async fn use_all(url: String, namespace: String) -> jobq::Result<()> {
    let client = Client::builder(url).namespace(namespace).timeout(DEADLINE).connect().await?;
    client.declare::<Greet>().await?;
    client.enqueue(greeting("now")).await?;
    client.enqueue(greeting("later")).delay(std::time::Duration::from_millis(300)).await?;
    client.enqueue_all([greeting("one"), greeting("two")]).await.expect("all are accepted");
    client.publish("nobody.listens", &()).await?;
    client.counts("greet").await?;
    assert_eq!(client.failed("greet").list(1).await?.len(), 0);
    let error = client.failed("greet").retry(jobq::JobId::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        client.failed("greet").retry_all().await? + client.failed("greet").purge().await?,
        0
    );
    assert!(client.doctor().await?.is_sound());
    client.close().await;
    Ok(())
}

async fn a_client_works_on_a_thread_without_a_runtime(store: Store) {
    let (url, namespace) = (store.url.clone(), store.namespace.clone());
    let using = thread::spawn(move || block_on(use_all(url, namespace)));
    let joining = tokio::task::spawn_blocking(move || using.join());
    let used = soon("the thread", joining).await.unwrap();
    used.expect("nothing panics").expect("all is answered");
}

async fn a_program_without_timers_runs_jobs(store: Store) {
    let (url, namespace) = (store.url.clone(), store.namespace.clone());
    let running = thread::spawn(move || {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            use_all(url.clone(), namespace.clone()).await?;
            let builder = Client::builder(url).namespace(namespace).timeout(DEADLINE);
            let client = builder.connect().await?;
            let (greeted, mut names) = mpsc::unbounded_channel::<String>();
            let pool = WorkerPool::new(&client).state(greeted).register::<Greet>().spawn().await?;
            let mut greeted = Vec::new();
            while greeted.len() < 4 {
                greeted.push(names.recv().await.expect("the pool runs"));
            }
            greeted.sort();
            assert_eq!(greeted, ["later", "now", "one", "two"]);
            pool.shutdown().await
        })
    });
    let joining = tokio::task::spawn_blocking(move || running.join());
    let ran = soon("the program", joining).await.unwrap();
    ran.expect("nothing panics").expect("all jobs run");
}

async fn a_pool_without_a_runtime_is_an_error(store: Store) {
    let client = store.client().await;
    let (greeted, _names) = mpsc::unbounded_channel::<String>();
    let pool = WorkerPool::new(&client).state(greeted).register::<Greet>();
    let spawning = thread::spawn(move || block_on(pool.spawn()).map(|_| ()));
    let error = spawning.join().expect("nothing panics").unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains("no runtime is active here"), "{error}");
}

async fn a_forked_process_is_told_so(store: Store) {
    let mut forked = Command::new(env!("CARGO_BIN_EXE_forked"));
    forked.args([&store.url, &store.namespace]);
    let running = tokio::task::spawn_blocking(move || forked.output());
    let output = soon("both processes to end", running).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines.len(), lines.last()), (6, Some(&"closed")), "{said}");
    for line in &lines[..5] {
        assert!(line.contains("was forked from process"), "{said}");
    }
    let counts = store.client().await.counts("greet").await.unwrap();
    assert_eq!(counts.ready, 2);
}
