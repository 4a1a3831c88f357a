use jobq::{BoxError, job};

struct Post;

impl Post {
    #[job]
    async fn send_welcome(user_id: u64) -> Result<(), BoxError> {
        Err(user_id.to_string().into())
    }
}

fn main() {
    drop(Post::send_welcome(7));
}
