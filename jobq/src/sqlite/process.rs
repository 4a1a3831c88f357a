//! Checks whether another process on this machine runs, if the system can tell.
//!
//! A process id is not enough: ids are reused, and each container has its own. A process is
//! therefore identified by its id, the clock since boot, the namespace of the ids and the start of
//! the process by that clock. If the clock or the namespace differs, nothing is known.

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::ErrorKind;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use crate::sqlite::clock_id;

    /// The text that identifies this process, for [`runs`].
    pub(in super::super) fn own() -> Option<String> {
        let pid = std::process::id();
        Some(format!("{} {pid} {}", place()?, started(pid).ok()??.at))
    }

    /// The clock since boot and the namespace of process ids.
    fn place() -> Option<String> {
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{} {}", clock_id::own()?.as_str(), namespace.display()))
    }

    /// Whether the process of this text runs; `None` if that cannot be told.
    pub(in super::super) fn runs(text: &str) -> Option<bool> {
        let mut words = text.rsplitn(3, ' ');
        let (at, pid, there) = (words.next()?, words.next()?, words.next()?);
        let pid = pid.parse::<u32>().ok()?;
        if place()? != there {
            return None;
        }
        match started(pid) {
            Ok(Some(found)) => Some(found.at == at && !found.is_zombie),
            // Processes of other users may be hidden there.
            Err(ErrorKind::NotFound) => is_unknown(pid).then_some(false),
            Ok(None) | Err(_) => None,
        }
    }

    fn is_unknown(pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    struct Started {
        /// The start time, in clock ticks since boot.
        at: String,
        /// Whether it has ended and its parent has not waited for it.
        is_zombie: bool,
    }

    /// `None` if the system uses another format.
    fn started(pid: u32) -> Result<Option<Started>, ErrorKind> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.kind())?;
        // The name of the program is in parentheses, and may have some itself.
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            return Ok(None);
        };
        let words: Vec<_> = rest.split(' ').collect();
        // The third field of `proc_pid_stat(5)` is the first here, and the 22nd is the start.
        Ok(words.get(19).map(|at| Started { at: (*at).to_owned(), is_zombie: words[0] == "Z" }))
    }

    #[cfg(test)]
    mod tests {
        use std::process::{Command, Stdio};

        use super::super::has_ended;
        use super::*;

        #[test]
        fn an_ended_process_is_detected() {
            let own = own().expect("Linux tells");
            assert_eq!(runs(&own), Some(true));
            let (start, _) = own.rsplit_once(' ').unwrap();
            assert!(has_ended(&format!("{start} 1")), "its id was given again");

            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let at = started(child.id()).unwrap().unwrap().at;
            let text = format!("{} {} {at}", place().unwrap(), child.id());
            assert!(!has_ended(&text));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(has_ended(&text));
            for elsewhere in [
                text.replacen(' ', "x ", 1),
                text.replacen(' ', " time:[1] ", 1),
                text.replace("pid:[", "pid:[1"),
            ] {
                assert_eq!(runs(&elsewhere), None, "nothing is known of it");
            }
        }

        #[test]
        fn no_text_is_too_strange() {
            for text in ["", " ", "a b", "a b c", "a b -1 1", "a b 99999999999 1", "ü 0 0"] {
                assert_eq!(runs(text), None, "{text}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{own, runs};

/// Other systems are not supported.
#[cfg(not(target_os = "linux"))]
pub(super) fn own() -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn runs(_: &str) -> Option<bool> {
    None
}

/// Whether the process of this text has certainly ended.
pub(super) fn has_ended(text: &str) -> bool {
    runs(text) == Some(false)
}
