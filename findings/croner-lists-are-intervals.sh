#!/usr/bin/env bash
# On days with a clock change, croner treats a list of hours or minutes as an interval, although each of its values is a
# fixed time. `L` has no effect in a list that also has `LW`.
#
# Seen with croner 4.0.3 and jiff 0.2.35. Its documentation says that a job with specific values runs once on each of these
# days, and that one with wildcards follows the clock. `0 2 * * *` is fixed: Berlin's clocks skip 02:00 on 29 March 2026,
# and it runs at 03:00. `0 2,14 * * *` loses that run. `15,45 2 * * *` runs four times on 25 October 2026, when
# 02:00 to 03:00 comes twice. Vixie's cron runs each of these times once, since none has a `*` in hour or minute. The last day of
# February 2026 is a Saturday: `LW,L` should be the 27th and the 28th.
#
# Output seen:
#
#   0 2 * * *       2026-03-29T03:00 2026-03-30T02:00
#   0 2,14 * * *    2026-03-29T14:00 2026-03-30T02:00
#   15,45 2 * * *   2026-10-25T02:15 2026-10-25T02:45 2026-10-25T02:15 2026-10-25T02:45
#   0 12 LW,L 2 *   2026-02-27T12:00 2027-02-26T12:00
#
# It needs cargo and the network.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/times/src"
cat >"$folder/times/Cargo.toml" <<'TOML'
[package]
name = "times"
version = "0.0.0"
edition = "2024"

[dependencies]
croner = { version = "=4.0.3", default-features = false, features = ["jiff"] }
jiff = "=0.2.35"
TOML
cat >"$folder/times/src/main.rs" <<'RUST'
use croner::Cron;

fn main() {
    let table = [
        ("0 2 * * *", "2026-03-28T20:00[Europe/Berlin]", 2),
        ("0 2,14 * * *", "2026-03-28T20:00[Europe/Berlin]", 2),
        ("15,45 2 * * *", "2026-10-24T20:00[Europe/Berlin]", 4),
        ("0 12 LW,L 2 *", "2026-02-01T00:00[Europe/Berlin]", 2),
    ];
    for (text, from, count) in table {
        let cron: Cron = text.parse().unwrap();
        let mut at: jiff::Zoned = from.parse().unwrap();
        print!("{text:<15}");
        for _ in 0..count {
            at = cron.find_next_occurrence(&at, false).unwrap();
            print!(" {}", at.strftime("%Y-%m-%dT%H:%M"));
        }
        println!();
    }
}
RUST
found=$(CARGO_TARGET_DIR="$folder/target" cargo run --quiet --manifest-path "$folder/times/Cargo.toml")
printf '%s\n' "$found"
[ "$found" = "0 2 * * *       2026-03-29T03:00 2026-03-30T02:00
0 2,14 * * *    2026-03-29T14:00 2026-03-30T02:00
15,45 2 * * *   2026-10-25T02:15 2026-10-25T02:45 2026-10-25T02:15 2026-10-25T02:45
0 12 LW,L 2 *   2026-02-27T12:00 2027-02-26T12:00" ] || { echo "CHANGED"; exit 1; }
