use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::*;

/// A program's subscriber for events at `INFO` and above. Like those of `tracing-subscriber` it may
/// panic, here if an event does not follow the query for its interest.
struct Heard {
    lines: Mutex<Sender<String>>,
    expects: Mutex<HashSet<thread::ThreadId>>,
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Heard {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_enabled = *metadata.level() <= Level::INFO && metadata.is_event();
        if is_enabled {
            let is_new = lock(&self.expects).insert(thread::current().id());
            assert!(is_new, "the event before was not told");
        }
        is_enabled
    }

    fn event(&self, event: &Event<'_>) {
        lock(&self.expects).remove(&thread::current().id());
        let mut line = Line::default();
        event.record(&mut line);
        let lines = lock(&self.lines);
        let _ = lines.send(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Logs a closed channel as `lapin` does.
fn closed(channel: u16, reply_code: u16, text: &'static str) {
    #[derive(Debug)]
    #[allow(dead_code)] // shown by `Debug`
    struct Close {
        reply_code: u16,
    }
    let method = Close { reply_code };
    tracing::error!(target: "lapin::channel", %channel, ?method, "{text}");
}

/// Logs a failed operation on a closed connection as `lapin` does.
fn too_late(text: &'static str) {
    for error in ["invalid channel state: Closing (channel.close)", "invalid channel: 12"] {
        tracing::error!(target: "lapin::channels", %error, "{text}");
    }
}

/// The lines before this last one.
fn lines_to(last: &str, lines: &Receiver<String>) -> Vec<String> {
    let next = || lines.recv_timeout(Duration::from_secs(60)).expect("the last line is told");
    std::iter::repeat_with(next).take_while(|line| line != last).collect()
}

#[test]
fn refusals_are_dropped_and_other_events_reach_a_later_subscriber() {
    let questions = Questions::default();
    let (filter, (go, gone)) = (LogFilter::new(questions.clone()), channel::<()>());
    let (ready, steps) = channel();
    let connection = thread::spawn(move || {
        filter.filter_this_thread();
        tracing::error!("nobody hears");
        let _ = ready.send(());
        // The subscriber is found shortly after it was installed.
        while gone.try_recv().is_err() {
            tracing::error!("is heard");
        }
        closed(7, 404, "an answer");
        closed(7, 403, "an answer, too");
        closed(7, 504, "another reason");
        closed(8, 404, "another channel");
        too_late("closed by somebody else");
        tracing::info!("no error");
        tracing::debug!("too little");
        tracing::error!("the last");
        let _ = ready.send(());
        let _ = gone.recv();
        closed(7, 404, "the question is over");
        too_late("closed by jobq");
        tracing::error!(target: "lapin::channels", error = %"a broken pipe", "news");
        tracing::error!("the last");
    });
    steps.recv().unwrap();
    let (heard, lines) = channel();
    let subscriber = Heard { lines: Mutex::new(heard), expects: Mutex::default() };
    dispatcher::set_global_default(Dispatch::new(subscriber)).expect("there is none");
    tracing::warn!("of another thread");
    assert_eq!(lines_to("is heard", &lines), ["of another thread"]);
    let question = questions.ask(7);
    go.send(()).unwrap();
    let mut told = lines_to("the last", &lines);
    told.retain(|line| line != "is heard");
    let somebody = "closed by somebody else";
    assert_eq!(told, ["another reason", "another channel", somebody, somebody, "no error"]);
    drop(question);
    questions.end();
    steps.recv().unwrap();
    go.send(()).unwrap();
    assert_eq!(lines_to("the last", &lines), ["the question is over", "news"]);
    connection.join().unwrap();
}
