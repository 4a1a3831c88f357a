//! Waits of any length: none early, none lost, and none that makes a job grow.

mod headers;
mod late;
mod outage;
