//! A page on which people see the queues, pools and failed jobs of jobq, as a router for axum.
//!
//! Mount it in your own application, below a path of your choice and behind your own login:
//!
//! ```
//! use jobq_dashboard::{Access, Dashboard};
//!
//! # fn is_admin(_: &axum::http::request::Parts) -> bool { false }
//! # fn example(client: jobq::Client) -> axum::Router {
//! let dashboard = Dashboard::new(&client)
//!     .access(|request| if is_admin(request) { Access::All } else { Access::No })
//!     .origin("https://shop.example.com")
//!     .prefix("/admin/jobs");
//! axum::Router::new().nest_service("/admin/jobs", dashboard.router())
//! # }
//! ```
//!
//! [`Standalone`] serves it without an application, as the command `jobq dashboard` does.
//!
//! Pages are HTML from the server. All of them can be read and all forms sent without JavaScript.
//! `docs/dashboard.md` in the repository shows them, and compares them with other dashboards.

mod access;
mod activity;
mod assets;
mod dashboard;
#[cfg(feature = "demo")]
pub mod demo;
mod failed;
mod fields;
mod frame;
mod guard;
mod history;
mod links;
mod live;
mod operations;
mod pages;
mod payload;
mod problem;
mod request;
mod sampler;
mod secret;
mod serve;
mod show;
mod spark;
mod standalone;
#[cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]
mod topology;

pub use access::{Access, Action};
pub use dashboard::{Dashboard, Unguarded};
pub use secret::Secret;
pub use serve::serve;
pub use standalone::{Serving, Standalone};

/// The programs in a page of the book.
#[cfg(doctest)]
#[doc = include_str!("../../docs/dashboard.md")]
struct Book;
