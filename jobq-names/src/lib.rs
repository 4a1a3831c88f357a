//! The rules that the macros of jobq check when a program compiles and its runtime checks again:
//! the [names](name) of jobs and queues, the [topics](topic) of events, [periods](period), and the
//! [times](cron) of periodic jobs. Beside them is the rule for the text of [settings](setting).
//!
//! Programs use them through the `jobq` crate.

pub mod cron;
pub mod name;
pub mod period;
pub mod setting;
pub mod topic;
