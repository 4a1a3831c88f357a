//! A broker that takes nothing, for want of memory or disk, and one whose policy limits a
//! queue: nothing is lost, callers learn what it is, and all goes on when it is over.

mod alarm;
mod limit;
mod orders;
