#!/usr/bin/env bash
# In sqlx, a nested begin whose future is dropped rolls the outer transaction back, and commit says Ok.
#
# Seen with sqlx 0.9.0 (sqlx-postgres 0.9.0), PostgreSQL 15.18. A program inserts a row in a transaction and
# begins a nested one, a savepoint, with a timeout that passes, since the server is slow. It goes on in the outer transaction, inserts
# another row, and commits. One expects both rows: a savepoint that does not come to be leaves the outer
# transaction as it is. Or none, with an error of the commit. What is there is the second row alone: the
# clean-up of the dropped begin counts the depth of the transaction as it was before the savepoint, and
# sends ROLLBACK in place of ROLLBACK TO SAVEPOINT. Each further statement then commits by itself, and
# commit, with no transaction left, answers Ok. A program sees it by is_in_transaction() alone.
#
# Output seen:
#
#   before the nested begin: in a transaction true
#   after it was dropped: in a transaction false
#   commit: Ok(())
#   rows: ["second"]
#
# It needs cargo, and the programs of a PostgreSQL server (initdb, postgres) below /usr/lib/postgresql.
set -euo pipefail

folder=$(mktemp -d /tmp/finding-XXXXXX)
server=
trap '[ -z "$server" ] || kill -QUIT "$server"; wait; rm -rf "$folder"' EXIT
chmod 777 "$folder"
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
user=()
[ "$(id -u)" -ne 0 ] || user=(setpriv --reuid postgres --regid postgres --clear-groups)
"${user[@]}" "$programs/initdb" --no-sync -A trust -U postgres -D "$folder/data" >/dev/null
"${user[@]}" "$programs/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= 2>/dev/null &
server=$!
until "$programs/pg_isready" -q -h "$folder"; do sleep 0.1; done

mkdir -p "$folder/nested/src"
cat >"$folder/nested/Cargo.toml" <<'TOML'
[package]
name = "nested"
version = "0.0.0"
edition = "2024"

[dependencies]
sqlx = { version = "=0.9.0", default-features = false, features = ["postgres", "runtime-tokio"] }
tokio = { version = "1", features = ["full"] }
TOML
cat >"$folder/nested/src/main.rs" <<'RUST'
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

fn signal(name: &str, process: i32) {
    let mut kill = std::process::Command::new("kill");
    assert!(kill.arg(name).arg(process.to_string()).status().unwrap().success());
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sqlx::Error> {
    let url = std::env::args().nth(1).unwrap();
    let mut db = PgConnection::connect(&url).await?;
    sqlx::query("CREATE TABLE orders (name text)").execute(&mut db).await?;
    let mut tx = db.begin().await?;
    sqlx::query("INSERT INTO orders VALUES ('first')").execute(&mut *tx).await?;
    println!("before the nested begin: in a transaction {}", tx.is_in_transaction());
    // The server is slow to answer.
    let server: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await?;
    signal("-STOP", server);
    assert!(timeout(Duration::from_millis(100), tx.begin()).await.is_err(), "the timeout passes");
    signal("-CONT", server);
    sqlx::query("INSERT INTO orders VALUES ('second')").execute(&mut *tx).await?;
    println!("after it was dropped: in a transaction {}", tx.is_in_transaction());
    println!("commit: {:?}", tx.commit().await);
    let rows: Vec<String> = sqlx::query_scalar("SELECT name FROM orders").fetch_all(&mut db).await?;
    println!("rows: {rows:?}");
    Ok(())
}
RUST
found=$(CARGO_TARGET_DIR="$folder/target" cargo run --quiet --manifest-path "$folder/nested/Cargo.toml" \
  -- "postgres://postgres@${folder//\//%2F}/postgres")
printf '%s\n' "$found"
[ "$found" = 'before the nested begin: in a transaction true
after it was dropped: in a transaction false
commit: Ok(())
rows: ["second"]' ] || { echo "CHANGED"; exit 1; }
