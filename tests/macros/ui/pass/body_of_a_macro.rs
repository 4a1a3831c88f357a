use jobq::{BoxError, Job, job};

/// A body that a macro passes on as a block.
macro_rules! counted {
    ($name:ident($argument:ident: $type:ty) $body:block) => {
        #[job(retries = 3)]
        async fn $name($argument: $type) -> Result<(), BoxError> $body
    };
}

counted!(send_welcome(user_id: u64) {
    if user_id == 0 {
        return Err("nobody has this number".into());
    }
    Ok(())
});

fn main() {
    assert_eq!((SendWelcome::NAME, SendWelcome { user_id: 7 }.user_id), ("send_welcome", 7));
    drop(send_welcome(7));
}
