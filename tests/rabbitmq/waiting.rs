//! The waiting jobs of queues whose tiers a client has not declared.

use std::time::Duration;

use jobq::admin::{Part, Place, QueueOverview, Queues, State};
use jobq::{BoxError, Client, ErrorKind, job};
use jobq_tests::broker::{namespace, shared, shared_with_ctl, shared_with_management};
use jobq_tests::test_store::{DEADLINE, until};

const HOUR: Duration = Duration::from_secs(3_600);

#[job(queue = "mail", retries = 1, delay = "1h")]
async fn letter() -> Result<(), BoxError> {
    Ok(())
}

#[job(queue = "mail", retries = 1, delay = "2h")]
async fn parcel() -> Result<(), BoxError> {
    Ok(())
}

async fn client(url: &str, namespace: &str, management: Option<&str>) -> Client {
    let mut builder = Client::builder(url).namespace(namespace).timeout(DEADLINE);
    if let Some(management) = management {
        builder = builder.management(management);
    }
    builder.connect().await.unwrap()
}

async fn mail(client: &Client) -> QueueOverview {
    let overview = client.admin().overview(Queues::one("mail")).await.unwrap();
    overview.queues.into_iter().next().unwrap()
}

/// Waits until a client knows of so many waiting jobs.
async fn wait_for(client: &Client, waiting: u64) {
    until("the waiting jobs", async || (mail(client).await.waiting == waiting).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_management_api_names_the_tiers_and_amqp_counts_them() {
    let test = "the_management_api_names_the_tiers_and_amqp_counts_them";
    let Some((node, management)) = shared_with_management(test).await else { return };
    let (url, namespace) = (node.url(), namespace());
    let program = client(&url, &namespace, None).await;
    program.enqueue(Letter {}).delay(HOUR).await.unwrap();
    program.enqueue(Parcel {}).delay(2 * HOUR).await.unwrap();
    program.enqueue(Parcel {}).delay(2 * HOUR).await.unwrap();
    program.enqueue(Parcel {}).await.unwrap();

    let operator = client(&url, &namespace, Some(management)).await;
    wait_for(&operator, 3).await;
    let found = mail(&operator).await;
    assert_eq!(found.ready, 1);
    let parts = found.parts.iter().filter(|part| part.place != Place::Solo).cloned();
    let expected = [
        Part::new(Place::Ready, 1),
        Part::new(Place::Tier(HOUR), 1),
        Part::new(Place::Tier(2 * HOUR), 2),
        Part::new(Place::Due, 0),
        Part::new(Place::Failed, 0),
    ];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
    let all = operator.admin().overview(Queues::All).await.unwrap();
    assert_eq!((all.queues.len(), &all.queues[0].waiting), (1, &3.into()));
    // The statistics of the management API are up to five seconds old.
    program.enqueue(Letter {}).delay(HOUR).await.unwrap();
    assert_eq!(mail(&operator).await.waiting, 4);

    // One that has declared one of the tiers knows of the others.
    let sender = client(&url, &namespace, Some(management)).await;
    sender.enqueue(Letter {}).await.unwrap();
    wait_for(&sender, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_management_api_the_waiting_jobs_are_unknown() {
    let (url, namespace) = (shared().await, namespace());
    client(&url, &namespace, None).await.enqueue(Letter {}).delay(HOUR).await.unwrap();
    let unreachable = Some("http://127.0.0.1:1");
    for (management, said) in
        [(None, "`--management`"), (unreachable, "cannot reach http://127.0.0.1:1")]
    {
        let operator = client(&url, &namespace, management).await;
        let mail = mail(&operator).await;
        let why = mail.waiting.why().unwrap();
        assert!(why.contains(said), "{why}");
        assert_eq!(mail.failed, 0);
        // What does not exist has no tiers.
        assert_eq!(operator.counts("nothing").await.unwrap().waiting, 0);
        // The client's own tiers are known all the same.
        operator.enqueue(Letter {}).await.unwrap();
        assert_eq!(operator.counts("mail").await.unwrap().waiting, 1);
    }
}

/// The levels hold jobs of all queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_in_the_levels_are_counted_for_all_queues_together() {
    let test = "jobs_in_the_levels_are_counted_for_all_queues_together";
    let Some((node, management)) = shared_with_management(test).await else { return };
    let (url, namespace) = (node.url(), namespace());
    let sender = client(&url, &namespace, None).await;
    sender.enqueue(Letter {}).await.unwrap();
    let operator = client(&url, &namespace, Some(management)).await;
    let stranger = client(&url, &namespace, None).await;
    assert_eq!(sender.counts("mail").await.unwrap().waiting, 0, "there are no levels");
    let overview = async |client: &Client| {
        let mut overview = client.admin().overview(Queues::one("mail")).await.unwrap();
        (overview.queues.remove(0).waiting, overview.in_levels)
    };
    let all = sender.admin().overview(Queues::one("mail")).await.unwrap();
    assert_eq!((all.in_levels, &all.queues[0].waiting), (0.into(), &0.into()));

    for delay in [HOUR / 2, 20 * HOUR] {
        sender.enqueue(Letter {}).delay(delay).await.unwrap();
    }
    // The list of the management API may be a moment old.
    until("the levels to be listed", async || (overview(&operator).await.1 == 2).then_some(()))
        .await;
    for client in [&sender, &operator] {
        // They belong to no single queue.
        assert_eq!(overview(client).await, (0.into(), 2.into()));
    }
    let (waiting, in_levels) = overview(&stranger).await;
    assert!(waiting.known().is_none() && in_levels.known().is_none(), "{waiting:?} {in_levels:?}");
    assert!(in_levels.why().unwrap().contains("`--management`"), "{in_levels:?}");

    // Where they are empty, each queue has its own figure again.
    let short = client(&url, &format!("{namespace}short"), None).await;
    short.enqueue(Letter {}).delay(Duration::from_millis(300)).await.unwrap();
    until("the levels to be empty", async || {
        (overview(&short).await == (0.into(), 0.into())).then_some(())
    })
    .await;
}

/// As a node of a cluster without a majority, which may show 0 jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_known_from_a_node_that_confirms_nothing() {
    let test = "nothing_is_known_from_a_node_that_confirms_nothing";
    let Some(node) = shared_with_ctl(test).await else { return };
    let (url, namespace) = (node.url(), namespace());
    let client = client(&url, &namespace, None).await;
    client.enqueue(Letter {}).await.unwrap();
    let look = async || {
        let mut overview = client.admin().overview(Queues::one("mail")).await.unwrap();
        (overview.queues.remove(0), overview.in_levels)
    };
    let (mail, in_levels) = look().await;
    assert_eq!((&mail.ready, &in_levels, mail.state), (&1.into(), &0.into(), State::Unattended));

    let probes = |call: &str| {
        format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, \
             <<\"{namespace}.probe\">>)), {{Name, _}} = amqqueue:get_pid(Q), sys:{call}(Name)."
        )
    };
    node.ctl(&["eval", &probes("suspend")]).await;
    // That of consumers comes first, and may be by an answer of a moment before.
    let (mail, in_levels) = until("the figures to be unknown", async || {
        let (mail, in_levels) = look().await;
        mail.unaccounted.known().is_none().then_some((mail, in_levels))
    })
    .await;
    for figure in [&mail.ready, &mail.waiting, &mail.failed, &in_levels] {
        let why = figure.why().unwrap_or_default();
        assert!(why.contains("confirms no message"), "{mail:?} {in_levels:?}");
    }
    let unaccounted = mail.unaccounted.why().unwrap_or_default();
    assert!(unaccounted.contains("confirms no message"), "{mail:?}");
    assert_eq!(mail.state, State::Unknown, "{mail:?}");
    // Asking harms nothing else of the connection.
    client.enqueue(Letter {}).await.unwrap();
    node.ctl(&["eval", &probes("resume")]).await;
    until("the jobs to be counted again", async || (look().await.0.ready == 2).then_some(())).await;
}

#[job(retries = 1, delay = "1h")]
async fn gone() -> Result<(), BoxError> {
    Ok(())
}

/// AMQP shows 0 messages in a tier whose jobs the broker has not passed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_goes_when_it_certainly_has_no_jobs() {
    let test = "a_subscriber_goes_when_it_certainly_has_no_jobs";
    let Some((node, management)) = shared_with_management(test).await else { return };
    let (url, namespace) = (node.url(), namespace());
    let plain = client(&url, &namespace, None).await;
    plain.declare::<Gone>().await.unwrap();
    let unreachable = client(&url, &namespace, Some("http://127.0.0.1:1")).await;
    for (client, said) in
        [(&plain, "JOBQ_MANAGEMENT_URL"), (&unreachable, "cannot reach http://127.0.0.1:1")]
    {
        let error = client.delete_subscriber::<Gone>().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
    }
    plain.enqueue(Gone {}).delay(HOUR).await.unwrap();
    let operator = client(&url, &namespace, Some(management)).await;
    until("the refusal for the job in the tier", async || {
        let error = operator.delete_subscriber::<Gone>().await.err()?;
        assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
        error.to_string().contains("1 waiting").then_some(())
    })
    .await;
    assert_eq!(plain.delete_subscriber::<Gone>().force().await.unwrap(), 1);
    // Its queues are counted some seconds after they were declared.
    plain.declare::<Gone>().await.unwrap();
    until("the deletion", async || operator.delete_subscriber::<Gone>().await.ok()).await;
}

/// Looking for a queue of the broker that does not exist costs a channel number, and the broker logs
/// it as an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_no_pool_has_declared_is_looked_at_without_errors() {
    let test = "a_queue_that_no_pool_has_declared_is_looked_at_without_errors";
    let Some((node, management)) = shared_with_management(test).await else { return };
    let (url, namespace) = (node.url(), namespace());
    client(&url, &namespace, None).await.enqueue(Letter {}).await.unwrap();
    let operator = client(&url, &namespace, Some(management)).await;
    until("the queue to be listed", async || {
        let overview = operator.admin().overview(Queues::All).await.unwrap();
        (overview.queues.len() == 1).then_some(())
    })
    .await;
    assert_eq!(operator.counts("nothing").await.unwrap().ready, 0);
    let error_of = |queue| format!("no queue '{namespace}:{queue}'");
    until("the error of another queue in the log", async || {
        node.log().contains(&error_of("nothing")).then_some(())
    })
    .await;
    assert!(!node.log().contains(&error_of("mail@solo")), "{}", node.log());
}
