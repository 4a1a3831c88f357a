//! The origin of a job, as text: the program that enqueued it and the crate of its payload type,
//! such as `shop-web (shop_jobs)`.

use std::sync::Arc;

use crate::error::{Error, Result};

/// The length limit of a program's name, in characters, so that it fits into [`MAX_BYTES`] in any
/// script.
const MAX_PROGRAM: usize = 60;
/// The size limit of an origin, in bytes: that of a short string of AMQP.
const MAX_BYTES: usize = 255;

/// The origin of a job of this program, from the `type_name` of its payload.
pub(crate) fn origin(program: &str, type_name: &str) -> Arc<str> {
    let crate_name = type_name.split("::").next().unwrap_or_default();
    let text = format!("{program} ({crate_name})");
    if text.len() <= MAX_BYTES { text.into() } else { program.into() }
}

/// The crate of an origin, if it names one. Other clients may write any text.
pub(crate) fn crate_of(origin: &str) -> Option<&str> {
    let (_, crate_name) = origin.strip_suffix(')')?.rsplit_once(" (")?;
    Some(crate_name)
}

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
        "`{shown}` is no name of a program; use 1 to 60 characters without control characters and \
         parentheses"
    )))
}

fn is_program(name: &str) -> bool {
    (1..=MAX_PROGRAM).contains(&name.chars().count()) && name.chars().all(may_be_in_program)
}

/// This name without characters that a program's name may not have.
fn to_program(name: &str) -> String {
    let allowed = name.chars().filter(|c| may_be_in_program(*c));
    let program: String = allowed.take(MAX_PROGRAM).collect();
    if program.is_empty() { "jobq".to_owned() } else { program }
}

fn may_be_in_program(c: char) -> bool {
    !c.is_control() && c != '(' && c != ')'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_the_crate_of_the_type() {
        let table = [
            ("shop-web", "shop_jobs::mail::Welcome", "shop-web (shop_jobs)", Some("shop_jobs")),
            ("web", "Welcome", "web (Welcome)", Some("Welcome")),
            ("web", &"x".repeat(300), "web", None),
        ];
        for (program, type_name, text, crate_name) in table {
            let origin = origin(program, type_name);
            assert_eq!((&*origin, crate_of(&origin)), (text, crate_name));
        }
    }

    #[test]
    fn the_text_of_another_client_names_a_crate_or_none() {
        let table =
            [("", None), (")", None), ("()", None), ("php", None), ("a (b) (c)", Some("c"))];
        for (text, crate_name) in table {
            assert_eq!(crate_of(text), crate_name, "{text}");
        }
    }

    #[test]
    fn any_file_name_becomes_the_name_of_a_program() {
        let long = "ä".repeat(100);
        let table =
            [("shop", "shop"), ("shop (1)", "shop 1"), ("\n", "jobq"), (&long, &long[..120])];
        for (file, program) in table {
            assert_eq!(to_program(file), program);
            assert!(is_program(program));
        }
        for bad in ["", "a(b", "a\tb", &long] {
            assert!(!is_program(bad), "{bad:?}");
        }
    }
}
