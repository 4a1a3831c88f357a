#!/usr/bin/env bash
# lapin reads a URL of RabbitMQ with an empty user as that of the user guest, and an empty password as guest, too.
#
# Seen with lapin 4.12.3 (amq-protocol-uri 10.6.3), beside pika 1.3.2. The URL is amqp://:token@mq, the natural
# form for a token of OAuth 2.0, which has no user. RabbitMQ's specification of URIs tells an empty user from one that is
# absent, and has an example with both user and password empty. lapin takes what is empty to be absent: it
# puts guest in its place, and keeps a password that is there. With the url crate, on which it rests, the two look alike. A broker with OAuth 2.0
# alone does not mind, since it reads the user from the token. One with internal users as a second backend
# logs a failed login of guest, and a program that shows the user of its URL shows guest.
#
# Output seen:
#
#   lapin amqp://:token@mq user=guest password=token
#   lapin amqp://:@mq user=guest password=guest
#   pika  amqp://:token@mq user= password=token
#   pika  amqp://:@mq user= password=
#
# It needs cargo, and python3 with venv and pip.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/reads/src"
cat >"$folder/reads/Cargo.toml" <<'TOML'
[package]
name = "reads"
version = "0.0.0"
edition = "2024"

[dependencies]
amq-protocol-uri = "=10.6.3"
TOML
cat >"$folder/reads/src/main.rs" <<'RUST'
use amq_protocol_uri::AMQPUri;

fn main() {
    for url in ["amqp://:token@mq", "amqp://:@mq"] {
        let user = url.parse::<AMQPUri>().unwrap().authority.userinfo;
        println!("lapin {url} user={} password={}", user.username, user.password);
    }
}
RUST
found=$(CARGO_TARGET_DIR="$folder/target" cargo run --quiet --manifest-path "$folder/reads/Cargo.toml")
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check pika==1.3.2
found+=$'\n'$("$folder/python/bin/python" -c "
import pika
for url in ['amqp://:token@mq', 'amqp://:@mq']:
    user = pika.URLParameters(url).credentials
    print('pika ', url, f'user={user.username} password={user.password}')")
printf '%s\n' "$found"
[ "$found" = "lapin amqp://:token@mq user=guest password=token
lapin amqp://:@mq user=guest password=guest
pika  amqp://:token@mq user= password=token
pika  amqp://:@mq user= password=" ] || { echo "CHANGED"; exit 1; }
