use axum::http::StatusCode;
use jobq::JobId;
use jobq_dashboard::{Access, Action};

use crate::kit::{Greet, Kit, Wait, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_resumed() {
    let kit = Kit::new().await;
    kit.client.declare::<Greet>().await.unwrap();
    let paused = kit.post("/queues/mail/pause", "why=upgrade+%3Cb%3E").await;
    assert_eq!((paused.status, paused.header("location")), (StatusCode::SEE_OTHER, "/queues/mail"));
    let page = kit.get("/queues/mail").await.text;
    assert!(page.contains("paused by ann") && page.contains("upgrade &#60;b&#62;"), "{page}");
    assert!(kit.get("/activity").await.text.contains("no pool takes its jobs any more"));
    let long = kit.post("/queues/mail/pause", &format!("why={}", "x".repeat(501))).await;
    long.says(StatusCode::BAD_REQUEST, "the reason of a pause has 501 characters");
    let resumed = kit.post("/queues/mail/resume", "").await;
    assert_eq!(resumed.header("location"), "/queues/mail");
    assert!(!kit.get("/queues/mail").await.text.contains("paused by ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slots_of_a_queue_are_changed() {
    let kit = Kit::new().await;
    let pool = jobq::WorkerPool::new(&kit.client).register::<Greet>().spawn().await.unwrap();
    kit.sees("/queues/mail", "action=\"/queues/mail/slots\"").await;
    let set = kit.post("/queues/mail/slots", "slots=3").await;
    assert_eq!((set.status, set.header("location")), (StatusCode::SEE_OTHER, "/queues/mail"));
    kit.sees("/queues/mail", "0 of 3").await;
    assert!(
        kit.get("/activity").await.text.contains("jobs at once in each pool: 3 (pools changed: 1)")
    );
    for wrong in ["", "slots=0", "slots=many", "slots=65536"] {
        let refused = kit.post("/queues/mail/slots", wrong).await;
        refused.says(StatusCode::BAD_REQUEST, "a whole number from 1 to 65535");
    }
    pool.shutdown().await.unwrap();
}

/// The page of all queues, when it has the queue of greetings.
async fn queues(kit: &Kit, path: &str) -> String {
    kit.sees(path, "id=\"q-mail\"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_resumed_among_all() {
    let kit = Kit::new().await;
    kit.client.declare::<Greet>().await.unwrap();
    // A button of the form that searches, so that the search and the order stay.
    let button = |action: &str| {
        format!(
            "<button form=\"choice\" formmethod=\"post\" formaction=\"/queues/mail/{action}\" \
             name=\"back\" value=\"queues\">"
        )
    };
    let offers = |page: &str| ["pause", "resume"].map(|action| page.contains(&button(action)));
    assert_eq!(offers(&queues(&kit, "/").await), [true, false]);
    let paused = kit.post("/queues/mail/pause", "back=queues&find=m%26+a&sort=ready").await;
    assert_eq!(paused.header("location"), "/?find=m%26%20a&sort=ready#q-mail");
    let page = queues(&kit, "/?find=ma&sort=ready").await;
    assert!(page.contains("id=\"choice\"") && page.contains("by ann"), "{page}");
    assert_eq!(offers(&page), [false, true]);
    let resumed = kit.post("/queues/mail/resume", "back=queues").await;
    assert_eq!(resumed.header("location"), "/#q-mail");
    assert_eq!(offers(&queues(&kit, "/").await), [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_run_paused_resumed_and_removed() {
    let kit = Kit::new().await;
    let job = || Greet { error: String::new(), secret: "s3cr3t".to_owned() };
    let schedule = kit.client.schedule("night-7", job()).cron("30 2 * * *").zone("Europe/Berlin");
    schedule.await.unwrap();
    let page = kit.get("/schedules").await.text;
    let next = page.matches(":30:00 (+0").count();
    assert!(page.contains("30 2 * * * (Europe/Berlin)") && next == 10, "{next}: {page}");
    assert!(!page.contains("s3cr3t"), "{page}");

    let run = kit.post("/schedules/mail/night-7/run", "").await;
    assert_eq!((run.status, run.header("location")), (StatusCode::SEE_OTHER, "/schedules"));
    let paused = kit.post("/schedules/mail/night-7/pause", "").await;
    assert_eq!(paused.status, StatusCode::SEE_OTHER, "{paused:?}");
    let page = kit.sees("/schedules", "by ann").await;
    assert!(page.contains("/schedules/mail/night-7/resume"), "{page}");
    kit.post("/schedules/mail/night-7/resume", "").await;
    kit.sees("/schedules", "/schedules/mail/night-7/pause").await;
    let pool = jobq::WorkerPool::new(&kit.client).register::<Greet>().spawn().await.unwrap();
    // The job was requested while no pool ran.
    until("the job", async || {
        let pools = kit.client.admin().overview(jobq::admin::Queues::one("mail")).await.ok()?;
        (pools.queues[0].completed == 1).then_some(())
    })
    .await;
    kit.post("/schedules/mail/night-7/remove", "").await;
    kit.sees("/schedules", "No schedules.").await;
    pool.shutdown().await.unwrap();
    kit.post("/schedules/mail/night-7/run", "").await.says(StatusCode::NOT_FOUND, "night-7");
    let activity = kit.get("/activity").await.text;
    assert!(activity.contains("schedule night-7 of mail"), "{activity}");

    let reader = Kit::with(|dashboard| dashboard, Access::Only(vec![Action::Pause])).await;
    let refused = reader.post("/schedules/mail/night-7/remove", "").await;
    refused.says(StatusCode::FORBIDDEN, "Schedules");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_enqueued_with_its_exact_payload() {
    let kit = Kit::new().await;
    let form =
        "job=greet&delay=1h&payload=%7B%22error%22:%22no%22,%22n%22:123456789012345678901234%7D";
    assert_eq!(kit.post("/queues/mail/enqueue", form).await.status, StatusCode::SEE_OTHER);
    assert_eq!(kit.client.counts("mail").await.unwrap().waiting, 1);
    for (form, part) in [
        ("job=greet&payload=no", "not valid JSON"),
        ("payload=1", "name of the job is missing"),
        ("job=greet&payload=1&delay=soon", "soon"),
    ] {
        kit.post("/queues/mail/enqueue", form).await.says(StatusCode::BAD_REQUEST, part);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_are_retried_by_filter_and_by_id() {
    let kit = Kit::new().await;
    let first = kit.failed("connection refused").await;
    let second = kit.failed("no such customer").await;
    let ask = kit.get("/queues/mail/failed/retry?error=refused").await.text;
    assert!(ask.contains("Retry 1 failed jobs?") && ask.contains("error with `refused`"), "{ask}");
    let started = kit.post("/queues/mail/failed/retry", "error=refused&confirmed=yes").await;
    assert!(kit.ended(&started).await.contains("The job was retried."));
    assert!(kit.client.failed("mail").show(first).await.is_err());
    let started = kit.post("/queues/mail/failed/retry", &format!("id={second}")).await;
    kit.ended(&started).await;
    assert_eq!(kit.client.counts("mail").await.unwrap().ready, 2);
    let activity = kit.get("/activity").await.text;
    assert!(activity.contains("mail: error with `refused`"), "{activity}");
    let long = format!("error={}", "x".repeat(1_000_000));
    kit.ended(&kit.post("/queues/mail/failed/retry", &long).await).await;
    let activity = kit.get("/activity").await.text;
    assert!(activity.len() < 10_000 && activity.contains("xxx…"), "{}", activity.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_are_discarded_only_after_a_confirmation() {
    let kit = Kit::new().await;
    let id = kit.failed("no").await;
    let asked = kit.post("/queues/mail/failed/discard", &format!("id={id}")).await;
    let question = asked.header("location").to_owned();
    assert!(question.starts_with("/queues/mail/failed/discard?id="), "{question}");
    assert!(kit.get(&question).await.text.contains("This cannot be undone."));
    assert!(kit.client.failed("mail").show(id).await.is_ok());
    let started = kit.post("/queues/mail/failed/discard", &format!("id={id}&confirmed=yes")).await;
    assert!(kit.ended(&started).await.contains("The job was discarded."));
    assert!(kit.client.failed("mail").show(id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_of_none_is_not_all() {
    let kit = Kit::new().await;
    let id = kit.failed("no").await;
    assert!(kit.get("/queues/mail/failed").await.text.contains("name=\"selected\""));
    for action in ["retry", "discard"] {
        let path = format!("/queues/mail/failed/{action}");
        for answer in [
            kit.get(&format!("{path}?selected=yes")).await,
            kit.post(&path, "selected=yes&confirmed=yes").await,
            kit.post(&path, "id=&confirmed=yes").await,
        ] {
            answer.says(StatusCode::BAD_REQUEST, "No job is selected");
        }
        let asked = kit.get(&format!("{path}?selected=yes&id={id}")).await;
        assert!(asked.text.contains("1 failed jobs?"), "{action}: {}", asked.text);
    }
    assert!(kit.client.failed("mail").show(id).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_fail_after_the_question_are_kept() {
    let kit = Kit::new().await;
    let first = kit.failed("one").await;
    let question = kit.get("/queues/mail/failed/discard").await.text;
    assert!(question.contains("Discard 1 failed jobs?"), "{question}");
    let extent = question.split("name=\"extent\" value=\"").nth(1).unwrap();
    let extent = extent.split('"').next().unwrap();
    let second = kit.failed("two").await;
    let form = format!("extent={extent}&confirmed=yes");
    let started = kit.post("/queues/mail/failed/discard", &form).await;
    assert!(kit.ended(&started).await.contains("The job was discarded."));
    let failed = kit.client.failed("mail");
    assert!(failed.show(first).await.is_err() && failed.show(second).await.is_ok());
}

/// An `until` that is still to come is no permission for what fails later.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_about_what_has_failed_by_now() {
    let kit = Kit::new().await;
    kit.failed("one").await;
    let question = kit.get("/queues/mail/failed/discard?until=2999-01-01T00:00").await.text;
    assert!(question.contains("Discard 1 failed jobs?"), "{question}");
    assert!(question.contains("name=\"extent\" value=\"1"), "{question}");
    let odd = kit.post("/queues/mail/failed/discard", "extent=all&confirmed=yes").await;
    odd.says(StatusCode::BAD_REQUEST, "is not a valid extent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_text_is_not_all_groups() {
    let kit = Kit::new().await;
    let (textless, other) = (kit.failed("\n").await, kit.failed("card declined").await);
    let page = kit.get("/queues/mail/failed").await.text;
    let group = page.split("(no text)").next().unwrap().rsplit("href=\"").next().unwrap();
    let query = group.split('"').next().unwrap().split_once('?').unwrap().1.replace("&#38;", "&");
    let question = kit.get(&format!("/queues/mail/failed/discard?{query}")).await.text;
    assert!(question.contains("Discard 1 failed jobs?"), "{query}: {question}");
    let form = format!("{query}&confirmed=yes");
    let started = kit.post("/queues/mail/failed/discard", &form).await;
    assert!(kit.ended(&started).await.contains("The job was discarded."));
    let failed = kit.client.failed("mail");
    assert!(failed.show(textless).await.is_err() && failed.show(other).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_without_its_value_is_refused() {
    let kit = Kit::new().await;
    let id = kit.failed("no").await;
    for (path, part) in [
        ("/queues/mail/failed?pointer=/user&value=", "is missing"),
        ("/queues/mail/failed/discard?pointer=/user", "is missing"),
    ] {
        kit.get(path).await.says(StatusCode::BAD_REQUEST, part);
    }
    for form in ["pointer=/user&confirmed=yes", "stop=1&confirmed=yes"] {
        let refused = kit.post("/queues/mail/failed/retry", form).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{form}");
    }
    assert!(kit.client.failed("mail").show(id).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_without_a_pool_changes_nothing_and_says_so() {
    let kit = Kit::new().await;
    let id = kit.failed("no").await;
    let started = kit.post("/queues/mail/failed/retry", "canary=1").await;
    let page = kit.ended(&started).await;
    assert!(page.contains("Nothing was changed: ") && page.contains("no pool"), "{page}");
    assert!(kit.client.failed("mail").show(id).await.is_ok());
    for form in ["canary=x", "rate=x", "rate=-1"] {
        let refused = kit.post("/queues/mail/failed/retry", form).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{form}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_fails_keeps_the_rest() {
    let kit = Kit::new().await;
    for _ in 0..3 {
        kit.failed("still broken").await;
    }
    let pool = kit.pool().await;
    let started = kit.post("/queues/mail/failed/retry", "canary=1").await;
    let page = kit.ended(&started).await;
    assert!(page.contains("these canaries failed"), "{page}");
    assert_eq!(kit.client.counts("mail").await.unwrap().failed, 3);
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_cancelled() {
    let kit = Kit::new().await;
    kit.failed("one").await;
    kit.failed("two").await;
    // One job in ten thousand seconds: it waits after the first.
    let started = kit.post("/queues/mail/failed/retry", "rate=0.0001").await;
    let path = started.header("location").to_owned();
    // No total is known while it runs.
    let page = kit.sees(&path, "1 retried, 1 match so far").await;
    assert!(page.contains("<progress id=\"done\"></progress>"), "{page}");
    let cancelled = kit.post(&format!("{path}/cancel"), "").await;
    assert_eq!(cancelled.header("location"), path);
    assert!(kit.ended(&started).await.contains("the operation was cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_take_orders_and_running_jobs_are_cancelled() {
    let kit = Kit::new().await;
    let pool = kit.pool().await;
    let id = kit.client.enqueue(Wait {}).await.unwrap();
    let page = kit.sees("/pools", &id.to_string()).await;
    let orders = page.split("action=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let quiet = orders.clone().find(|path| path.ends_with("/quiet")).unwrap().to_owned();
    let cancelled = kit.post(&format!("/running/{id}/cancel"), "").await;
    assert_eq!(cancelled.status, StatusCode::SEE_OTHER, "{}", cancelled.text);
    let failed =
        until("it has failed", async || kit.client.failed("slow").show(id).await.ok()).await;
    assert_eq!(failed.reason(), jobq::FailedReason::Cancelled);
    assert_eq!(kit.post(&quiet, "").await.status, StatusCode::SEE_OTHER);
    kit.sees("/pools", "quiet</span>").await;
    let stop = quiet.replace("/quiet", "/stop");
    let asked = kit.post(&stop, "").await;
    assert_eq!(asked.header("location"), stop);
    assert!(kit.get(&stop).await.text.contains("as on SIGTERM"));
    assert_eq!(kit.post(&stop, "confirmed=yes").await.status, StatusCode::SEE_OTHER);
    pool.wait().await.unwrap();
    let nobody = kit.post(&format!("/running/{}/cancel", JobId::new()), "").await;
    assert_eq!(nobody.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_access_does_not_include_is_refused_and_not_offered() {
    let id = JobId::new();
    let actions = [
        (Action::Pause, "/queues/mail/pause".to_owned(), "why=x"),
        (Action::Pause, "/queues/mail/resume".to_owned(), ""),
        (Action::Enqueue, "/queues/mail/enqueue".to_owned(), "job=greet&payload=1"),
        (Action::Retry, "/queues/mail/failed/retry".to_owned(), ""),
        (Action::Discard, "/queues/mail/failed/discard".to_owned(), "confirmed=yes"),
        (Action::Discard, "/queues/mail/failed/discard".to_owned(), ""),
        (Action::Pools, "/queues/mail/slots".to_owned(), "slots=2"),
        (Action::Pools, format!("/pools/{id}/quiet"), ""),
        (Action::Pools, format!("/pools/{id}/stop"), "confirmed=yes"),
        (Action::Pools, format!("/running/{id}/cancel"), ""),
    ];
    for access in
        [Access::Read, Access::Only(vec![Action::Pause]), Access::Only(vec![Action::Discard])]
    {
        let kit = Kit::with(|dashboard| dashboard, access.clone()).await;
        kit.failed("no").await;
        for (action, path, form) in &actions {
            let allowed = matches!(&access, Access::Only(actions) if actions.contains(action));
            let status = kit.post(path, form).await.status;
            assert_eq!(status == StatusCode::FORBIDDEN, !allowed, "{access:?} {path}: {status}");
        }
        let pages = [kit.get("/queues/mail").await.text, kit.get("/queues/mail/failed").await.text]
            .concat();
        let offers = |part: &str| pages.contains(part);
        let may_pause = access == Access::Only(vec![Action::Pause]);
        assert_eq!(offers("/pause\""), may_pause);
        assert_eq!(queues(&kit, "/").await.contains("/pause\""), may_pause);
        assert!(!offers("/enqueue\"") && !offers("Retry all"));
    }
}
