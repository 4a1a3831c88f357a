//! Connections that end in every way, while jobs are enqueued, taken, run, settled and
//! published again, and while pools shut down. A ledger that is none of jobq's tells at the
//! end that nothing is lost and each duplicate is a cut's.

mod cuts;
mod faults;
mod proxied;
