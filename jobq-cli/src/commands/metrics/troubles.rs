//! The troubles of queues that last, so that each is told once when it begins and once when it is
//! over. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jobq::admin::{Figure, Overview, Passage, QueueOverview};

use crate::commands::LEVELS;
use crate::commands::queues::hindrance;

/// The kinds of trouble of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// Jobs that are due.
    Due,
    /// Jobs that wait in the broker.
    Waits,
}

/// A trouble, or that there is none.
type Trouble = Figure<Option<&'static str>>;

/// The known state of a queue.
pub(super) type Sign<'q> = (&'q str, About, Trouble);

/// The begin or the end of a trouble.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) queue: String,
    pub(super) trouble: &'static str,
    pub(super) is_over: bool,
}

/// The troubles that last.
#[derive(Debug, Default)]
pub(super) struct Troubles(BTreeMap<(String, About), &'static str>);

impl Troubles {
    /// The changes since the last look. An unknown state changes nothing.
    pub(super) fn look<'q>(&mut self, signs: impl IntoIterator<Item = Sign<'q>>) -> Vec<Change> {
        let change = |(queue, about, trouble): Sign<'q>| {
            let queue = queue.to_owned();
            match (self.0.entry((queue.clone(), about)), trouble) {
                (Entry::Occupied(entry), Figure::Known(None)) => {
                    Some(Change { queue, trouble: entry.remove(), is_over: true })
                }
                (Entry::Occupied(mut entry), Figure::Known(Some(trouble))) => {
                    let is_new = entry.insert(trouble) != trouble;
                    is_new.then_some(Change { queue, trouble, is_over: false })
                }
                (Entry::Vacant(entry), Figure::Known(Some(trouble))) => {
                    entry.insert(trouble);
                    Some(Change { queue, trouble, is_over: false })
                }
                (_, Figure::Known(None) | Figure::Unknown(_)) => None,
            }
        };
        signs.into_iter().filter_map(change).collect()
    }
}

/// The known states of these queues and of the delay levels.
pub(super) fn signs(overview: &Overview) -> impl Iterator<Item = Sign<'_>> {
    let levels = (LEVELS, About::Waits, waits(&overview.levels));
    overview.queues.iter().flat_map(of_queue).chain([levels])
}

fn of_queue(queue: &QueueOverview) -> [Sign<'_>; 2] {
    let due = hindrance(queue.state, &queue.ready);
    [(&queue.queue, About::Due, due), (&queue.queue, About::Waits, waits(&queue.waits))]
}

/// The trouble that a passage of waiting jobs means.
fn waits(passage: &Figure<Option<Passage>>) -> Trouble {
    passage.clone().map(|passage| match passage? {
        Passage::Late => Some("a probe of waiting jobs is late"),
        Passage::Stuck => Some("jobs that wait do not come through"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_told_when_it_begins_and_when_it_is_over() {
        let mut troubles = Troubles::default();
        let (fine, held, alone) = (Figure::Known(None), "every slot is held", "no pool");
        let told = |trouble, is_over| Change { queue: "mail".into(), trouble, is_over };
        let late = "a probe of waiting jobs is late";
        let table: [(Sign<'_>, Option<Change>); 10] = [
            (("mail", About::Due, fine.clone()), None),
            (("mail", About::Due, Figure::Known(Some(held))), Some(told(held, false))),
            (("mail", About::Due, Figure::Known(Some(held))), None),
            (
                ("mail", About::Waits, waits(&Figure::Known(Some(Passage::Late)))),
                Some(told(late, false)),
            ),
            // Nobody knows whether it is over.
            (("mail", About::Due, Figure::unknown("no answer")), None),
            (("mail", About::Due, Figure::Known(Some(alone))), Some(told(alone, false))),
            (("mail", About::Due, fine.clone()), Some(told(alone, true))),
            (("mail", About::Due, fine.clone()), None),
            (("video", About::Waits, waits(&Figure::Known(Some(Passage::Passing)))), None),
            (("mail", About::Waits, waits(&Figure::Known(None))), Some(told(late, true))),
        ];
        for (sign, expected) in table {
            let found = troubles.look([sign.clone()]);
            assert_eq!(found, Vec::from_iter(expected), "{sign:?}");
        }
    }
}
