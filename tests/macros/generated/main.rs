//! What the macros make of correct code.

mod events;
mod names;

// As if Cargo.toml called it so; the same package cannot be there under two names.
extern crate jobq as renamed_jobq;

use std::time::Duration;

use jobq::{
    BoxError, Delay, Exponential, Job, JobContext, JobOptions, Run, State, WorkerPool, job,
    queue_of,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

fn is_job<J: Job>() {}
fn is_run<J: Run>() {}

/// `Debug` and `Clone` where there are any, else `None`: the method of the reference
/// comes second.
#[allow(clippy::unnecessary_wraps)]
mod probe {
    use std::fmt::Debug;

    pub(crate) struct Probe<'v, T>(pub(crate) &'v T);

    impl<T: Clone> Probe<'_, T> {
        pub(crate) fn cloned(&self) -> Option<T> {
            Some(self.0.clone())
        }
    }

    impl<T: Debug> Probe<'_, T> {
        pub(crate) fn shown(&self) -> Option<String> {
            Some(format!("{:?}", self.0))
        }
    }

    pub(crate) trait Otherwise<T> {
        fn cloned(&self) -> Option<T> {
            None
        }

        fn shown(&self) -> Option<String> {
            None
        }
    }

    impl<T> Otherwise<T> for Probe<'_, T> {}
}

#[test]
fn a_function_names_its_job_and_its_payload() {
    #[job]
    async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
        Err(format!("{user_id} {email}").into())
    }

    let payload = SendWelcome { user_id: 7, email: "ann@example.com".into() };
    assert_eq!(SendWelcome::NAME, "send_welcome");
    assert_eq!(queue_of::<SendWelcome>(), "send_welcome");
    assert_eq!(SendWelcome::OPTIONS, JobOptions::new().plain());
    let json = json!({ "user_id": 7, "email": "ann@example.com" });
    assert_eq!(serde_json::to_value(&payload).unwrap(), json);
    let read: SendWelcome = serde_json::from_value(json).unwrap();
    assert_eq!(read.email, payload.email);
    is_run::<SendWelcome>();
}

#[tokio::test]
async fn a_function_stays_callable() {
    #[job]
    async fn add(a: u64, b: u64, total: State<u64>, ctx: JobContext) -> Result<u64, BoxError> {
        Ok(a + b + *total + u64::from(ctx.attempt()))
    }

    #[job]
    fn add_slowly(mut a: u64, b: u64, _: State<u64>) -> Result<u64, BoxError> {
        a += b;
        Ok(a)
    }

    assert_eq!(add(1, 2, State(3), JobContext::for_test()).await.unwrap(), 7);
    assert_eq!(add_slowly(1, 2, State(0)).unwrap(), 3);
    let (Add { a, b }, AddSlowly { .. }) = (Add { a: 1, b: 2 }, AddSlowly { a: 1, b: 2 });
    assert_eq!((a, b), (1, 2));
}

#[test]
fn keys_set_the_policy() {
    #[job(
        name = "mail.welcome",
        queue = "mail",
        retries = 5,
        delay = "1m 30s",
        timeout = "2m",
        concurrency = 8,
        expires = "1h",
        payload = "WelcomeMail"
    )]
    async fn send_welcome() -> Result<(), BoxError> {
        Ok(())
    }

    let expected = JobOptions::new()
        .queue("mail")
        .retries(5)
        .delay(Delay::constant(Duration::from_secs(90)))
        .timeout(Duration::from_secs(120))
        .concurrency(8)
        .expires(Duration::from_secs(3_600))
        .plain();
    assert_eq!(WelcomeMail::NAME, "mail.welcome");
    assert_eq!(WelcomeMail::OPTIONS, expected);
    assert_eq!(queue_of::<WelcomeMail>(), "mail");
}

#[test]
fn a_delay_may_be_a_list() {
    #[job(delay = ["10s", "1m", "250ms"])]
    async fn listed() -> Result<(), BoxError> {
        Ok(())
    }

    #[job(retries = 9, delay = ["0s"])]
    async fn with_retries() -> Result<(), BoxError> {
        Ok(())
    }

    const WAITS: &[Duration] =
        &[Duration::from_secs(10), Duration::from_secs(60), Duration::from_millis(250)];
    assert_eq!(Listed::OPTIONS, JobOptions::new().delay(Delay::list(WAITS)).plain());
    assert_eq!(Listed::OPTIONS.max_attempts(), 4);
    assert_eq!(WithRetries::OPTIONS.max_attempts(), 10);
}

#[test]
fn a_delay_may_grow() {
    #[job(delay = exponential("10s"))]
    async fn plain() -> Result<(), BoxError> {
        Ok(())
    }

    #[job(delay = exponential("10s", max = "1h", factor = 3, jitter = 0.1))]
    async fn full() -> Result<(), BoxError> {
        Ok(())
    }

    let first = Duration::from_secs(10);
    assert_eq!(Plain::OPTIONS, JobOptions::new().delay(Delay::exponential(first)).plain());
    let growth = Exponential::new(first).max(Duration::from_secs(3_600)).factor(3.0).jitter(0.1);
    assert_eq!(Full::OPTIONS, JobOptions::new().delay(Delay::Exponential(growth)).plain());
}

