//! Awaiting on a thread of its own, without entering a runtime: a function may do that itself.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake};

use crate::guard::lock;

/// Whether the future was woken. Parking the thread instead could lose a wake to a function that
/// parks it, too.
#[derive(Default)]
struct Waiter {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.woken.notify_one();
    }
}

/// Polls a future on this thread until it is ready.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, waiter) = (pin!(future), Arc::new(Waiter::default()));
    let waker = Arc::clone(&waiter).into();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        let woken = waiter.woken.wait_while(lock(&waiter.is_woken), |is_woken| !*is_woken);
        *woken.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_future_is_awaited_that_another_thread_wakes() {
        assert_eq!(block_on(async { 7 }), 7);
        let (send, receive) = oneshot::channel();
        let other = thread::spawn(move || send.send(7));
        assert_eq!(block_on(receive), Ok(7));
        other.join().unwrap().unwrap();
    }
}
