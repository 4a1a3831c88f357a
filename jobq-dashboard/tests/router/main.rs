//! The pages, actions and rules of the dashboard, without a browser.

mod actions;
mod kit;
mod live;
mod pages;
mod rabbitmq;
mod security;
mod standalone;
mod topology;
