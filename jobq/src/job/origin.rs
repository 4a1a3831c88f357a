//! The origin of a job, as text: the program that enqueued it and the crate of its payload type,
//! such as `shop-web (shop_jobs)`.

use std::sync::Arc;

/// The most characters of a program's name, so that it fits into [`LONGEST`] in any script.
const LONGEST_PROGRAM: usize = 60;
/// The most bytes of an origin: those of a short string of AMQP.
const LONGEST: usize = 255;

/// The origin of a job that this program enqueues, from the name of its payload's type as
/// `type_name` gives it.
pub(crate) fn origin(program: &str, type_name: &str) -> Arc<str> {
    let crate_name = type_name.split("::").next().unwrap_or_default();
    let text = format!("{program} ({crate_name})");
    if text.len() <= LONGEST { text.into() } else { program.into() }
}

/// The crate of an origin. Other clients may write anything else there.
pub(crate) fn crate_of(origin: &str) -> Option<&str> {
    let (_, crate_name) = origin.strip_suffix(')')?.rsplit_once(" (")?;
    Some(crate_name)
}

/// Whether a program may have this name.
pub(crate) fn is_program(name: &str) -> bool {
    (1..=LONGEST_PROGRAM).contains(&name.chars().count()) && name.chars().all(may_be_in_program)
}

/// This name without what the name of a program may not have in it.
pub(crate) fn to_program(name: &str) -> String {
    let allowed = name.chars().filter(|c| may_be_in_program(*c));
    let program: String = allowed.take(LONGEST_PROGRAM).collect();
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
