//! The question before something is deleted.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::table::visible;
use crate::end::Problem;

/// The confirmation of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Given,
    Asked,
    /// Nobody can be asked.
    Missing,
}

fn confirmation(yes: bool, is_terminal: bool) -> Confirmation {
    match (yes, is_terminal) {
        (true, _) => Confirmation::Given,
        (false, true) => Confirmation::Asked,
        (false, false) => Confirmation::Missing,
    }
}

/// Returns whether the user confirms this action, such as "delete 3 failed jobs of queue `mail`".
/// Off a terminal `--yes` must be given.
pub(crate) fn confirm(yes: bool, action: &str) -> Result<bool, Problem> {
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match confirmation(yes, is_terminal) {
        Confirmation::Given => Ok(true),
        Confirmation::Missing => Err(Problem::Usage(format!(
            "this would {action}, and there is no terminal to confirm it; add `--yes` to confirm, \
             or `--dry-run` to see what it would do"
        ))),
        Confirmation::Asked => {
            let answer = ask(action);
            let unasked = |error| Problem::Refused(format!("cannot ask for confirmation: {error}"));
            Ok(is_yes(&answer.map_err(unasked)?))
        }
    }
}

fn ask(action: &str) -> io::Result<String> {
    let mut error = io::stderr().lock();
    write!(error, "{}? [y/N] ", visible(action))?;
    error.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_a_terminal_nobody_is_asked() {
        assert_eq!(confirmation(true, false), Confirmation::Given);
        assert_eq!(confirmation(true, true), Confirmation::Given);
        assert_eq!(confirmation(false, true), Confirmation::Asked);
        assert_eq!(confirmation(false, false), Confirmation::Missing);
    }

    #[test]
    fn only_yes_is_yes() {
        for (answer, expected) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("no\n", false), ("yep\n", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
