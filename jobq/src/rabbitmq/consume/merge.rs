//! Merges the messages of a channel's consumers into the order of sending.
//!
//! Their tags count up over the whole channel, so the next one is recognized without polling the
//! other consumers, each of which `lapin` keeps behind a lock.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;

/// An item of a consumer's stream.
pub(crate) trait Tagged {
    /// The tag of a message. An item without a tag is the end of the consumer.
    fn tag(&self) -> Option<u64>;
}

/// Numbered consumers. One that has ended yields nothing, or an item without a tag.
pub(crate) struct Merge<S: Stream> {
    inputs: Vec<Kept<S>>,
    /// The tag of the last message.
    last: u64,
    /// The position of the input that is polled first.
    turn: usize,
}

struct Kept<S: Stream> {
    id: u32,
    input: S,
    /// Its messages that have arrived.
    here: VecDeque<S::Item>,
}

impl<S: Stream> Default for Merge<S> {
    fn default() -> Self {
        Self { inputs: Vec::new(), last: 0, turn: 0 }
    }
}

impl<S> Merge<S>
where
    S: Stream<Item: Tagged> + Unpin,
{
    pub(crate) fn add(&mut self, id: u32, input: S) {
        self.inputs.push(Kept { id, input, here: VecDeque::new() });
    }

    /// Polls another input first, so that each soon reports its end.
    pub(crate) fn turn(&mut self) {
        self.turn = (self.turn + 1) % self.inputs.len().max(1);
    }

    /// The next item of any input, with the number of the input. `None` without inputs.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Option<S::Item>)>> {
        let next = Some(self.last + 1);
        let mut came = true;
        // Messages that were sent before one that has arrived have arrived too, but maybe only
        // after their input was polled.
        while came {
            came = false;
            for step in 0..self.inputs.len() {
                let place = (self.turn + step) % self.inputs.len();
                let kept = &mut self.inputs[place];
                let front = kept.here.front().map(S::Item::tag);
                let item = match front {
                    Some(tag) if tag == next => kept.here.pop_front(),
                    Some(_) => continue,
                    None => match Pin::new(&mut kept.input).poll_next(cx) {
                        Poll::Ready(item) => item,
                        Poll::Pending => continue,
                    },
                };
                match item.as_ref().and_then(Tagged::tag) {
                    None => {
                        let id = self.inputs.swap_remove(place).id;
                        return Poll::Ready(Some((id, item)));
                    }
                    tag if tag == next => {
                        (self.last, self.turn) = (self.last + 1, place);
                        return Poll::Ready(Some((kept.id, item)));
                    }
                    Some(_) => {
                        kept.here.extend(item);
                        came = true;
                    }
                }
            }
        }
        // No item has the next tag: tags are missing.
        let tag = |kept: &&mut Kept<S>| kept.here.front().and_then(Tagged::tag);
        let there = self.inputs.iter_mut().filter(|kept| !kept.here.is_empty());
        match there.min_by_key(tag).map(|kept| (kept.id, kept.here.pop_front())) {
            Some((id, message)) => {
                self.last = message.as_ref().and_then(Tagged::tag).unwrap_or(self.last);
                Poll::Ready(Some((id, message)))
            }
            None if self.inputs.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The end of one of these inputs. Messages that arrive meanwhile are kept.
    pub(crate) fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
        these: impl Fn(u32) -> bool,
    ) -> Poll<Option<S::Item>> {
        for kept in self.inputs.iter_mut().filter(|kept| these(kept.id)) {
            while let Poll::Ready(item) = Pin::new(&mut kept.input).poll_next(cx) {
                if item.as_ref().and_then(Tagged::tag).is_none() {
                    return Poll::Ready(item);
                }
                kept.here.extend(item);
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Yields one step on each poll, and nothing after the last.
    struct Script(VecDeque<Step>);

    #[derive(Clone, Copy)]
    enum Step {
        Sent(u64),
        Nothing,
        Broken,
        End,
    }
    use Step::{Broken, End, Nothing, Sent};

    impl Stream for Script {
        type Item = Result<u64, ()>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            match self.0.pop_front() {
                Some(Sent(tag)) => Poll::Ready(Some(Ok(tag))),
                Some(Broken) => Poll::Ready(Some(Err(()))),
                Some(End) => Poll::Ready(None),
                Some(Nothing) | None => Poll::Pending,
            }
        }
    }

    impl Tagged for Result<u64, ()> {
        fn tag(&self) -> Option<u64> {
            self.ok()
        }
    }

    fn merged(scripts: &[&[Step]]) -> Merge<Script> {
        let mut merge = Merge::default();
        for (id, script) in (0..).zip(scripts) {
            merge.add(id, Script(script.iter().copied().collect()));
        }
        merge
    }

    /// The tags in the order of arrival, 0 for the end of an input.
    fn all(merge: &mut Merge<Script>) -> Vec<u64> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut tags = Vec::new();
        while let Poll::Ready(Some((_, item))) = merge.poll(&mut cx) {
            tags.push(item.and_then(Result::ok).unwrap_or_default());
        }
        tags
    }

    #[test]
    fn messages_come_in_the_order_in_which_they_were_sent() {
        for (scripts, tags) in [
            (&[&[Sent(1), Sent(2)][..]][..], &[1, 2][..]),
            (&[&[Sent(1), Sent(4), Sent(5)], &[Sent(2), Sent(3), Sent(6)]], &[1, 2, 3, 4, 5, 6]),
            (&[&[Sent(3)], &[Sent(2)], &[Sent(1)]], &[1, 2, 3]),
            // The first message arrives between the polls.
            (&[&[Nothing, Sent(1)], &[Sent(2)]], &[1, 2]),
            (&[&[Nothing, Nothing, Sent(2)], &[Sent(1), Sent(3)]], &[1, 2, 3]),
            // A missing tag blocks nothing.
            (&[&[Sent(2), Sent(7)], &[Sent(4)]], &[2, 4, 7]),
            // The end of one input comes in its turn, and the others go on.
            (&[&[Sent(1), End], &[Sent(2), Sent(3)]], &[1, 0, 2, 3]),
            (&[&[Sent(2), End], &[Sent(1), Broken]], &[1, 0, 2, 0]),
        ] {
            assert_eq!(all(&mut merged(scripts)), tags);
        }
    }

    #[test]
    fn none_comes_without_an_input() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut merge = merged(&[&[End]]);
        assert!(matches!(merge.poll(&mut cx), Poll::Ready(Some((0, None)))));
        assert!(matches!(merge.poll(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn each_is_asked_first_in_its_turn() {
        let mut cx = Context::from_waker(Waker::noop());
        for (turns, first) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
            let mut merge = merged(&[&[End], &[End], &[End]]);
            (0..turns).for_each(|_| merge.turn());
            assert!(matches!(merge.poll(&mut cx), Poll::Ready(Some((id, None))) if id == first));
        }
    }

    #[test]
    fn an_end_is_told_before_the_messages_that_are_kept() {
        let mut cx = Context::from_waker(Waker::noop());
        let scripts: &[&[Step]] = &[&[Sent(2), Nothing, Sent(3)], &[Sent(1), Broken]];
        let mut merge = merged(scripts);
        assert!(merge.poll_end(&mut cx, |id| id == 0).is_pending());
        assert_eq!(merge.poll_end(&mut cx, |id| id == 1), Poll::Ready(Some(Err(()))));
        assert_eq!(all(&mut merge), [1, 2, 3]);
    }
}
