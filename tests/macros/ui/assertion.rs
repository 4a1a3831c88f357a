use jobq::testing::__private::Recorded;
use jobq::testing::{assert_enqueued, assert_published, refute_enqueued, refute_published};
use jobq::{BoxError, Event, job};
use serde::{Deserialize, Serialize};

#[job]
async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
    Err(format!("{user_id} {email}").into())
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
struct UserCreated {
    user_id: u64,
}

fn count_variable(jobs: &impl Recorded) {
    let count = 2;
    assert_enqueued!(jobs, count, SendWelcome { .. });
}

#[job]
async fn invite(user_id: u64, email: Option<String>) -> Result<(), BoxError> {
    Err(format!("{user_id} {email:?}").into())
}

fn name_unread(jobs: &impl Recorded) {
    let id = 7;
    let email = "ann@example.com";
    assert_enqueued!(jobs, Invite { user_id: 7, email });
    assert_enqueued!(jobs, Invite { user_id: id, email: Some(email) } if email.len() > 1);
    refute_enqueued!(jobs, Invite { user_id: id, email: None } if id_of(7) == 7);
}

fn id_of(id: u64) -> u64 {
    id
}

fn test(jobs: &impl Recorded) {
    // Alternatives.
    assert_enqueued!(jobs, SendWelcome { user_id: 7, .. } | SendWelcome { user_id: 8, .. });
    // Count alone.
    assert_enqueued!(jobs, 2);
    // Count behind.
    assert_enqueued!(jobs, SendWelcome { .. }, 2);
    // Count no whole number.
    assert_enqueued!(jobs, 99999999999999999999, SendWelcome { .. });
    assert_enqueued!(jobs, -1, SendWelcome { .. });
    assert_enqueued!(jobs, 2.0, SendWelcome { .. });
    assert_enqueued!(jobs, 2usize, SendWelcome { .. });
    // Count of refutation.
    refute_enqueued!(jobs, 1, SendWelcome { .. });
    // Count of refutation of event.
    refute_published!(jobs, 0, UserCreated { .. });
    refute_published!(jobs, 0, "user.created");
    // Count zero.
    assert_enqueued!(jobs, 0, SendWelcome { .. });
    // Field with call.
    assert_enqueued!(jobs, SendWelcome { user_id: 7, email: "ann".to_owned() });
    // Field with equals.
    assert_enqueued!(jobs, SendWelcome { user_id = 7, .. });
    // Guard missing.
    assert_enqueued!(jobs, SendWelcome { .. } if);
    assert_enqueued!(jobs, SendWelcome { .. } if, within = "10m");
    // Guard with let.
    assert_enqueued!(jobs, SendWelcome { email, .. } if let Some(_) = email.get(1..));
    refute_enqueued!(jobs, SendWelcome { email, .. } if true && let Some(_) = email.get(1..));
    // Job as text.
    assert_enqueued!(jobs, "send_welcome");
    // No arguments.
    assert_enqueued!();
    // No comma.
    assert_enqueued!(jobs 2, SendWelcome { .. });
    // No comma after count.
    assert_enqueued!(jobs, 2 SendWelcome { .. });
    // No jobs.
    assert_enqueued!(SendWelcome { .. });
    // No pattern.
    assert_enqueued!(jobs);
    assert_enqueued!(jobs,);
    // No type.
    assert_enqueued!(jobs, _);
    refute_enqueued!(jobs, (SendWelcome { .. }, _));
    refute_enqueued!(jobs, true);
    // Several mistakes.
    assert_enqueued!(jobs, 0, SendWelcome { .. }, within = 5);
    assert_enqueued!(jobs, 0, _, within = 5);
    // Too many arguments.
    assert_published!(jobs, UserCreated { .. }, UserCreated { .. });
    assert_published!(jobs, "user.created", "user.renamed");
    assert_published!(jobs, "user.created" if true);
    assert_published!(jobs, UserCreated { .. } else);
    // Topic pattern.
    assert_published!(jobs, "user.*");
    refute_published!(jobs, "");
    // Two patterns.
    assert_enqueued!(jobs, SendWelcome { .. }, SendWelcome { .. });
    // Within misspelt.
    assert_enqueued!(jobs, SendWelcome { .. }, whithin = "10m");
    // Within no period.
    assert_enqueued!(jobs, SendWelcome { .. }, within = "10 minutes");
    // Within number.
    assert_enqueued!(jobs, SendWelcome { .. }, within = 10);
    refute_enqueued!(jobs, SendWelcome { .. }, within = 10m);
    // Within of event.
    assert_published!(jobs, UserCreated { .. }, within = "10m");
    refute_published!(jobs, "user.created", within = "10m");
    // Within twice.
    assert_enqueued!(jobs, SendWelcome { .. }, within = "1m", within = "2m");
    // Within without comma.
    assert_enqueued!(jobs, SendWelcome { .. } within = "10m");
    // Within without value.
    assert_enqueued!(jobs, SendWelcome { .. }, within);
    assert_enqueued!(jobs, SendWelcome { .. }, within: "10m");
}

fn main() {}
