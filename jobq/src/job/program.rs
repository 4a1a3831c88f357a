//! The name of the program that enqueues a job.

use crate::error::{Error, Result};

/// The length limit of a program's name, in characters, so that it fits into a short string of
/// AMQP (255 bytes) in any script.
const MAX_PROGRAM: usize = 60;

/// The name of the executable.
pub(crate) fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()).and_then(|name| name.to_str());
    to_program(name.unwrap_or_default())
}

/// # Errors
///
/// A name that no program may have.
pub(crate) fn check_program(name: &str) -> Result<()> {
    if is_program(name) {
        return Ok(());
    }
    let shown: String = name.escape_debug().take(64).collect();
    Err(Error::invalid(format!(
        "`{shown}` is not a valid program name; use 1 to 60 characters without control characters"
    )))
}

fn is_program(name: &str) -> bool {
    (1..=MAX_PROGRAM).contains(&name.chars().count()) && !name.contains(char::is_control)
}

/// This name without characters that a program's name may not have.
fn to_program(name: &str) -> String {
    let program: String = name.chars().filter(|c| !c.is_control()).take(MAX_PROGRAM).collect();
    if program.is_empty() { "jobq".to_owned() } else { program }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_name_becomes_the_name_of_a_program() {
        let long = "ä".repeat(100);
        let table =
            [("shop", "shop"), ("shop (1)", "shop (1)"), ("\n", "jobq"), (&long, &long[..120])];
        for (file, program) in table {
            assert_eq!(to_program(file), program);
            assert!(is_program(program));
        }
        for bad in ["", "a\tb", &long] {
            assert!(!is_program(bad), "{bad:?}");
        }
    }
}
