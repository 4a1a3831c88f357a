use jobq::{BoxError, job};

#[job]
async fn boxed_error(value: String) -> Result<(), Box<dyn std::error::Error>> {
    Err(value.into())
}

#[job]
fn boxed_error_not_sync(value: String) -> Result<(), Box<dyn std::error::Error + Send>> {
    drop(value);
    Ok(())
}

#[job]
async fn cfg_on_argument(#[cfg(unix)] mode: u32, value: u32) -> Result<(), BoxError> {
    Err((mode + value).to_string().into())
}

#[job]
const fn const_function(_value: u8) -> Result<(), BoxError> {
    Ok(())
}

#[job]
extern "C" fn extern_function(value: String) -> Result<(), BoxError> {
    Err(value.into())
}

#[job]
async fn generic_constant<const N: usize>(value: [u8; N]) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn generic_lifetime<'a>(value: u8) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

#[job]
async fn generic_type<T: Send>(value: T) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

trait Mailer {
    #[job]
    async fn send_welcome(user_id: u64) -> Result<(), BoxError>;
}

#[job]
async fn no_return_type(value: String) {
    drop(value);
}

#[job]
async fn pattern((x, y): (u8, u8)) -> Result<(), BoxError> {
    Err((x + y).to_string().into())
}

#[job]
async fn pattern_ref(ref value: String) -> Result<(), BoxError> {
    Err(value.as_str().into())
}

#[job]
async fn pattern_underscore(_: u8) -> Result<(), BoxError> {
    Ok(())
}

#[job]
async fn payload_and_context(
    #[payload]
    #[context]
    value: u8,
) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

#[job]
async fn payload_twice(
    #[payload]
    #[payload]
    value: u8,
) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

#[job]
async fn payload_with_value(#[payload = "Save"] value: u8) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

struct Post;

impl Post {
    #[job]
    async fn receiver(&self, user_id: u64) -> Result<(), BoxError> {
        Err(user_id.to_string().into())
    }
}

impl Post {
    #[job]
    async fn self_as_type(user_id: u64) -> Result<Self, BoxError> {
        Err(user_id.to_string().into())
    }
}

#[job]
async fn serde_on_context(#[serde(skip)] ctx: jobq::JobContext) -> Result<(), BoxError> {
    Err(ctx.queue().into())
}

#[job]
async fn serde_on_state(#[serde(default)] total: jobq::State<u8>) -> Result<(), BoxError> {
    Err(total.to_string().into())
}

#[job]
async fn unknown_attribute(#[arg] value: u8) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

#[job]
unsafe fn unsafe_function(value: String) -> Result<(), BoxError> {
    Err(value.into())
}

#[job]
fn variadic(value: u8, _: ...) -> Result<(), BoxError> {
    Err(value.to_string().into())
}

#[job]
async fn where_clause(value: String) -> Result<(), BoxError>
where
    String: Send,
{
    Err(value.into())
}

fn main() {
    drop(Post.receiver(7));
    drop(Post::self_as_type(7));
}
