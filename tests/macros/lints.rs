//! Generated code passes the lints that a strict crate turns on.

#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![forbid(unsafe_code)]

use std::rc::Rc;

use jobq::{BoxError, Event, Job, JobContext, Run, State, job};
use serde::{Deserialize, Serialize};

/// What jobs share.
#[derive(Debug)]
pub struct Mailer;

/// All keys, documented and not documented arguments, a visible payload.
///
/// # Errors
///
/// Never.
#[job(
    name = "mail.welcome",
    queue = "mail",
    retries = 3,
    delay = ["10s", "1m", "90000ms"],
    timeout = "90m",
    concurrency = 8,
    expires = "90d",
    payload = "WelcomeMail"
)]
pub async fn send_welcome(
    /// Where to.
    email: String,
    user_id: u64,
    user_name: String,
    user_mail: String,
    #[serde(default)] lucky_numbers: Vec<u64>,
    mailer: State<Mailer>,
    ctx: JobContext,
) -> Result<(), BoxError> {
    drop((user_id, user_name, user_mail, lucky_numbers, mailer));
    Err(jobq::retry_in(std::time::Duration::from_secs(u64::from(ctx.attempt())), email).into())
}

/// No arguments.
///
/// # Errors
///
/// Never.
#[job(delay = exponential("10s", max = "100000s", factor = 2, jitter = 0.123456789))]
pub fn cleanup() -> Result<(), BoxError> {
    Ok(())
}

#[job]
async fn _private(_unused: u8, opaque: Opaque) -> Result<(), BoxError> {
    let Opaque(text) = opaque;
    Err(text.into())
}

#[job]
#[allow(non_snake_case)]
pub(crate) async fn four_flags(
    is_a: bool,
    is_b: bool,
    isC: bool,
    ctx: JobContext,
) -> std::io::Result<()> {
    drop(ctx);
    (is_a && is_b && isC).then_some(()).ok_or_else(|| std::io::Error::other("no"))
}

#[job]
#[allow(clippy::fn_params_excessive_bools)]
async fn five_flags(five_a: bool, five_b: bool, c: bool, d: bool) -> Result<(), BoxError> {
    Err([five_a, five_b, c, d].iter().filter(|flag| **flag).count().to_string().into())
}

#[job]
#[deprecated = "use the other one"]
fn old(letter: u8) -> Result<(), BoxError> {
    Err(letter.to_string().into())
}

#[job]
fn long(
    a0: Vec<std::collections::BTreeMap<String, Vec<Option<Vec<u64>>>>>,
    a1: [u8; 32],
    a2: std::borrow::Cow<'static, str>,
    a3: ((u8,), (String, Box<str>)),
    mailer: State<Mailer>,
) -> Result<Rc<u8>, BoxError> {
    Err(format!("{a0:?}{a1:?}{a2:?}{a3:?}{mailer:?}").into())
}

/// A subscriber.
///
/// # Errors
///
/// Never.
#[job(on = ["user.*", "order.#"], retries = 1)]
pub async fn greet(
    ctx: JobContext,
    event: UserCreated,
    mailer: State<Mailer>,
) -> Result<(), BoxError> {
    drop((ctx, mailer));
    Err(event.user_id.to_string().into())
}

#[job(on = "#")]
fn audit(_event: Opaque) -> Result<(), BoxError> {
    Ok(())
}

/// What users do.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(topic = "user.created")]
pub struct UserCreated {
    /// Whom.
    pub user_id: u64,
}

/// One that borrows.
#[derive(Debug, Serialize, Event)]
#[event(topic = "user.renamed")]
pub struct UserRenamed<'a> {
    /// To what.
    pub name: &'a str,
}

/// One of any kind.
#[derive(Debug, Serialize, Event)]
#[event(topic = "page.read")]
pub enum PageRead<T, const N: usize = 1>
where
    T: AsRef<str>,
{
    /// By whom.
    By(T),
    /// By nobody.
    Never,
}

#[derive(Serialize, Event)]
#[event(topic = "old")]
#[deprecated]
struct Gone;

/// A subscriber without its function.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(on = "user.created")]
pub struct Forward(pub UserCreated);

/// Not `Debug` and not `Clone`.
#[derive(Serialize, Deserialize)]
struct Opaque(String);

/// A payload without its function.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = "images", delay = ["10s", "1m"], timeout = "10m", expires = "90d")]
pub struct ResizeImage {
    /// Which.
    pub image: u64,
}

/// Another.
#[derive(Debug, Serialize, Deserialize, Job)]
#[deprecated]
struct Ping;

const fn registered<J: Run>() {}
const fn declared<J: Job>() {}
const fn published<E: Event>() {}

#[test]
fn strict_lints_pass() {
    // As in a worker: the payloads are only named.
    registered::<WelcomeMail>();
    registered::<Cleanup>();
    registered::<Private>();
    registered::<FourFlags>();
    registered::<FiveFlags>();
    registered::<Long>();
    declared::<ResizeImage>();
    registered::<Greet>();
    registered::<Audit>();
    declared::<Forward>();
    published::<UserCreated>();
    published::<UserRenamed<'_>>();
    published::<PageRead<String>>();
    #[allow(deprecated)]
    published::<Gone>();
    #[allow(deprecated)]
    registered::<Old>();
    #[allow(deprecated)]
    declared::<Ping>();
}
