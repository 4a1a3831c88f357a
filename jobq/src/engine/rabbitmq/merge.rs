//! The messages of several consumers of one channel, in the order in which they were sent.
//!
//! Their tags count up over the whole channel, so that the next one is known as such without
//! asking the other consumers, each of which `lapin` keeps behind a lock.

use std::collections::VecDeque;
use std::task::{Context, Poll};

/// A message, or why there is none any more.
pub(crate) type Item<M> = Result<M, String>;

/// What is sent to one consumer.
pub(crate) trait Input {
    type Message;

    /// What is sent next.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Item<Self::Message>>;

    fn tag(message: &Self::Message) -> u64;
}

/// Inputs, each with a number.
pub(crate) struct Merge<I: Input> {
    inputs: Vec<Kept<I>>,
    /// The tag of the last message.
    last: u64,
    /// The place of the input that is asked first.
    turn: usize,
}

struct Kept<I: Input> {
    id: u32,
    input: I,
    /// The messages that are its next.
    here: VecDeque<I::Message>,
}

impl<I: Input> Default for Merge<I> {
    fn default() -> Self {
        Self { inputs: Vec::new(), last: 0, turn: 0 }
    }
}

impl<I: Input> Merge<I> {
    pub(crate) fn add(&mut self, id: u32, input: I) {
        self.inputs.push(Kept { id, input, here: VecDeque::new() });
    }

    /// Asks another input first, so that none waits for long to tell of its end.
    pub(crate) fn turn(&mut self) {
        self.turn = (self.turn + 1) % self.inputs.len().max(1);
    }

    /// What any of the inputs has, and which one, as long as there is one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Item<I::Message>)>> {
        let mut came = true;
        // What was sent before a message that is there is there as well, but maybe only since
        // its input was asked.
        while came {
            came = false;
            for step in 0..self.inputs.len() {
                let place = (self.turn + step) % self.inputs.len();
                let kept = &mut self.inputs[place];
                let (is_new, item) = match kept.here.pop_front() {
                    Some(message) => (false, Poll::Ready(Ok(message))),
                    None => (true, kept.input.poll(cx)),
                };
                match item {
                    Poll::Pending => {}
                    Poll::Ready(Ok(message)) if I::tag(&message) == self.last + 1 => {
                        (self.last, self.turn) = (self.last + 1, place);
                        return Poll::Ready(Some((kept.id, Ok(message))));
                    }
                    Poll::Ready(Ok(message)) => {
                        kept.here.push_front(message);
                        came |= is_new;
                    }
                    Poll::Ready(Err(reason)) => {
                        let id = self.inputs.swap_remove(place).id;
                        return Poll::Ready(Some((id, Err(reason))));
                    }
                }
            }
        }
        // None is the next: tags are missing.
        let tag = |kept: &&mut Kept<I>| kept.here.front().map(I::tag);
        let there = self.inputs.iter_mut().filter(|kept| !kept.here.is_empty());
        match there.min_by_key(tag).and_then(|kept| Some((kept.id, kept.here.pop_front()?))) {
            Some((id, message)) => {
                self.last = I::tag(&message);
                Poll::Ready(Some((id, Ok(message))))
            }
            None if self.inputs.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Why one of these inputs has ended, once one has; what comes meanwhile is kept.
    pub(crate) fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
        these: impl Fn(u32) -> bool,
    ) -> Poll<String> {
        for kept in self.inputs.iter_mut().filter(|kept| these(kept.id)) {
            while let Poll::Ready(item) = kept.input.poll(cx) {
                match item {
                    Ok(message) => kept.here.push_back(message),
                    Err(reason) => return Poll::Ready(reason),
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// What comes each time that it is asked; nothing after the last.
    struct Script(VecDeque<Step>);

    #[derive(Clone, Copy)]
    enum Step {
        Sent(u64),
        Nothing,
        End,
    }
    use Step::{End, Nothing, Sent};

    impl Input for Script {
        type Message = u64;

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<Item<u64>> {
            match self.0.pop_front() {
                Some(Sent(tag)) => Poll::Ready(Ok(tag)),
                Some(End) => Poll::Ready(Err("over".to_owned())),
                Some(Nothing) | None => Poll::Pending,
            }
        }

        fn tag(message: &u64) -> u64 {
            *message
        }
    }

    fn merged(scripts: &[&[Step]]) -> Merge<Script> {
        let mut merge = Merge::default();
        for (id, script) in (0..).zip(scripts) {
            merge.add(id, Script(script.iter().copied().collect()));
        }
        merge
    }

    /// The tags that come one after the other, 0 for the end of an input.
    fn all(merge: &mut Merge<Script>) -> Vec<u64> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut tags = Vec::new();
        while let Poll::Ready(Some((_, item))) = merge.poll(&mut cx) {
            tags.push(item.unwrap_or_default());
        }
        tags
    }

    #[test]
    fn messages_come_in_the_order_in_which_they_were_sent() {
        for (scripts, tags) in [
            (&[&[Sent(1), Sent(2)][..]][..], &[1, 2][..]),
            (&[&[Sent(1), Sent(4), Sent(5)], &[Sent(2), Sent(3), Sent(6)]], &[1, 2, 3, 4, 5, 6]),
            (&[&[Sent(3)], &[Sent(2)], &[Sent(1)]], &[1, 2, 3]),
            // The first one comes between the questions.
            (&[&[Nothing, Sent(1)], &[Sent(2)]], &[1, 2]),
            (&[&[Nothing, Nothing, Sent(2)], &[Sent(1), Sent(3)]], &[1, 2, 3]),
            // A tag that never comes holds nothing up.
            (&[&[Sent(2), Sent(7)], &[Sent(4)]], &[2, 4, 7]),
            // The end of one is told in its turn, and the others go on.
            (&[&[Sent(1), End], &[Sent(2), Sent(3)]], &[1, 0, 2, 3]),
            (&[&[Sent(2), End], &[Sent(1), End]], &[1, 0, 2, 0]),
        ] {
            assert_eq!(all(&mut merged(scripts)), tags);
        }
    }

    #[test]
    fn none_comes_without_an_input() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut merge = merged(&[&[End]]);
        assert!(matches!(merge.poll(&mut cx), Poll::Ready(Some((0, Err(_))))));
        assert!(matches!(merge.poll(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn each_is_asked_first_in_its_turn() {
        let mut cx = Context::from_waker(Waker::noop());
        for (turns, first) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
            let mut merge = merged(&[&[End], &[End], &[End]]);
            (0..turns).for_each(|_| merge.turn());
            assert!(matches!(merge.poll(&mut cx), Poll::Ready(Some((id, Err(_)))) if id == first));
        }
    }

    #[test]
    fn an_end_is_told_before_the_messages_that_are_kept() {
        let mut cx = Context::from_waker(Waker::noop());
        let scripts: &[&[Step]] = &[&[Sent(2), Nothing, Sent(3)], &[Sent(1), End]];
        let mut merge = merged(scripts);
        assert!(merge.poll_end(&mut cx, |id| id == 0).is_pending());
        assert_eq!(merge.poll_end(&mut cx, |id| id == 1), Poll::Ready("over".to_owned()));
        assert_eq!(all(&mut merge), [1, 2, 3]);
    }
}
