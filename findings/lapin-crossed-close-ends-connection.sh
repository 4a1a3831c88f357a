#!/usr/bin/env bash
# lapin ends the whole connection when its own channel.close and the broker's cross.
#
# Seen with lapin 4.12.3 on RabbitMQ 3.10.8. A program asks for a queue that does not exist, by a passive queue_declare,
# and gives up before the answer: a time limit, or a select. Dropping the last handle of the channel sends channel.close.
# The broker has answered the question by a channel.close of its own (404), and answers the program's by close-ok, as
# AMQP 0-9-1 says. lapin has set the channel to closed when it answered the broker's close, takes the close-ok for an
# error of the connection, and ends it: all other channels of the connection are lost, with their consumers and with the
# publishes that are not confirmed.
# A channel that is dropped after the answer to a further request on it (here basic.qos) ends alone.
#
# Output seen:
#
#   dropped before the answer: connection lost: true
#   dropped after a further answer: connection lost: false
#
# It needs cargo, and the program of RabbitMQ in /usr/lib/rabbitmq/bin (Debian: rabbitmq-server), of which it starts a
# private node.
set -euo pipefail

folder=$(mktemp -d)
port=$((20000 + RANDOM % 10000))
export HOME=$folder RABBITMQ_NODENAME=finding-$port@localhost RABBITMQ_NODE_PORT=$port RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
export RABBITMQ_DIST_PORT=$((port + 10000)) ERL_EPMD_PORT=$((port + 20000)) ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_MNESIA_BASE=$folder/data RABBITMQ_LOG_BASE=$folder/log RABBITMQ_ENABLED_PLUGINS_FILE=$folder/plugins
export RABBITMQ_CONFIG_FILE=$folder/none RABBITMQ_GENERATED_CONFIG_DIR=$folder/config RABBITMQ_PID_FILE=$folder/pid
cargo_home=${CARGO_HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)/.cargo}
rustup_home=${RUSTUP_HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)/.rustup}
echo '[].' >"$folder/plugins"
# As a child: the broker would start a daemon that outlives it.
epmd &
names=$!
setsid /usr/lib/rabbitmq/bin/rabbitmq-server >"$folder/output" 2>&1 &
node=$!
end() {
  kill -- "-$node" 2>/dev/null || true
  wait "$node" 2>/dev/null || true
  kill "$names" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT

mkdir -p "$folder/crossed/src"
cat >"$folder/crossed/Cargo.toml" <<'TOML'
[package]
name = "crossed"
version = "0.0.0"
edition = "2024"

[dependencies]
futures-util = "=0.3.31"
lapin = { version = "=4.12.3", default-features = false, features = ["tokio"] }
tokio = { version = "1", features = ["full"] }
TOML
cat >"$folder/crossed/src/main.rs" <<'RUST'
use std::time::Duration;

use futures_util::FutureExt as _;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

#[tokio::main]
async fn main() -> Result<(), lapin::Error> {
    let url = std::env::args().nth(1).unwrap();
    for asks_again in [false, true] {
        let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let looking = channel.queue_declare("missing".into(), passive, FieldTable::default());
        assert!(looking.now_or_never().is_none());
        if asks_again {
            assert!(channel.basic_qos(1, Default::default()).await.is_err());
        }
        drop(channel);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let lost = !connection.status().connected();
        match asks_again {
            false => println!("dropped before the answer: connection lost: {lost}"),
            true => println!("dropped after a further answer: connection lost: {lost}"),
        }
    }
    Ok(())
}
RUST
CARGO_HOME=$cargo_home RUSTUP_HOME=$rustup_home CARGO_TARGET_DIR=$folder/target \
  cargo build --quiet --manifest-path "$folder/crossed/Cargo.toml"
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 "$node" || { cat "$folder/output" && exit 1; }
  sleep 1
done
found=$("$folder/target/debug/crossed" "amqp://127.0.0.1:$port")
printf '%s\n' "$found"
[ "$found" = "dropped before the answer: connection lost: true
dropped after a further answer: connection lost: false" ] || { echo "CHANGED"; exit 1; }
