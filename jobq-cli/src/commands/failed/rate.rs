//! The rate of an operation.

/// Jobs a second, of `10/s`, `600/m` or `10`.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("expected a rate such as 10/s, 600/m or 1000/h".into()),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number / seconds),
        _ => Err("the number of jobs must be above 0, as in 10/s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_in_a_unit() {
        for (text, expected) in
            [("10/s", Some(10.0)), ("10", Some(10.0)), ("90/m", Some(1.5)), ("0.5/s", Some(0.5))]
        {
            assert_eq!(rate(text).ok(), expected, "{text}");
        }
        for text in ["", "/s", "0/s", "-1/s", "ten/s", "10/day", "inf/s", "NaN"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
