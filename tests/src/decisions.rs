//! What processes wrote down of their decisions, compared with the ends of attempts in the ledger.

use std::collections::HashMap;

use crate::account::Account;
use crate::ledger::End;

/// The ends of attempts that the lines lack: those of a process that was killed between an end and
/// the decision. A line is the name of a process and a word, of which `end` tells the end.
///
/// # Panics
///
/// If lines tell what did not happen, or lack an end of a process that was not killed.
#[must_use]
pub fn missing(account: &Account, lines: &str, end: impl Fn(&str) -> Option<End>) -> usize {
    let mut counted = HashMap::<(&str, End), usize>::new();
    for line in lines.lines() {
        let (who, word) = line.split_once(' ').expect("a name and a word");
        if let Some(end) = end(word) {
            *counted.entry((who, end)).or_default() += 1;
        }
    }
    let mut missing = 0;
    for ((who, end), ended) in account.ends() {
        let counted = counted.remove(&(who, *end)).unwrap_or_default();
        let lacking = ended.checked_sub(counted);
        let lacking = lacking.unwrap_or_else(|| panic!("{who}: {counted} of {ended} {end:?}"));
        assert!(lacking == 0 || account.is_killed(who), "{who}: {counted} of {ended} {end:?}");
        missing += lacking;
    }
    assert!(counted.is_empty(), "nobody ended these: {counted:?}");
    missing
}
