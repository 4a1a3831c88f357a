//! What the macros make of events and of subscribers.

use std::time::Duration;

use jobq::{BoxError, Delay, Event, Job, JobContext, JobOptions, State, WorkerPool, job, queue_of};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{is_job, is_run};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct UserCreated {
    user_id: u64,
    #[serde(default, rename = "mail")]
    email: Option<String>,
}

#[test]
fn a_subscriber_names_its_patterns() {
    #[job(on = "user.*", retries = 3, delay = "1m")]
    async fn welcome(event: UserCreated) -> Result<(), BoxError> {
        Err(event.user_id.to_string().into())
    }

    #[job(on = ["user.created", "order.#",])]
    async fn count(event: Value) -> Result<(), BoxError> {
        Err(event.to_string().into())
    }

    let minute = Delay::constant(Duration::from_secs(60));
    assert_eq!(Welcome::OPTIONS, JobOptions::new().retries(3).delay(minute).on(&["user.*"]));
    assert_eq!(Count::OPTIONS, JobOptions::new().on(&["user.created", "order.#"]));
    assert_eq!(Welcome::NAME, "welcome");
    assert_eq!(queue_of::<Welcome>(), "welcome");
    is_run::<Welcome>();
    is_run::<Count>();
}

/// Checks that the payload's JSON is the event's, there and back.
#[track_caller]
fn same<E: Serialize, P: Job>(event: &E, payload: &P, json: &Value) {
    let read: P = serde_json::from_value(json.clone()).expect("the event is a payload");
    assert_eq!(json!(event), *json);
    assert_eq!(json!(payload), *json);
    assert_eq!(json!(read), *json);
}

#[test]
fn the_payload_of_a_subscriber_is_the_event() {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum OrderChanged {
        Paid { cents: u64 },
        Cancelled,
    }

    #[job(on = "user.created")]
    async fn welcome(event: UserCreated) -> Result<(), BoxError> {
        Err(event.user_id.to_string().into())
    }

    #[job(on = "order.*")]
    fn book(event: OrderChanged, _: State<u8>) -> Result<(), BoxError> {
        Err(format!("{event:?}").into())
    }

    #[job(on = "#")]
    async fn audit(ctx: JobContext, event: Value) -> Result<(), BoxError> {
        drop((ctx, event));
        Ok(())
    }

    #[job(on = "note")]
    async fn note(#[payload] r#type: String) -> Result<(), BoxError> {
        Err(r#type.into())
    }

    #[job(on = "tick")]
    async fn tick(number: u64) -> Result<(), BoxError> {
        Err(number.to_string().into())
    }

    #[job(on = "maybe")]
    async fn maybe(event: Option<UserCreated>) -> Result<(), BoxError> {
        Err(format!("{event:?}").into())
    }

    let event = UserCreated { user_id: 7, email: Some("ann@example.com".into()) };
    let json = json!({ "user_id": 7, "mail": "ann@example.com" });
    same(&event, &Welcome { event: event.clone() }, &json);
    same(&Some(&event), &Maybe { event: Some(event.clone()) }, &json);
    same(&None::<UserCreated>, &Maybe { event: None }, &Value::Null);
    let event = OrderChanged::Paid { cents: 100 };
    same(&event, &Book { event: event.clone() }, &json!({ "kind": "paid", "cents": 100 }));
    let event = OrderChanged::Cancelled;
    same(&event, &Book { event: event.clone() }, &json!({ "kind": "cancelled" }));
    for json in [json!({ "a": [1] }), json!([]), json!("text"), Value::Null] {
        same(&json, &Audit { event: json.clone() }, &json);
    }
    same(&"text", &Note { r#type: "text".into() }, &json!("text"));
    same(&u64::MAX, &Tick { number: u64::MAX }, &json!(u64::MAX));
}

#[test]
fn an_event_is_read_as_its_type_reads_it() {
    #[job(on = "user.created")]
    async fn welcome(event: UserCreated) -> Result<(), BoxError> {
        Err(event.user_id.to_string().into())
    }

    let later = json!({ "user_id": 7, "added_later": true });
    let Welcome { event } = serde_json::from_value(later).unwrap();
    assert_eq!(event, UserCreated { user_id: 7, email: None });
    let wrapped = json!({ "event": { "user_id": 7 } });
    assert!(serde_json::from_value::<Welcome>(wrapped).is_err());
    let welcome = Welcome { event: UserCreated { user_id: 7, email: None } };
    let shown = "Welcome { event: UserCreated { user_id: 7, email: None } }";
    assert_eq!(format!("{:?}", welcome.clone()), shown);
}

#[tokio::test]
async fn a_subscriber_stays_callable() {
    #[job(on = "tick")]
    async fn tick(event: u64, total: State<u64>) -> Result<u64, BoxError> {
        Ok(event + *total)
    }

    assert_eq!(tick(1, State(2)).await.unwrap(), 3);
    let Tick { event } = Tick { event: 1 };
    assert_eq!(event, 1);
}

#[test]
fn a_struct_declares_a_subscriber() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(on = ["user.created", "user.renamed"], queue = "mail")]
    struct Welcome(UserCreated);

    async fn welcome(job: Welcome) -> Result<u64, BoxError> {
        Ok(job.0.user_id)
    }

    let expected = JobOptions::new().queue("mail").on(&["user.created", "user.renamed"]);
    assert_eq!(Welcome::OPTIONS, expected);
    let event = UserCreated { user_id: 7, email: None };
    same(&event, &Welcome(event.clone()), &json!({ "user_id": 7, "mail": null }));
    let register = |pool: WorkerPool| pool.handle(welcome);
    let _ = register;
}

#[test]
fn a_macro_can_write_subscribers() {
    macro_rules! subscribe {
        ($($name:ident, $payload:literal, $pattern:literal, $event:ty);*) => {
            $(
                #[job(payload = $payload, on = [$pattern, "all"])]
                async fn $name(event: $event) -> Result<$event, BoxError> {
                    Ok(event)
                }
            )*
        };
    }

    subscribe!(first, "First", "user.*", u8; second, "Second", "order.*", Vec<u8>);
    assert_eq!(First::OPTIONS, JobOptions::new().on(&["user.*", "all"]).plain());
    same(&[1, 2], &Second { event: vec![1, 2] }, &json!([1, 2]));
}

#[test]
fn an_event_has_its_topic() {
    #[derive(Serialize, Deserialize, Event)]
    #[event(topic = "order.paid")]
    struct OrderPaid(u64);

    #[derive(Serialize, Event)]
    #[event(topic = "user:größe/1.changed")]
    enum Changed<'a> {
        _Size(&'a str),
        _Nothing,
    }

    #[derive(Serialize, Event)]
    #[event(topic = "ping")]
    struct Ping;

    assert_eq!(OrderPaid::TOPIC, "order.paid");
    assert_eq!(Changed::TOPIC, "user:größe/1.changed");
    assert_eq!(Ping::TOPIC, "ping");
}

#[test]
fn an_event_may_be_generic() {
    #[derive(Serialize, Event)]
    #[event(topic = "page.read")]
    struct PageRead<'a, T: Clone, const N: usize = 2>
    where
        T: PartialEq,
    {
        lines: &'a [T],
    }

    fn topic_of<E: Event>(_: &E) -> &'static str {
        E::TOPIC
    }

    let lines = [1_u8];
    assert_eq!(topic_of(&PageRead::<_, 1> { lines: &lines }), "page.read");
    assert_eq!(PageRead::<Vec<String>>::TOPIC, "page.read");
}

