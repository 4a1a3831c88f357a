//! The queues that are checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jobq::rabbitmq::Topology;

use crate::end::Problem;
use crate::options::Options;

const UNLISTED: &str = "the queues to check are not known: AMQP cannot list queues, and a queue \
     whose last pool is gone would be left out; name the queues, or give a file with \
     `--queues-from` or the URL of the management API with `--management`";

/// The names of the queues: those that are given and those in the files; none for all.
///
/// # Errors
///
/// No names where nobody lists the queues; a file without names.
pub(super) fn named(
    given: Vec<String>,
    files: &[PathBuf],
    options: &Options,
) -> Result<Vec<String>, Problem> {
    let mut names: BTreeSet<_> = given.into_iter().collect();
    for path in files {
        let file = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Problem::Usage(format!("cannot read the file {file}: {error}")))?;
        let found = if text.trim_start().starts_with('{') {
            declared(path, options.namespace())?
        } else {
            listed(&text)
        };
        if found.is_empty() {
            return Err(Problem::Usage(format!(
                "the file {file} names no queue of namespace `{}`: write one name per line, or the \
                 declarations of a program as for `jobq topology`",
                options.namespace()
            )));
        }
        names.extend(found);
    }
    if names.is_empty() && !options.lists_queues()? {
        return Err(Problem::Usage(UNLISTED.to_owned()));
    }
    Ok(names.into_iter().collect())
}

/// The queues that a program declares.
fn declared(path: &Path, namespace: &str) -> Result<BTreeSet<String>, Problem> {
    let topology: Topology = super::super::topology::read(path)?;
    Ok(topology.queues(namespace))
}

/// The names in a text: one a line, without empty lines and comments.
fn listed(text: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    text.lines().map(name).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_on_each_line() {
        for (text, expected) in [
            ("", &[][..]),
            ("mail\n", &["mail"]),
            ("# of the shop\n\nstock # and its reports\n  mail\r\nmail", &["mail", "stock"]),
        ] {
            assert_eq!(listed(text).into_iter().collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
