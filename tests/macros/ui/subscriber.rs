use jobq::{BoxError, Job, job};
use serde::{Deserialize, Serialize};

#[job(on = ["user*", "user*"])]
async fn bad_pattern_twice(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.*", timeout = "0s")]
async fn event_and_mistake_in_key(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.*")]
async fn event_borrowed(event: &str) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = ("user.created", "user.renamed"))]
async fn in_parentheses(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.created", on = "user.renamed")]
async fn key_twice(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = [])]
async fn list_empty(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = ["user.created", 5])]
async fn list_of_numbers(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = [user.created, "user.renamed"])]
async fn list_of_words(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(ohn = "user.created")]
async fn misspelt_key(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.*")]
async fn no_argument() -> Result<(), BoxError> {
    Ok(())
}

#[job(on = "user.*")]
async fn no_payload(ctx: jobq::JobContext) -> Result<(), BoxError> {
    Err(ctx.queue().into())
}

#[job(on = 5)]
async fn number(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[derive(Serialize, Deserialize, Job)]
#[job(on = ["user.created", "user.*d"])]
struct OfStruct(u64);

fn is_job<J: Job>() {}

#[job(on = "")]
async fn pattern_empty(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.*")]
async fn pattern_of_event((id, name): (u8, String)) -> Result<(), BoxError> {
    Err(format!("{id} {name}").into())
}

#[job(on = ["user.created", "order*"])]
async fn pattern_partial_wildcard(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(
    on = "user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.user.created"
)]
async fn pattern_too_long(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = ["user.*", "order.paid", "user.*"])]
async fn pattern_twice(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user..created")]
async fn pattern_with_empty_word(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.created, user.renamed")]
async fn pattern_with_space(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = ["user.created", "#.user.#.name.#"])]
async fn pattern_with_three_hashes(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[derive(Serialize, Deserialize)]
struct UserCreated(u64);

#[job(on = "user.created")]
async fn user_created(event: UserCreated) -> Result<(), BoxError> {
    Err(event.0.to_string().into())
}

#[job(on = "user.*")]
async fn serde_on_event(#[serde(rename = "user")] event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on = "user.*")]
async fn serde_on_second_argument(
    event: String,
    #[serde(default)] vip: bool,
) -> Result<(), BoxError> {
    Err(format!("{event} {vip}").into())
}

#[job(on = "user.*")]
async fn three_arguments(
    event: String,
    ctx: jobq::JobContext,
    vip: bool,
    age: u8,
) -> Result<(), BoxError> {
    Err(format!("{event} {ctx:?} {vip} {age}").into())
}

#[job(on = "user.*")]
async fn two_arguments(event: String, vip: bool) -> Result<(), BoxError> {
    Err(format!("{event} {vip}").into())
}

#[job(on = user.created)]
async fn without_quotes(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

#[job(on)]
async fn without_value(event: String) -> Result<(), BoxError> {
    Err(event.into())
}

// The types are there all the same.
#[allow(unused_imports)]
mod made {
    use super::{
        EventBorrowed, InParentheses, KeyTwice, ListEmpty, ListOfNumbers, ListOfWords, MisspeltKey,
        NoArgument, NoPayload, Number, OfStruct, PatternEmpty, PatternPartialWildcard,
        PatternTooLong, PatternTwice, PatternWithEmptyWord, PatternWithSpace,
        PatternWithThreeHashes, SerdeOnEvent, SerdeOnSecondArgument, ThreeArguments, TwoArguments,
        WithoutQuotes, WithoutValue,
    };
}

fn main() {
    let _ = BadPatternTwice { event: String::new() };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<BadPatternTwice>();
    let _ = EventAndMistakeInKey { event: String::new() };
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool =
        |pool| pool.register::<EventAndMistakeInKey>();
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<EventBorrowed>();
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<PatternOfEvent>();
}
