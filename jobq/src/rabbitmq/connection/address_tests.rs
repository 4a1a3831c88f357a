use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn shows_itself_without_the_password() {
    let table = [
        ("amqp://localhost", "amqp://guest:***@localhost:5672"),
        ("amqps://ann:geheim@mq/shop", "amqps://ann:***@mq:5671/shop"),
        ("amqp://ann:geheim@127.0.0.1:5673/%2f", "amqp://ann:***@127.0.0.1:5673"),
        ("amqp://ann:geheim@mq/", "amqp://ann:***@mq:5672/"),
        ("amqp://ann:geheim@a:5672,b:5673,c/shop", "amqp://ann:***@a:5672,b:5673,c:5672/shop"),
        ("amqps://a,b", "amqps://guest:***@a:5671,b:5671"),
        ("amqp://ann:ge@he,im@a,b_2.example?heartbeat=7", "amqp://ann:***@a:5672,b_2.example:5672"),
        ("amqp://ann:g%65heim%2F%3f@mq/a%40b", "amqp://ann:***@mq:5672/a@b"),
    ];
    for (url, shown) in table {
        let address = Address::parse(url, SECOND).unwrap();
        assert_eq!(address.to_string(), shown, "{url}");
        assert!(!format!("{address:?}").contains("heim"));
    }
}

#[test]
fn credentials_from_elsewhere_stand_alone() {
    let table = [
        ("amqp://mq/shop", Ok("amqp://mq:5672/shop")),
        ("amqp://mq?auth_mechanism=plain", Ok("amqp://mq:5672")),
        ("amqp://ann@mq", Err("URL has a user")),
        ("amqp://:geheim@mq", Err("URL has a user")),
        ("amqp://mq?auth_mechanism=external", Err("auth_mechanism other than PLAIN")),
    ];
    for (url, expected) in table {
        let found = Address::parse(url, SECOND).unwrap().without_user();
        match (found.as_ref().map(ToString::to_string), expected) {
            (Ok(shown), Ok(expected)) => assert_eq!(shown, expected),
            (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
            (found, _) => panic!("{url}: {found:?}"),
        }
    }
}

#[test]
fn every_node_has_the_user_and_the_vhost() {
    let address = Address::parse("amqp://ann:ge%3Aheim@a,b:1,c/shop", SECOND).unwrap();
    let nodes: Vec<_> = address.nodes_from(0).collect();
    for (_, node) in &nodes {
        let user = &node.authority.userinfo;
        let found = (user.username.as_str(), user.password.as_str(), node.vhost.as_str());
        assert_eq!(found, ("ann", "ge:heim", "shop"));
    }
    let hosts: Vec<_> = nodes.iter().map(|(_, node)| host_and_port(node)).collect();
    assert_eq!(hosts, ["a:5672", "b:1", "c:5672"]);
}

#[test]
fn nodes_take_turns() {
    let address = Address::parse("amqp://a,b,c", SECOND).unwrap();
    let table =
        [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1]), (3, [0, 1, 2]), (usize::MAX, [0, 1, 2])];
    for (first, turns) in table {
        let found: Vec<_> = address.nodes_from(first).map(|(number, _)| number).collect();
        assert_eq!(found, turns, "{first}");
    }
}

#[test]
fn has_a_heartbeat_a_timeout_and_a_longest_frame() {
    let table = [
        ("amqp://localhost", Some(20), Some(1_000), Some(131_072)),
        ("amqp://a,b,c,d", Some(20), Some(250), Some(131_072)),
        ("amqp://localhost?heartbeat=7&connection_timeout=9", Some(7), Some(9), Some(131_072)),
        ("amqp://a,b/?connection_timeout=9&frame_max=1048576", Some(20), Some(9), Some(1_048_576)),
        ("amqp://localhost?frame_max=0", Some(20), Some(1_000), Some(131_072)),
        ("amqp://localhost?channel_max=0", Some(20), Some(1_000), Some(131_072)),
        ("amqp://localhost?channel_max=16", Some(20), Some(1_000), Some(131_072)),
    ];
    for (url, heartbeat, timeout, frame) in table {
        for (_, node) in Address::parse(url, SECOND).unwrap().nodes_from(0) {
            let query = &node.query;
            let found = (query.heartbeat, query.connection_timeout, query.frame_max);
            assert_eq!(found, (heartbeat, timeout, frame), "{url}");
        }
    }
}

