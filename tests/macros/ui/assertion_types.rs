use jobq::testing::__private::Recorded;
use jobq::testing::{assert_enqueued, assert_published, refute_enqueued};
use jobq::{BoxError, Client, Job, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Resize(u64, Option<String>, bool);

fn elements_too_few(jobs: &impl Recorded) {
    assert_enqueued!(jobs, Resize(1..=7, Some("a.png")));
}

fn elements_too_many(jobs: &impl Recorded) {
    assert_enqueued!(jobs, Resize(7, None, true, 1));
}

#[job]
async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id} {email}").into())
}

fn field_no_text(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome { user_id: "7", .. });
    refute_enqueued!(jobs, SendWelcome { user_id: "7" | "8", email } if email.is_empty());
}

fn field_of_another_type(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome { user_id: 7, email: 7 });
    assert_enqueued!(jobs, SendWelcome { user_id: Some(7), email } if email.is_empty());
}

fn field_unknown(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome { user_id: 7, mail: "ann", .. });
    refute_enqueued!(jobs, SendWelcome { user_id: 7, mail: "ann" });
}

fn fields_missing(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome { user_id: 7 });
}

fn fields_of_a_name(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome);
}

fn guard_of_another_type(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcome { user_id, .. } if user_id > 6);
    refute_enqueued!(jobs, SendWelcome { user_id, .. } if *user_id);
}

fn jobs_of_another_type(client: &Client) {
    assert_enqueued!(client, SendWelcome { .. });
}

#[derive(Serialize, Deserialize)]
struct ResizeImage {
    image: u64,
}

fn no_event(jobs: &impl Recorded) {
    assert_published!(jobs, ResizeImage { image: 7 });
}

mod images {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Named(pub String);
}

fn no_job(jobs: &impl Recorded) {
    assert_enqueued!(jobs, ResizeImage { image: 7 });
    assert_enqueued!(jobs, images::Named(_));
}

fn main() {}