#[test]
fn one_type_may_be_event_and_payload() {
    #[derive(Serialize, Deserialize, Event, Job)]
    #[event(topic = "user.created")]
    #[job(name = "welcome", on = "user.created")]
    struct UserCreated {
        user_id: u64,
    }

    assert_eq!((UserCreated::TOPIC, UserCreated::NAME), ("user.created", "welcome"));
    assert_eq!(UserCreated::OPTIONS, JobOptions::new().on(&[UserCreated::TOPIC]));
    assert_eq!(UserCreated { user_id: 7 }.user_id, 7);
}

/// What generated code could mean by accident means something else here.
#[allow(dead_code)]
mod shadowed {
    pub(crate) trait Event {}
    pub(crate) trait Job {}
    pub(crate) trait Serialize {}
    pub(crate) trait Deserialize {}
    pub(crate) struct String;
    pub(crate) mod core {}
    pub(crate) mod serde {}
    pub(crate) mod jobq {}

    #[derive(::serde::Serialize, ::serde::Deserialize, ::jobq::Event)]
    #[event(topic = "shade")]
    pub(crate) struct Shadow<T>(T);

    #[::jobq::job(on = ["shade", "shade.*"])]
    pub(crate) fn shade(event: Shadow<()>) -> ::core::result::Result<(), ::jobq::BoxError> {
        let Shadow(()) = event;
        ::core::result::Result::Ok(())
    }
}

#[test]
fn shadowed_names_change_nothing() {
    assert_eq!(shadowed::Shadow::<()>::TOPIC, "shade");
    is_run::<shadowed::Shade>();
}

mod renamed {
    /// As if Cargo.toml had no `jobq`.
    mod jobq {}

    use renamed_jobq::{Event, Job, job};

    #[job(crate = "renamed_jobq", on = "user.*")]
    pub(crate) async fn subscribed(event: u8) -> Result<(), String> {
        Err(event.to_string())
    }

    #[derive(serde::Serialize, serde::Deserialize, Job)]
    #[job(crate = "renamed_jobq", on = "user.*")]
    pub(crate) struct Declared(u8);

    #[derive(serde::Serialize, Event)]
    #[event(topic = "user.created", crate = "renamed_jobq")]
    pub(crate) struct UserCreated<T>(T);
}

#[test]
fn the_crate_may_be_renamed() {
    is_run::<renamed::Subscribed>();
    is_job::<renamed::Declared>();
    assert_eq!(renamed::UserCreated::<u8>::TOPIC, "user.created");
    assert_eq!(serde_json::to_value(renamed::Subscribed { event: 1 }).unwrap(), json!(1));
}