#[test]
fn parse_errors_do_not_show_the_url() {
    let long = format!("amqp://ann:geheim@mq/{}", "v".repeat(256));
    let table = [
        ("amqp:geheim", "begin with"),
        ("geheim", "begin with"),
        ("http://ann:geheim@host", "begin with"),
        ("AMQP://ann:geheim@host", "begin with"),
        ("amqps:\n//a:\n0/geheim://b", r"invisible character (\u{a})"),
        ("amqp://ann:geheim@host\n", r"invisible character (\u{a})"),
        ("amqp://ann:geheim @host", r"invisible character (\u{20})"),
        ("amqp://ann:geheim\u{a0}@host", r"invisible character (\u{a0})"),
        ("amqp://ann:geheim@host/shop\u{200b}", r"invisible character (\u{200b})"),
        ("amqp://ann:geheim%0A@host", r"control character (\u{a})"),
        ("amqp://ann%0d:geheim@host", r"control character (\u{d})"),
        ("amqp://ann:geheim@host/shop%00", r"control character (\u{0})"),
        ("amqp://ann:geheim@", "empty host"),
        ("amqp://", "empty host"),
        ("amqp://:5672/geheim", "empty host"),
        ("amqp://ann:geheim@a,,b", "empty host"),
        ("amqp://ann:geheim@a,b,", "empty host"),
        ("amqp://ann:geheim@,a", "empty host"),
        ("amqp://ann:geheim@a, b", r"invisible character (\u{20})"),
        ("amqp://ann%3Ageheim%40host", "an invalid character"),
        ("amqp://ann:geheim@host:port", "not a number"),
        ("amqp://ann:geheim@host:0", "not a number"),
        ("amqp://ann:geheim@a,b:0", "not a number"),
        ("amqp://ann:geheim@a:5672,b:65536", "not a number"),
        ("amqp://ann:geheim@a:,b", "not a number"),
        ("amqp://ann:geheim@[::1]:5672", "IPv6"),
        ("amqp://ann:geheim@a,[::1]", "IPv6"),
        ("amqp://ann:geheim@::1", "empty host"),
        ("amqp://ann:7/geheim@host", "%2F"),
        ("amqp://ann:7#geheim@host", "%23"),
        ("amqp://ann:7?geheim@host", "%3F"),
        ("amqp://h?heartbeat=geheim", "cannot be parsed"),
        ("amqp://h?connection_timeout=0", "of zero"),
        ("amqp://h?frame_max=131071", "a frame_max outside the range 131072 to 1048576"),
        ("amqp://h?frame_max=1048577", "a frame_max outside the range 131072 to 1048576"),
        ("amqp://h?frame_max=1073741824", "a frame_max outside the range 131072 to 1048576"),
        ("amqp://h?frame_max=4294967295", "a frame_max outside the range 131072 to 1048576"),
        ("amqp://h?frame_max=4294967296", "cannot be parsed"),
        ("amqp://h?channel_max=1", "a channel_max below 16"),
        ("amqp://h?channel_max=15", "two more for each queue of its pool"),
        ("amqp://h?channel_max=65536", "cannot be parsed"),
        ("amqps://h?heartbeat=7&cacertfile=geheim", "builder"),
        ("amqps://h/v?verify=geheim", "builder"),
        (&long, "255 bytes"),
    ];
    for (url, said) in table {
        let error = Address::parse(url, SECOND).unwrap_err();
        assert!(error.is_invalid(), "{url}");
        assert!(error.to_string().contains(said), "{url}: {error}");
        assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
    }
}
