//! The rule for the names of jobs and queues.

use std::fmt;

/// The longest name of a job or a queue, in bytes.
pub const MAX_LENGTH: usize = 120;

/// Checks the name of a job or of a queue: `[A-Za-z0-9_.-]{1,120}`, and no word
/// between the dots is empty.
///
/// # Errors
///
/// A name that breaks the rule, with the part that does.
///
/// ```
/// use jobq_names::name;
///
/// assert!(name::check("mail.welcome").is_ok());
/// let error = name::check("send welcome").unwrap_err().to_string();
/// assert!(error.starts_with("`send welcome` is not a valid name: it contains ' '"));
/// ```
pub fn check(name: &str) -> Result<(), NameError> {
    let wrong = |problem| Err(NameError { name: name.chars().take(200).collect(), problem });
    if name.is_empty() {
        return wrong(Problem::Empty);
    }
    let is_right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if let Some(c) = name.chars().find(|c| !is_right(*c)) {
        return wrong(Problem::Character(c));
    }
    if name.len() > MAX_LENGTH {
        return wrong(Problem::TooLong(name.len()));
    }
    if name.split('.').any(str::is_empty) {
        return wrong(Problem::EmptyWord);
    }
    Ok(())
}

/// Why a text is no name of a job or queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    name: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    Character(char),
    TooLong(usize),
    EmptyWord,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a valid name: ", self.name)?;
        match self.problem {
            Problem::Empty => f.write_str("it is empty")?,
            Problem::Character(c) => write!(f, "it contains {c:?}")?,
            Problem::TooLong(length) => write!(f, "it has {length} characters")?,
            Problem::EmptyWord => f.write_str("it has a leading, trailing or doubled dot")?,
        }
        write!(
            f,
            "; use 1 to {MAX_LENGTH} characters from A-Z a-z 0-9 _ -, with single dots between \
             words"
        )
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule() {
        for good in ["a", "send_welcome", "mail.welcome", "A-1", "0", "a.b.c", &"x".repeat(120)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let table = [
            ("", "it is empty"),
            ("a b", "it contains ' '"),
            ("a:b", "it contains ':'"),
            ("a@b", "it contains '@'"),
            ("../etc", "it contains '/'"),
            ("grüße", "it contains 'ü'"),
            (".a", "it has a leading, trailing or doubled dot"),
            ("a.", "it has a leading, trailing or doubled dot"),
            ("a..b", "it has a leading, trailing or doubled dot"),
            (".", "it has a leading, trailing or doubled dot"),
            (&"x".repeat(121), "it has 121 characters"),
        ];
        for (bad, expected) in table {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }
}
