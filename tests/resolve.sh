#!/usr/bin/env bash
# Asks whether a program that uses jobq and another crate on SQLite can be built: only one crate of
# a program may link SQLite, so both must agree on a version.
set -euo pipefail
cd "$(dirname "$0")/.."
project=$PWD
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
mkdir "$program/src"
echo >"$program/src/lib.rs"

while read -r name; do
  cat >"$program/Cargo.toml" <<TOML
[package]
name = "program"
version = "0.1.0"
edition = "2024"

[dependencies]
jobq = { path = "$project/jobq" }
$name

[workspace]
TOML
  rm -f "$program/Cargo.lock"
  (cd "$program" && cargo generate-lockfile --quiet)
  echo "$name: rusqlite $(sed -n '/^name = "rusqlite"/{n;s/version = //p}' "$program/Cargo.lock")"
done <<'CRATES'
sqlx = { version = "0.8", features = ["sqlite", "runtime-tokio"] }
sqlx = { version = "0.9", features = ["sqlite", "runtime-tokio"] }
sqlx = { version = "0.9", features = ["postgres", "runtime-tokio"] }
sea-orm = { version = "1", features = ["sqlx-sqlite", "runtime-tokio"] }
diesel = { version = "2", features = ["sqlite"] }
rusqlite = "0.32"
rusqlite = "0.37"
rusqlite = "0.39"
rusqlite = "0.41"
tokio-rusqlite = "0.7"
apalis-sqlite = "*"
CRATES
