//! The macros of jobq. Use them through the `jobq` crate, which re-exports them.

mod attr;
mod copies;
mod expand;
mod expectation;
mod fallback;
mod mistakes;
mod model;
mod plain;
mod signature;
mod valid;
mod words;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use attr::{EventOptions, Options, Place};
use mistakes::Mistakes;
use model::{EventType, FunctionJob, StructJob};
use signature::Function;

/// Makes a job of a function.
///
/// The function stays as it is and can be called in a unit test. Beside it comes the
/// payload type: a struct named like the function in `UpperCamelCase`, with its
/// arguments as fields, which a client enqueues and a worker pool registers.
///
/// ```
/// use jobq::{BoxError, State, job};
///
/// pub struct Mailer;
///
/// impl Mailer {
///     async fn send(&self, to: &str, text: &str) -> Result<(), BoxError> {
///         println!("{to}: {text}");
///         Ok(())
///     }
/// }
///
/// /// Emails a welcome letter.
/// #[job(retries = 5, delay = exponential("10s", max = "1h"), timeout = "2m")]
/// pub async fn send_welcome(
///     user_id: u64,
///     /// Where to.
///     email: String,
///     // Jobs that were enqueued before this argument was added still run.
///     #[serde(default)] vip: bool,
///     mailer: State<Mailer>,
/// ) -> Result<(), BoxError> {
///     let greeting = if vip { "Dearest" } else { "Dear" };
///     mailer.send(&email, &format!("{greeting} number {user_id}")).await
/// }
///
/// // What a client enqueues:
/// let welcome = SendWelcome { user_id: 7, email: "ann@example.com".into(), vip: false };
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a test, no worker is needed:
/// send_welcome(7, "ann@example.com".into(), true, State(Mailer)).await
/// # }).unwrap();
/// # let _ = welcome;
/// ```
///
/// # The function
///
/// An `async fn`, or a plain `fn`, which may block. It returns a `Result` whose error
/// converts into a boxed error: `Ok` completes the job, `Err` leads to the next attempt.
/// `jobq::abort`, `jobq::retry_in` and `jobq::snooze` make errors that say something else.
///
/// Each plain `fn` that runs has a thread of jobq's: as many run at once as their queues have
/// slots, whatever the program's runtime has for `spawn_blocking`. The program's runtime is
/// entered there, so that `Handle::current().block_on(..)` and `tokio::spawn` work as
/// everywhere in the program. Neither that runtime's end nor another job waits for one that
/// does not return. An `async fn` that blocks or never reaches an `.await` holds up both: make
/// it a plain `fn`, or have it call `tokio::task::yield_now().await` now and then.
///
/// Its arguments are owned, have plain names, and are of two kinds:
///
/// | argument | where its value comes from |
/// |---|---|
/// | whose type's last word is `State` or `JobContext` | from the worker pool |
/// | with `#[context]`: a type with `FromAttempt`, or an alias of one of these | from the worker pool |
/// | any other, and any with `#[payload]` | from the client: it is a field of the payload |
///
/// On an argument that is payload, a doc comment and `#[serde(..)]` move to its field.
///
/// # The payload type
///
/// It has the function's visibility, on its fields too, and the function's
/// documentation. It implements `Serialize`, `Deserialize` and `Job`, and where all its
/// fields do, `Debug` and `Clone`. Its JSON is what travels: `{"user_id":7,...}`.
///
/// # Keys
///
/// A duration is a text with one or more units, `"250ms"`, `"30s"`, `"10m"`,
/// `"1h 30m"`, `"2d"`, and is checked when the program compiles.
///
/// | key | meaning | default |
/// |---|---|---|
/// | `retries = 3` | further attempts after the first: at most 4 in all | 3, or the length of a `delay` list |
/// | `delay = "30s"` | the wait before each retry | `"30s"` |
/// | `delay = ["10s", "1m", "10m"]` | the wait before retry 1, 2, 3; the last one repeats | |
/// | `delay = exponential("10s", max = "1h", factor = 2, jitter = 0.1)` | a growing wait; only the first wait is required | `max = "1d"`, `factor = 2`, `jitter = 0` |
/// | `name = "mail.welcome"` | the job's name on the wire, which must stay the same | the function's name |
/// | `queue = "mail"` | the queue; several jobs may share one | the job's name |
/// | `timeout = "2m"` | an attempt that takes longer has failed | none; 10 minutes for a job that is run alone |
/// | `concurrency = 8` | attempts of the job's queue at once in one pool | the pool's |
/// | `expires = "1h"` | no attempt starts later than this after the job was enqueued, plus its delay | never |
/// | `priority = "high"` | the priority of the job in its queue: `"high"`, `"normal"` or `"low"` | `"normal"` |
/// | `priorities` | each enqueue may choose the priority | the one of `priority` |
/// | `payload = "WelcomeMail"` | the name of the payload type | the function's name in `UpperCamelCase` |
/// | `on = "user.*"` | subscribes to the events of this topic pattern (see below) | no events |
/// | `on = ["user.created", "user.renamed"]` | subscribes to the events of all these | |
/// | `cron = "30 2 * * MON-FRI"` | a pool enqueues the job at these times (see below) | |
/// | `cron = ["0 9 * * *", "30 17 * * *"]` | at all these | |
/// | `every = "10m"` | at the multiples of this period since 1970 in UTC | |
/// | `zone = "Europe/Berlin"` | the time zone of `cron` | `"UTC"` |
/// | `missed = "skip"` | what happens to missed times: `"skip"`, `"one"` or `"all"` | `"one"` |
/// | `jitter = "5m"` | each job is enqueued after it is due, with a delay of less than this | none |
/// | `unchecked` | an enqueue does not check that a worker can read the payload (see below) | checked |
/// | `crate = "my_jobq"` | the path to jobq where Cargo.toml gives it another name | `"::jobq"` |
///
/// # Payloads that cannot be read
///
/// Serde accepts types that it does not read back, such as a map with integers as keys inside an enum
/// with a `tag`. So an enqueue decodes the payload that it has encoded, and an error is an `Invalid`
/// error of the enqueue. In a release build it leaves this out where all arguments are `bool`, `char`,
/// `f64`, `String`, integers of up to 64 bits, and `Option` and `Vec` of these, by these names and
/// without attributes of serde: such payloads are always readable. A payload of [`macro@Job`] is
/// checked in every build. `unchecked` turns the check off, where a payload is large and known to be
/// readable.
///
/// # Periodic jobs
///
/// At each time of a job with `cron` or `every`, one of the running pools of its queue enqueues it.
/// This needs jobq's feature `schedules`. The payload is `{}`, so each argument that is payload needs
/// a default: `#[serde(default)]`, or an `Option`. `docs/scheduling.md` describes the grammar of cron
/// expressions, and the guarantees.
///
/// ```
/// use jobq::{BoxError, JobContext, job};
///
/// #[job(cron = "30 2 * * MON-FRI", zone = "Europe/Berlin")]
/// async fn report(ctx: JobContext) -> Result<(), BoxError> {
///     println!("the report of {:?}", ctx.due());
///     Ok(())
/// }
/// ```
///
/// # Subscribers
///
/// A job with `on` subscribes to events. Each event whose topic matches one of its
/// patterns becomes a job of its own, in the subscriber's queue and with its retries,
/// whatever other subscribers do with the same event. In a pattern, `*` stands for one
/// word of a topic and `#` for any number of words, none included.
///
/// ```
/// use jobq::{BoxError, Job, JobContext, job};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// pub struct UserCreated {
///     pub user_id: u64,
/// }
///
/// /// Welcomes whoever is new.
/// #[job(on = "user.created", retries = 5)]
/// pub async fn welcome(event: UserCreated, ctx: JobContext) -> Result<(), BoxError> {
///     println!("welcome, number {} (attempt {})", event.user_id, ctx.attempt());
///     Ok(())
/// }
///
/// /// Counts what happens to users and to orders.
/// #[job(on = ["user.*", "order.#"])]
/// pub async fn count(event: serde_json::Value) -> Result<(), BoxError> {
///     println!("{event}");
///     Ok(())
/// }
///
/// # fn register(client: &jobq::Client) {
/// let pool = jobq::WorkerPool::new(client).register::<Welcome>().register::<Count>();
/// # let _ = pool;
/// # }
/// // The JSON of the payload is the event's. Enqueued, it goes to this subscriber alone:
/// let welcome = Welcome { event: UserCreated { user_id: 7 } };
/// assert_eq!(serde_json::to_string(&welcome).unwrap(), r#"{"user_id":7}"#);
/// ```
///
/// The event is the one argument that is payload. Its type is any that serde reads and
/// writes, and serde's attributes go on that type. Arguments that the worker pool gives
/// stand beside it as in any job. No other job shares the queue of a subscriber.
#[proc_macro_attribute]
pub fn job(keys: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse(item.clone()) {
        Ok(function) => function,
        Err(mistake) => {
            let (item, error) = (proc_macro2::TokenStream::from(item), mistake.to_compile_error());
            return quote!(#item #error).into();
        }
    };
    let mut mistakes = Mistakes::default();
    let options = Options::read(keys.into(), Place::Function, &mut mistakes);
    let job = FunctionJob::new(options, function, &mut mistakes);
    valid::function(&job, &mut mistakes);
    if mistakes.none() && !fallback::is_needed_anyway(&job) {
        return expand::function(&job).into();
    }
    let (errors, rest) = (mistakes.into_errors(), fallback::function(job));
    quote!(#errors #rest).into()
}

/// Makes a struct of your own the payload of a job.
///
/// It declares the job without the code that runs it, so that a web service can enqueue
/// what another program works on. The worker gives its function to
/// `WorkerPool::handle`.
///
/// ```
/// use jobq::{Job, JobContext};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = "images", timeout = "10m")]
/// pub struct ResizeImage {
///     pub image: u64,
///     pub width: u32,
/// }
///
/// // In the worker:
/// async fn resize(job: ResizeImage, ctx: JobContext) -> Result<(), jobq::BoxError> {
///     println!("{} to {}, attempt {}", job.image, job.width, ctx.attempt());
///     Ok(())
/// }
/// # fn register(client: &jobq::Client) {
/// let pool = jobq::WorkerPool::new(client).handle(resize);
/// # let _ = pool;
/// # }
/// assert_eq!(ResizeImage::NAME, "resize_image");
/// ```
///
/// The struct needs serde's `Serialize` and `Deserialize`, has no generic parameters,
/// and is `Send`, `Sync` and `'static`. It may have fields of any kind or none.
///
/// `#[job(...)]` below the derive takes the keys of [`macro@job`] except `payload`. The
/// name defaults to the struct's in `snake_case`: `resize_image`.
///
/// With `on`, the struct's JSON is that of the events: `struct Welcome(UserCreated);`, or
/// a struct with the fields that the subscriber reads.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    let mut mistakes = Mistakes::default();
    let options = Options::of_struct(&input.attrs, &mut mistakes);
    let job = StructJob::new(options, input);
    valid::structure(&job, &mut mistakes);
    if mistakes.none() {
        return expand::structure(&job).into();
    }
    let (errors, rest) = (mistakes.into_errors(), fallback::structure(&job));
    quote!(#errors #rest).into()
}

/// Makes a type of your own an event, with the topic that it is published under.
///
/// ```
/// use jobq::{BoxError, Event, job};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(topic = "user.created")]
/// pub struct UserCreated {
///     pub user_id: u64,
/// }
///
/// /// A subscriber to this and all other events of users.
/// #[job(on = "user.*")]
/// pub async fn welcome(event: UserCreated) -> Result<(), BoxError> {
///     println!("welcome, number {}", event.user_id);
///     Ok(())
/// }
///
/// assert_eq!(UserCreated::TOPIC, "user.created");
/// ```
///
/// The type is a struct or an enum with serde's `Serialize`; its subscribers need
/// `Deserialize` too, or read the same JSON into types of their own. It may borrow, and
/// it may have generic parameters: it is an event wherever it can be serialized.
///
/// # Keys
///
/// | key | meaning | default |
/// |---|---|---|
/// | `topic = "user.created"` | the topic: words with single dots between them, without `*` and `#`; it is checked when the program compiles | must be there |
/// | `crate = "my_jobq"` | the path to jobq where Cargo.toml gives it another name | `"::jobq"` |
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    let mut mistakes = Mistakes::default();
    let options = EventOptions::read(&input.attrs, &mut mistakes);
    let event = EventType::new(options, input);
    valid::event(&event, &mut mistakes);
    if mistakes.none() {
        return expand::event(&event).into();
    }
    let (errors, rest) = (mistakes.into_errors(), fallback::event(&event));
    quote!(#errors #rest).into()
}

/// The common expansion of the assertions of `jobq::testing`: the path to jobq and the name of the macro,
/// then the arguments.
#[doc(hidden)]
#[proc_macro]
pub fn expectation(arguments: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let expectation = expectation::read(arguments.into(), &mut mistakes);
    if let Some(expectation) = &expectation {
        expectation::check(expectation, &mut mistakes);
        if mistakes.none() {
            return expectation::expand(expectation).into();
        }
    }
    let errors = mistakes.into_errors();
    quote!({ #errors }).into()
}
