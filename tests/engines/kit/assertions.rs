//! What a failed assertion says, by its whole text.

use jobq::testing::{Jobs, assert_enqueued, assert_published, refute_enqueued, refute_published};
use jobq::{BoxError, Event, JobId, State, job};
use serde::{Deserialize, Serialize};

use super::{Trace, text_of};

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

#[job(on = "user.*")]
async fn welcome(event: UserCreated, trace: State<Trace>) -> Result<(), BoxError> {
    trace.push(format!("welcome {}", event.user_id));
    Ok(())
}

#[job(retries = 1, delay = "1d")]
async fn invite(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id}: no route to {email}").into())
}

async fn enqueue(jobs: &Jobs, user_id: u64, email: &str, delay: &str) -> (JobId, u32) {
    let invite = Invite { user_id, email: email.to_owned() };
    (jobs.client().enqueue(invite).delay(delay).await.unwrap(), line!())
}

#[tokio::test]
async fn a_failure_shows_the_jobs_their_places_and_runs() {
    let jobs = Jobs::new().register::<Invite>().register::<Welcome>().state(Trace::default());
    let jobs = jobs.start().await;
    let (_, line) = enqueue(&jobs, 7, "ann@example.org", "0s").await;
    let _ = jobs.drain().await;
    enqueue(&jobs, 7, "ann@example.org", "2h").await;
    enqueue(&jobs, 8, "bob@example.com", "0s").await;
    jobs.client().publish_event(&UserCreated { user_id: 7 }).await.unwrap();
    let text = text_of(|| {
        assert_enqueued!(jobs, Invite { user_id: 7, email } if email.ends_with(".com"));
    });
    let place = format!("{}:{line}:20", file!());
    let expected = format!(
        r#"no enqueued job matches `Invite {{ user_id: 7, email }} if email.ends_with(".com")`

job `invite`:
  1. the guard `email.ends_with(".com")` is false
     {{"user_id":7,"email":"ann@example.org"}}
     enqueued at {place}; has run already: attempt 1 failed, to be retried after 1d
  2. the guard `email.ends_with(".com")` is false
     {{"user_id":7,"email":"ann@example.org"}}
     enqueued at {place}, due in 2h
  3. {{"user_id":8,"email":"bob@example.com"}}
     enqueued at {place}, due now
other jobs: `welcome` 1"#
    );
    assert_eq!(text, expected);
    // The first one has run.
    assert_enqueued!(jobs, 1, Invite { user_id: 7, .. });
    refute_enqueued!(jobs, Invite { user_id: 7, .. }, within = "1h");
    assert_enqueued!(jobs, 2, Invite { email: "ann@example.org" | "bob@example.com", .. });
}

#[tokio::test]
async fn events_and_their_jobs_are_asserted() {
    let jobs = Jobs::new().register::<Welcome>().state(Trace::default()).start().await;
    jobs.client().publish_event(&UserCreated { user_id: 7 }).await.unwrap();
    let line = line!() - 1;
    jobs.client().publish("order.paid", &17).delay("1h").await.unwrap();
    assert_published!(jobs, 1, UserCreated { user_id: 7 });
    assert_published!(jobs, "order.paid");
    refute_published!(jobs, UserCreated { user_id: 8 });
    assert_enqueued!(jobs, Welcome { event } if event.user_id == 7);
    let text = text_of(|| refute_published!(jobs, "user.created"));
    let place = format!("published at {}:{line}:19", file!());
    assert!(text.contains(&place), "{text}");
    let new = jobs.during(async {}).await;
    refute_published!(new, "user.created");
    refute_enqueued!(new, Welcome { .. });
}
