use jobq::testing::__private::Recorded;
use jobq::testing::{assert_enqueued, refute_enqueued};
use jobq::{BoxError, job};

#[job]
async fn send_welcome(user_id: u64, email: Option<String>) -> Result<(), BoxError> {
    Err(format!("{user_id} {email:?}").into())
}

fn test(jobs: &impl Recorded) {
    let id = 7;
    let email = "ann@example.com";
    assert_enqueued!(jobs, SendWelcome { user_id: 7, email });
    assert_enqueued!(jobs, SendWelcome { user_id: id, email: Some(email) } if email.len() > 1);
    refute_enqueued!(jobs, SendWelcome { user_id: id, email: None } if id_of(7) == 7);
}

fn id_of(id: u64) -> u64 {
    id
}

fn main() {}
