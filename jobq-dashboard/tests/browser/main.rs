//! The dashboard in a real browser: headless Chromium, led through `chromedriver`.
//!
//! `./tests/run` installs both. Without them the tests are skipped, and say so.

mod accessibility;
mod actions;
mod driver;
mod live;
mod long;
mod shop;
