use jobq::testing::__private::Recorded;
use jobq::testing::assert_enqueued;
use jobq::{BoxError, job};

#[job]
async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id} {email}").into())
}

fn type_unknown(jobs: &impl Recorded) {
    assert_enqueued!(jobs, SendWelcom { .. });
    assert_enqueued!(jobs, SendWelcom);
    assert_enqueued!(jobs, send_welcome);
}

fn main() {}
