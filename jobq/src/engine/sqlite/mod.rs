//! The engine for `sqlite:` URLs: one file, through `rusqlite`.
