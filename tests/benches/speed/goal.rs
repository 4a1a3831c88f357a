//! The goals, each beside what was found.

use jobq_tests::measured::table::{head, number, row};

/// One goal, and what was found.
#[derive(Debug)]
pub(crate) struct Goal {
    what: String,
    bound: String,
    found: String,
    met: bool,
}

impl Goal {
    /// A figure that is to be so much or more.
    pub(crate) fn at_least(what: String, goal: f64, found: f64, decimals: usize) -> Self {
        Self::new(what, "at least", found >= goal, [goal, found], decimals)
    }

    /// A figure that is to be so much or less.
    pub(crate) fn at_most(what: String, goal: f64, found: f64, decimals: usize) -> Self {
        Self::new(what, "at most", found <= goal, [goal, found], decimals)
    }

    fn new(what: String, bound: &str, met: bool, figures: [f64; 2], decimals: usize) -> Self {
        let [goal, found] = figures.map(|figure| number(figure, decimals));
        Self { what, bound: format!("{bound} {goal}"), found, met }
    }
}

/// All of them as a table.
pub(crate) fn table(goals: &[Goal]) -> String {
    let mut lines = vec![head(&["", "goal", "found", "met"])];
    lines.extend(goals.iter().map(|Goal { what, bound, found, met }| {
        row::<&str>(&[what, bound, found, if *met { "yes" } else { "**no**" }])
    }));
    lines.join("\n") + "\n"
}