#[test]
fn debug_and_clone_are_there_where_the_fields_have_them() {
    use probe::{Otherwise, Probe};

    #[derive(Serialize, Deserialize)]
    struct Opaque;

    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct Letter(u8);

    #[job]
    async fn both(r#type: u8, letter: Letter) -> Result<(), BoxError> {
        Err(format!("{letter:?} of {type}").into())
    }

    #[job]
    async fn neither(plain: u8, opaque: Opaque, deep: Vec<Option<Opaque>>) -> Result<(), BoxError> {
        drop((plain, opaque, deep));
        Ok(())
    }

    let both = Both { r#type: 1, letter: Letter(2) };
    assert_eq!(Probe(&both).shown().unwrap(), "Both { type: 1, letter: Letter(2) }");
    assert_eq!(Probe(&both).cloned().unwrap().letter.0, 2);
    let neither = Neither { plain: 1, opaque: Opaque, deep: Vec::new() };
    assert!(Probe(&neither).shown().is_none());
    assert!(Probe(&neither).cloned().is_none());
}

#[test]
fn no_arguments_make_an_empty_object() {
    #[job]
    async fn cleanup() -> Result<(), BoxError> {
        Ok(())
    }

    let cleanup = Cleanup {};
    assert_eq!(format!("{:?}", cleanup.clone()), "Cleanup");
    assert_eq!(serde_json::to_string(&cleanup).unwrap(), "{}");
    let _: Cleanup = serde_json::from_str("{}").unwrap();
}

#[test]
fn serde_attributes_move_to_the_field() {
    fn two() -> u8 {
        2
    }

    #[job]
    async fn convert(
        #[serde(rename = "from")] source: String,
        #[serde(default = "two")] passes: u8,
        #[serde(default, skip_serializing_if = "Option::is_none")] target: Option<String>,
    ) -> Result<(), BoxError> {
        drop((source, passes, target));
        Ok(())
    }

    let old: Convert = serde_json::from_value(json!({ "from": "a" })).unwrap();
    assert_eq!((old.passes, &old.target), (2, &None));
    assert_eq!(serde_json::to_value(&old).unwrap(), json!({ "from": "a", "passes": 2 }));
}

#[test]
fn any_result_will_do() {
    #[derive(Debug, thiserror::Error)]
    enum MailError {
        #[error("closed")]
        Closed,
    }
    type Outcome<T = ()> = Result<T, MailError>;

    #[job]
    async fn by_alias() -> Outcome {
        Err(MailError::Closed)
    }

    #[job]
    fn by_io() -> std::io::Result<()> {
        Ok(())
    }

    #[job]
    async fn with_value() -> Result<Vec<u8>, &'static str> {
        Ok(Vec::new())
    }

    #[job]
    async fn by_string() -> Result<(), String> {
        Ok(())
    }

    is_run::<ByAlias>();
    is_run::<ByIo>();
    is_run::<WithValue>();
    is_run::<ByString>();
}

#[test]
fn arguments_have_the_role_that_they_are_given() {
    type Total = State<u64>;

    #[derive(Debug, Serialize, Deserialize)]
    struct State2(u8);

    mod address {
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
        pub(crate) struct State(pub(crate) u8);
    }

    #[job]
    async fn add(
        #[context] total: Total,
        #[payload] state: address::State,
        other: State2,
        qualified: jobq::State<u8>,
        one: JobContext,
        another: jobq::JobContext,
    ) -> Result<(), BoxError> {
        drop((total, state, other, qualified, one, another));
        Ok(())
    }

    let add = Add { state: address::State(1), other: State2(2) };
    assert_eq!(serde_json::to_value(&add).unwrap(), json!({ "state": 1, "other": 2 }));
}

#[test]
fn a_struct_declares_a_job() {
    #[derive(Serialize, Deserialize, Job)]
    struct ResizeImage {
        image: u64,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(name = "mail.all", retries = 1)]
    #[job(queue = "mail")]
    struct Everybody(String, u8);

    async fn resize(ctx: JobContext, job: ResizeImage) -> Result<u64, BoxError> {
        drop(ctx);
        Ok(job.image)
    }

    assert_eq!(ResizeImage::NAME, "resize_image");
    assert_eq!(Everybody::NAME, "mail.all");
    assert_eq!(queue_of::<Everybody>(), "mail");
    assert_eq!(Everybody::OPTIONS, JobOptions::new().queue("mail").retries(1));
    let register = |pool: WorkerPool| pool.handle(resize);
    let _ = register;
}

#[test]
fn what_is_configured_away_takes_its_payload_with_it() {
    struct Kept;

    #[job]
    #[cfg(any())]
    async fn kept() -> Result<(), BoxError> {
        Ok(())
    }

    #[job]
    #[cfg_attr(all(), cfg(any()), deprecated)]
    async fn kept() -> Result<(), BoxError> {
        Ok(())
    }

    let Kept = Kept;
}

#[test]
fn a_macro_can_write_jobs() {
    macro_rules! import {
        ($($name:ident, $payload:literal, $retries:literal, $wait:literal, $ty:ty);*) => {
            $(
                #[job(payload = $payload, retries = $retries, delay = [$wait])]
                async fn $name(argument: $ty, state: State<$ty>) -> Result<$ty, BoxError> {
                    Ok(argument + *state)
                }
            )*
        };
    }

    import!(first, "First", 1, "10s", u8; second, "Another", 2, "20s", u16);
    assert_eq!(First::OPTIONS.max_attempts(), 2);
    assert_eq!(Another { argument: 400 }.argument, 400);
}
