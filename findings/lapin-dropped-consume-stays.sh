#!/usr/bin/env bash
# lapin keeps a consumer whose basic_consume future was dropped before the broker answered.
#
# Seen with lapin 4.12.3 on RabbitMQ 3.10.8. A program awaits basic_consume with a time limit, or in a select, and gives
# up; it also drops the channel. In tokio, and in lapin for the channel itself, dropping ends what was begun. Here the
# broker's answer registers the consumer in the channel, which holds itself for as long as it has a consumer: neither
# basic.cancel nor channel.close is sent. The broker goes on to send messages, which nobody can take or settle, until
# the connection ends. With a single active consumer, no other consumer gets any.
# Closing the channel explicitly (Channel::close) after the drop ends the consumer.
#
# Output seen:
#
#   dropped before the answer: consumers 1, ready 0, after 3 s and another channel
#   dropped, and the channel closed: consumers 0, ready 1
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

mkdir -p "$folder/drops/src"
cat >"$folder/drops/Cargo.toml" <<'TOML'
[package]
name = "drops"
version = "0.0.0"
edition = "2024"

[dependencies]
futures-util = "=0.3.31"
lapin = { version = "=4.12.3", default-features = false, features = ["tokio"] }
tokio = { version = "1", features = ["full"] }
TOML
cat >"$folder/drops/src/main.rs" <<'RUST'
use std::time::Duration;

use futures_util::FutureExt as _;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};

#[tokio::main]
async fn main() -> Result<(), lapin::Error> {
    let url = std::env::args().nth(1).unwrap();
    let connect = || Connection::connect(&url, ConnectionProperties::default());
    let (other, connection) = (connect().await?, connect().await?);
    let looks = other.create_channel().await?;
    for closes in [false, true] {
        let queue = if closes { "closed" } else { "dropped" };
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        looks.queue_declare(queue.into(), durable, FieldTable::default()).await?;
        let channel = connection.create_channel().await?;
        let consuming = channel.basic_consume(
            queue.into(), "tag".into(), BasicConsumeOptions::default(), FieldTable::default(),
        );
        assert!(consuming.now_or_never().is_none());
        if closes {
            channel.close(200, "not wanted".into()).await?;
        }
        drop(channel);
        tokio::time::sleep(Duration::from_secs(3)).await;
        connection.create_channel().await?;
        let none = BasicProperties::default();
        looks.basic_publish("".into(), queue.into(), BasicPublishOptions::default(), b"1", none).await?.await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let passive = QueueDeclareOptions { passive: true, durable: true, ..Default::default() };
        let found = looks.queue_declare(queue.into(), passive, FieldTable::default()).await?;
        let (consumers, ready) = (found.consumer_count(), found.message_count());
        match closes {
            false => println!(
                "dropped before the answer: consumers {consumers}, ready {ready}, after 3 s and another channel"
            ),
            true => println!("dropped, and the channel closed: consumers {consumers}, ready {ready}"),
        }
    }
    Ok(())
}
RUST
CARGO_HOME=$cargo_home RUSTUP_HOME=$rustup_home CARGO_TARGET_DIR=$folder/target \
  cargo build --quiet --manifest-path "$folder/drops/Cargo.toml"
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 "$node" || { cat "$folder/output" && exit 1; }
  sleep 1
done
found=$("$folder/target/debug/drops" "amqp://127.0.0.1:$port")
printf '%s\n' "$found"
[ "$found" = "dropped before the answer: consumers 1, ready 0, after 3 s and another channel
dropped, and the channel closed: consumers 0, ready 1" ] || { echo "CHANGED"; exit 1; }
