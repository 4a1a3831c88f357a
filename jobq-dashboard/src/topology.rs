//! What programs declare on RabbitMQ, beside what is there.

#[cfg(feature = "rabbitmq")]
use std::sync::Arc;

use jobq::admin::Admin;
#[cfg(feature = "rabbitmq")]
use jobq::{
    ErrorKind,
    rabbitmq::{Difference, Topology, TopologyDiff},
};

/// What programs declare, if it is known. Without the feature `rabbitmq` it never is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    #[cfg(feature = "rabbitmq")]
    topology: Option<Arc<Topology>>,
}

/// Whether everything is as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// It is not known what is declared.
    NotDeclared,
    /// The engine has nothing to compare.
    Nothing(String),
    /// It could not be compared.
    Failed(String),
    /// The parts that are not certainly as declared.
    Parts(Vec<Part>),
}

/// An exchange, a queue or a binding that is not certainly as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) about: String,
    pub(crate) state: PartState,
    /// What differs, or why it is unknown.
    pub(crate) why: String,
}

/// What is the matter with a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartState {
    Missing,
    Different,
    Unknown,
}

#[cfg(feature = "rabbitmq")]
impl Declared {
    /// Adds the declarations of a program.
    pub(crate) fn add(&mut self, topology: Topology) {
        let declared = self.topology.get_or_insert_default();
        Arc::make_mut(declared).add(topology);
    }

    /// Compares what is there with the declarations.
    pub(crate) async fn compare(&self, admin: &Admin) -> Comparison {
        match &self.topology {
            Some(topology) => compared(admin.topology(topology).await),
            None => Comparison::NotDeclared,
        }
    }
}

#[cfg(not(feature = "rabbitmq"))]
impl Declared {
    #[allow(clippy::unused_async)] // as with the feature
    pub(crate) async fn compare(&self, _: &Admin) -> Comparison {
        let why = "only RabbitMQ has a topology, and this program has no engine for it";
        Comparison::Nothing(why.to_owned())
    }
}

#[cfg(feature = "rabbitmq")]
fn compared(diff: jobq::Result<TopologyDiff>) -> Comparison {
    match diff {
        Ok(diff) => Comparison::Parts(parts(diff)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Comparison::Nothing(error.to_string())
        }
        Err(error) => Comparison::Failed(error.to_string()),
    }
}

/// The parts, the worst first.
#[cfg(feature = "rabbitmq")]
fn parts(diff: TopologyDiff) -> Vec<Part> {
    let (levels, others): (Vec<_>, Vec<_>) =
        diff.missing.into_iter().partition(|about| is_level(about));
    let missing = |about, why: &str| Part { about, state: PartState::Missing, why: why.to_owned() };
    let levels = (!levels.is_empty()).then(|| {
        missing(
            format!("the delay levels, {} parts", levels.len()),
            "All of them are declared when a job first waits for a time that has no queue of its \
             own.",
        )
    });
    let others = others.into_iter().map(|about| missing(about, "It does not exist."));
    let with = |state| move |Difference { about, why, .. }: Difference| Part { about, state, why };
    let different = diff.different.into_iter().map(with(PartState::Different));
    let unknown = diff.unknown.into_iter().map(with(PartState::Unknown));
    others.chain(different).chain(unknown).chain(levels).collect()
}

/// Whether it is a part of the delay levels, which are declared when they are needed first. The
/// names of queues of jobs have a `:` before the name.
#[cfg(feature = "rabbitmq")]
fn is_level(about: &str) -> bool {
    let names = about.split(['`', ' ']);
    let names = names.filter(|name| !name.starts_with("key="));
    names.filter_map(|name| name.split_once(".level.")).any(|(before, _)| !before.contains(':'))
}

#[cfg(all(test, feature = "rabbitmq"))]
mod tests {
    use jobq::Error;

    use super::*;

    #[test]
    fn an_engine_without_a_topology_has_nothing_to_compare() {
        let error = |kind| compared(Err(Error::new(kind, "no")));
        assert!(matches!(error(ErrorKind::Unsupported), Comparison::Nothing(_)));
        assert!(matches!(error(ErrorKind::Connection), Comparison::Failed(_)));
        assert_eq!(compared(Ok(TopologyDiff::default())), Comparison::Parts(Vec::new()));
    }

    #[test]
    fn what_is_missing_comes_first_and_the_delay_levels_are_one_part() {
        let mut diff = TopologyDiff::default();
        let names = ["exchange `a.level.0`", "queue `a:mail`", "queue `a.level.0.1`"];
        diff.missing = names.map(str::to_owned).to_vec();
        let parts: Vec<_> = parts(diff).into_iter().map(|part| part.about).collect();
        assert_eq!(parts, ["queue `a:mail`", "the delay levels, 2 parts"]);
    }

    #[test]
    fn queues_of_jobs_are_no_delay_levels() {
        for (about, expected) in [
            ("exchange `shop.level.0`", true),
            ("queue `shop.level.7.15`", true),
            ("binding shop.level.7 -> shop.level.6 key=0.#", true),
            ("queue `shop:mail.level.1`", false),
            ("binding shop -> shop:mail.level.1 key=mail.level.1", false),
            ("exchange `shop.retry`", false),
        ] {
            assert_eq!(is_level(about), expected, "{about}");
        }
    }
}
