use jobq::{BoxError, job};

#[job(retires = 3, delay = 30, queue = "a b", timeout = "0s")]
async fn all_mistakes_at_once(email: &str, (x, y): (u8, u8)) {
    println!("{email}, {x}, {y}");
}

#[job(concurrency = 65536)]
async fn concurrency_too_much() -> Result<(), BoxError> {
    Ok(())
}

#[job(concurrency = 0)]
async fn concurrency_zero() -> Result<(), BoxError> {
    Ok(())
}

#[job(backoff = "10s")]
async fn backoff() -> Result<(), BoxError> {
    Ok(())
}

#[job(crate = "my jobq")]
async fn crate_no_path() -> Result<(), BoxError> {
    Ok(())
}

#[job(crate = my_jobq)]
async fn crate_no_text() -> Result<(), BoxError> {
    Ok(())
}

#[job(schedule = "0 3 * * *")]
async fn schedule() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 3)]
#[job(queue = "mail")]
async fn job_twice() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries(3))]
async fn key_with_parentheses() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries)]
async fn key_without_value() -> Result<(), BoxError> {
    Ok(())
}

#[job(max_attempts = 3)]
async fn max_attempts() -> Result<(), BoxError> {
    Ok(())
}

#[job(retires = 3)]
async fn misspelt_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(name = welcome)]
async fn name_no_text() -> Result<(), BoxError> {
    Ok(())
}

#[job("mail.welcome")]
async fn no_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(payload = "Self")]
async fn payload_keyword() -> Result<(), BoxError> {
    Ok(())
}

#[job(payload = WelcomeMail)]
async fn payload_no_text() -> Result<(), BoxError> {
    Ok(())
}

#[job(payload = "welcome mail")]
async fn payload_no_type_name() -> Result<(), BoxError> {
    Ok(())
}

#[job(priority = 3)]
async fn priority() -> Result<(), BoxError> {
    Ok(())
}

#[job(queue = 7)]
async fn queue_no_text() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 3, queue = "mail", retries = 4)]
async fn repeated_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = RETRIES)]
async fn retries_constant() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = "3")]
async fn retries_in_quotes() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = -1)]
async fn retries_negative() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 4294967296)]
async fn retries_too_many() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 3s)]
async fn retries_with_unit() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 3,, queue = "mail")]
async fn two_commas() -> Result<(), BoxError> {
    Ok(())
}

#[job(unique)]
async fn unique() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 3, unchecked = true)]
async fn unchecked_with_value() -> Result<(), BoxError> {
    Ok(())
}

#[job(store = 3)]
async fn unknown_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(queue = )]
async fn value_missing() -> Result<(), BoxError> {
    Ok(())
}

// The types are there all the same.
#[allow(unused_imports)]
mod made {
    use super::{
        ConcurrencyZero, CrateNoPath, CrateNoText, Cron, JobTwice, KeyWithParentheses,
        KeyWithoutValue, MisspeltKey, NameNoText, NoKey, PayloadKeyword, PayloadNoText,
        PayloadNoTypeName, QueueNoText, RepeatedKey, RetriesConstant, RetriesInQuotes,
        RetriesNegative, RetriesTooMany, RetriesWithUnit, TwoCommas, UncheckedWithValue,
        UnknownKey, ValueMissing,
    };
}

fn main() {
    let _ = AllMistakesAtOnce { email: "ann@example.com".into() };
    let _ = ConcurrencyTooMuch {};
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<ConcurrencyTooMuch>();
    drop(concurrency_too_much());
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<ConcurrencyZero>();
    drop(concurrency_zero());
}
