//! What takes long. `./tests/run --all` alone runs it: the profile `default` in `.config/nextest.toml`
//! leaves this module out.

mod hidden;
mod nginx;
mod outage;
mod silent;
