//! jobq under another name, in a module where everything that generated code could mean by accident
//! means something else.

/// As if Cargo.toml had no `jobq`.
mod jobq {}

#[allow(dead_code)]
mod shadowed {
    pub(super) struct Vec;
    pub(super) struct Option;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Expected;
    pub(super) struct Compared;
    pub(super) mod core {}
    pub(super) mod std {}
    pub(super) mod testing {}
}

#[allow(unused_imports)]
use shadowed::*;

use super::{Recording, SendWelcome, UserCreated, renamed_jobq as queue, welcome};
use queue::testing::{assert_enqueued, assert_published, refute_enqueued, refute_published};

#[test]
fn the_crate_may_be_renamed() {
    let value = 7;
    let compared = "ann";
    let jobs = Recording::default().job(&welcome(7, "ann")).event(&UserCreated { user_id: 7 });
    assert_enqueued!(jobs, 1, SendWelcome { user_id, email: "ann" } if *user_id == value);
    assert_enqueued!(jobs, SendWelcome { email, .. } if email == compared, within = "1s");
    refute_enqueued!(jobs, SendWelcome { user_id: 8, .. });
    assert_published!(jobs, UserCreated { user_id: 7 });
    queue::testing::refute_published!(jobs, "user.deleted");
    refute_published!(jobs, UserCreated { user_id: 8 });
}
