//! Which part of the topology an upkeep check covers: large topologies take turns. Pure.

use super::declaration::Declaration;
use super::names::Names;
use super::plan::Topology;
use super::requirements::Wanted;

/// The most queues in one check.
const QUEUES: usize = 256;
/// The most bindings that one check declares again. An existing one takes RabbitMQ 4.3 some 4 ms,
/// and 3.10 and 4.0 some 0.5 ms (measured).
const BINDINGS: usize = 32;

/// The part of one check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Exchanges and queues.
    pub(crate) places: Vec<Declaration>,
    pub(crate) bindings: Vec<Declaration>,
}

/// The start of the next check.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    queue: usize,
    binding: usize,
    level: u32,
}

impl Rotation {
    /// The next part: all exchanges, and as many queues and bindings as a check may cover. Of the
    /// levels it is one at a time.
    pub(crate) fn next(&mut self, names: &Names, known: &Wanted) -> Part {
        let topology = Topology::new(names, &Wanted { levels: 0, ..known.clone() });
        let (exchanges, others): (Vec<_>, Vec<_>) =
            topology.into_declarations().partition(|d| matches!(d, Declaration::Exchange { .. }));
        let (queues, bindings): (Vec<_>, Vec<_>) =
            others.into_iter().partition(Declaration::is_place);
        let mut part = Part { places: exchanges, bindings: Vec::new() };
        part.places.extend(window(queues, &mut self.queue, QUEUES));
        part.bindings.extend(window(bindings, &mut self.binding, BINDINGS));
        if known.levels > 0 {
            let level = Topology::of_level(names, self.level % known.levels);
            self.level = (self.level + 1) % known.levels;
            let (places, bindings): (Vec<_>, Vec<_>) =
                level.into_declarations().partition(Declaration::is_place);
            part.places.extend(places);
            part.bindings.extend(bindings);
        }
        part
    }
}

/// The next `most` items, starting over after the last.
fn window(all: Vec<Declaration>, next: &mut usize, most: usize) -> Vec<Declaration> {
    let (count, start) = (all.len(), *next);
    if count <= most {
        *next = 0;
        return all;
    }
    *next = (start + most) % count;
    all.into_iter().cycle().skip(start % count).take(most).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::engine::QueueSpec;

    fn known(queues: usize, levels: u32) -> Wanted {
        let specs: Vec<_> = (0..queues)
            .map(|number| QueueSpec::new(format!("queue{number}")).patterns([format!("t{number}")]))
            .collect();
        Wanted { levels, ..Wanted::queues(&specs) }
    }

    fn seen(rotation: &mut Rotation, known: &Wanted, looks: usize) -> BTreeSet<String> {
        let names = Names::new("jobq");
        let parts = (0..looks).map(|_| rotation.next(&names, known));
        parts
            .flat_map(|part| part.places.into_iter().chain(part.bindings))
            .map(|declaration| declaration.to_string())
            .collect()
    }

    fn all(known: &Wanted) -> BTreeSet<String> {
        let topology = Topology::new(&Names::new("jobq"), known);
        topology.declarations().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_small_topology_is_looked_at_as_a_whole() {
        let small = known(3, 0);
        let mut rotation = Rotation::default();
        for _ in 0..3 {
            assert_eq!(seen(&mut rotation, &small, 1), all(&small));
        }
    }

    #[test]
    fn all_have_their_turn() {
        // 6 bindings a queue.
        for (queues, levels, looks) in [(3, 8, 8), (3, 5, 5), (40, 0, 8), (300, 0, 57)] {
            let known = known(queues, levels);
            let unseen = |looks| {
                let seen = seen(&mut Rotation::default(), &known, looks);
                all(&known).difference(&seen).count()
            };
            assert_ne!(unseen(looks - 1), 0, "{queues}");
            assert_eq!(unseen(looks), 0, "{queues}");
        }
    }

    #[test]
    fn a_look_is_bounded_and_has_all_exchanges() {
        let known = known(300, 8);
        let mut rotation = Rotation::default();
        for _ in 0..100 {
            let part = rotation.next(&Names::new("jobq"), &known);
            let exchange = |place: &&Declaration| matches!(place, Declaration::Exchange { .. });
            let exchanges = part.places.iter().filter(exchange).count();
            assert_eq!(exchanges, 11, "{part:?}");
            assert!(part.places.len() <= exchanges + QUEUES + 15, "{}", part.places.len());
            assert!(part.bindings.len() <= BINDINGS + 16, "{}", part.bindings.len());
        }
    }

    #[test]
    fn a_smaller_topology_starts_over() {
        let mut rotation = Rotation::default();
        seen(&mut rotation, &known(300, 8), 20);
        let small = known(2, 0);
        assert_eq!(seen(&mut rotation, &small, 1), all(&small));
        assert!(
            seen(&mut rotation, &Wanted::shared(), 1)
                .contains("exchange jobq.retry direct alternate-exchange=jobq.orphan")
        );
    }
}
