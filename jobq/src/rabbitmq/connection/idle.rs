//! Channels to be used again.

use std::sync::Mutex;

use lapin::Channel;

use crate::guard::lock;

/// The most channels that are kept. No call uses more at a time.
const MOST: usize = 16;

/// Channels that nobody uses for now. To open and to close one costs the broker more than the
/// questions that are asked on it.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<Channel>>);

impl Idle {
    /// One that is open, if there is one.
    pub(crate) fn take(&self) -> Option<Channel> {
        let mut channels = lock(&self.0);
        channels.retain(|channel| channel.status().connected());
        channels.pop()
    }

    /// Keeps a channel on which all questions were answered, if it is still open.
    pub(crate) fn keep(&self, channel: Channel) {
        let mut channels = lock(&self.0);
        if channels.len() < MOST && channel.status().connected() {
            channels.push(channel);
        }
    }
}
