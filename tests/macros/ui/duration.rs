use jobq::{BoxError, job};

#[job(delay = linear("10s"))]
async fn delay_no_delay() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = "")]
async fn empty() -> Result<(), BoxError> {
    Ok(())
}

#[job(expires = "0ms")]
async fn expires_zero() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential)]
async fn exponential_bare() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", max = 3600))]
async fn exponential_max_number() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential(10))]
async fn exponential_number() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", max = "1h", max = "2h"))]
async fn exponential_repeated_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", "1h"))]
async fn exponential_second_wait() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", maximum = "1h"))]
async fn exponential_unknown_key() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential(max = "1h"))]
async fn exponential_without_first() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", factor = 0.5))]
async fn factor_below_one() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", factor = "2"))]
async fn factor_in_quotes() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = 1.5)]
async fn fraction() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = "1.5s")]
async fn fraction_in_text() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", jitter = 10))]
async fn jitter_above_one() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10s", jitter = -0.1))]
async fn jitter_negative() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = [])]
async fn list_empty() -> Result<(), BoxError> {
    Ok(())
}

#[job(retries = 1, delay = ["10s", "1m", "10m"])]
async fn list_longer_than_retries() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = ["10s", 60])]
async fn list_of_numbers() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = [soon])]
async fn list_of_words() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = ["10x", "1m", "2y"])]
async fn list_with_mistakes() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = exponential("10m", max = "90s"))]
async fn max_below_first() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = "30")]
async fn no_unit() -> Result<(), BoxError> {
    Ok(())
}

#[job(delay = 30)]
async fn number() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = true)]
async fn timeout_no_duration() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = "0s")]
async fn timeout_zero() -> Result<(), BoxError> {
    Ok(())
}

#[job(expires = "4000d")]
async fn too_long() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = 2m)]
async fn unit_without_quotes() -> Result<(), BoxError> {
    Ok(())
}

#[job(expires = "3 weeks")]
async fn unknown_unit() -> Result<(), BoxError> {
    Ok(())
}

#[job(expires = "3w")]
async fn unknown_unit_attached() -> Result<(), BoxError> {
    Ok(())
}

#[job(timeout = "30s 1m")]
async fn wrong_order() -> Result<(), BoxError> {
    Ok(())
}

// The types are there all the same.
#[allow(unused_imports)]
mod made {
    use super::{
        Empty, ExpiresZero, ExponentialBare, ExponentialMaxNumber, ExponentialNumber,
        ExponentialRepeatedKey, ExponentialSecondWait, ExponentialUnknownKey,
        ExponentialWithoutFirst, FactorBelowOne, FactorInQuotes, Fraction, FractionInText,
        JitterAboveOne, JitterNegative, ListEmpty, ListLongerThanRetries, ListOfNumbers,
        ListOfWords, ListWithMistakes, MaxBelowFirst, NoUnit, Number, TimeoutNoDuration,
        TimeoutZero, TooLong, UnitWithoutQuotes, UnknownUnit, UnknownUnitAttached, WrongOrder,
    };
}

#[job(timeout = "5min")]
async fn with_a_long_unit() -> Result<(), BoxError> {
    Ok(())
}

fn main() {
    let _ = DelayNoDelay {};
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<DelayNoDelay>();
    drop(delay_no_delay());
    let _: fn(jobq::WorkerPool) -> jobq::WorkerPool = |pool| pool.register::<Empty>();
    drop(empty());
}
