//! `jobq schedules`.

use crate::process::{command, run};

const AFTER: &str = "2026-10-24T12:00:00Z";

#[tokio::test]
async fn the_next_times_are_those_of_the_zone() {
    let text = ["schedules", "next", "30 2 * * *", "--zone", "Europe/Berlin"];
    let mut next = command(&text);
    next.args(["--count", "2", "--after", AFTER]);
    let ran = run(next).await;
    let expected = [
        "LOCAL TIME                 UTC                    AFTER",
        "2026-10-25T02:30:00+02:00  2026-10-25T00:30:00Z  12h30m",
        "2026-10-26T02:30:00+01:00  2026-10-26T01:30:00Z   1d13h",
    ];
    assert_eq!(ran.lines(0), expected);

    let mut next = command(&["schedules", "next", "--every", "10m", "--json", "--after", AFTER]);
    next.args(["--count", "1"]);
    let document = run(next).await.json(0, "schedules-next");
    assert_eq!(document["schedule"], "every 10m");
    let due = serde_json::json!([
        {"due": "2026-10-24T12:10:00Z", "local": "2026-10-24T12:10:00+00:00"},
    ]);
    assert_eq!(document["next"], due);

    let ten = run(command(&["schedules", "next", "@hourly"])).await;
    assert!(ten.lines(0).len() == 11 && ten.lines(0)[0].ends_with("IN"), "{ten:#?}");
}

#[tokio::test]
async fn errors_name_the_argument() {
    let table: [(&[&str], &str); 6] = [
        (&["0 25 * * *"], "`25` is not a valid hour (0-23)"),
        (&["@daily", "--zone", "Berlin"], "`Berlin` is not a time zone"),
        (&["--every", "10ms"], "use whole seconds, from 1s to 3650d"),
        (&["@daily", "--every", "10m"], "cannot be used with"),
        (&["@daily", "--count", "0"], "0 is not in 1..=1000"),
        (&[], "required"),
    ];
    for (arguments, expected) in table {
        let ran = run(command(&[&["schedules", "next"], arguments].concat())).await;
        assert!(ran.error(2).contains(expected), "{ran:#?}");
    }
}
