//! Behaviours of `lapin` and of the broker that jobq works around. Where one of these fails, `lapin` has changed, and
//! the piece of jobq that is named can go.

use std::process::Command;

use futures_util::{FutureExt as _, StreamExt as _};
use jobq_tests::broker;
use jobq_tests::late_confirms_proxy::late_confirms_proxy;
use jobq_tests::log_capture::LogCapture;
use jobq_tests::raw::Raw;
use jobq_tests::test_store::until;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions,
    QueueDeclareOptions,
};
use lapin::protocol::basic::parse_properties;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

/// Set for the process that parses.
const PARSE: &str = "JOBQ_TEST_PARSE_DEEP_HEADERS";
/// What a thread has as its stack where nobody says otherwise.
const STACK: usize = 2 * 1024 * 1024;

/// Asks for a queue that is not there, at which the broker closes the channel.
async fn ask_in_vain(channel: &Channel) -> lapin::Error {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let name = "there is no such queue".into();
    channel.queue_declare(name, options, FieldTable::default()).await.unwrap_err()
}

/// `rabbitmq/connection/channel` tries the next number therefore.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_a_channel_that_the_broker_has_closed_stays_unusable() {
    let url = format!("{}?channel_max=4", broker::shared().await);
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let closed = connection.create_channel().await.unwrap();
    assert!(ask_in_vain(&closed).await.is_amqp_soft_error());
    let mut open = Vec::new();
    let refused = loop {
        match connection.create_channel().await {
            Ok(channel) => open.push(channel),
            Err(error) => break error,
        }
        assert!(open.len() < 4, "all numbers can be used");
    };
    assert!(refused.is_amqp_soft_error(), "the error of the closed channel: {refused}");
    connection.close(200, "done".into()).await.unwrap();
}

/// `rabbitmq/lapin/log` drops such lines of the channels on which jobq asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_broker_answers_by_no_is_logged_as_an_error() {
    let log = LogCapture::log();
    let raw = Raw::connect(&broker::shared().await).await;
    assert!(ask_in_vain(&raw.channel).await.is_amqp_soft_error());
    let lines = log.lines(&[" ERROR ", "lapin::channel", "NOT_FOUND"]);
    assert!(!lines.is_empty(), "{}", log.text());
}

/// `rabbitmq/connection/channel` closes the channel therefore.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_beginning_is_dropped_stays() {
    let url = broker::shared().await;
    let raw = Raw::connect(&url).await;
    let queue = format!("dropped-{}", broker::namespace());
    let declared = QueueDeclareOptions::default();
    raw.channel.queue_declare((&*queue).into(), declared, FieldTable::default()).await.unwrap();
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let consuming = channel.basic_consume(
        (&*queue).into(),
        "dropped".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    assert!(consuming.now_or_never().is_none());
    drop(channel);
    let passive = QueueDeclareOptions { passive: true, ..declared };
    let consumers = async || {
        let asked = raw.channel.queue_declare((&*queue).into(), passive, FieldTable::default());
        asked.await.unwrap().consumer_count()
    };
    until("the consumer", async || (consumers().await == 1).then_some(())).await;
    // The answer to a later request came after that to the consumer.
    connection.create_channel().await.unwrap();
    assert_eq!(consumers().await, 1);
    connection.close(200, "done".into()).await.unwrap();
}

/// `rabbitmq/connection/channel` closes a channel when the broker has answered therefore.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_crosses_the_brokers_ends_the_connection() {
    let url = broker::shared().await;
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    assert!(ask_in_vain(&channel).now_or_never().is_none());
    drop(channel);
    until("the end of the connection", async || (!connection.status().connected()).then_some(()))
        .await;
}

/// `rabbitmq/publish/enqueue` publishes each mandatory event on a channel of its own therefore.
#[tokio::test(flavor = "multi_thread")]
async fn a_return_comes_with_the_confirm_of_another_message() {
    let url = late_confirms_proxy(&broker::shared().await).await;
    let raw = Raw::connect(&url).await;
    let queue = raw.tap("amq.direct", "heard").await;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let mut confirms = Vec::new();
    for number in 0..600 {
        let key = if number % 3 == 0 { "lost" } else { &*queue };
        let properties = BasicProperties::default();
        let sent = raw.channel.basic_publish("".into(), key.into(), options, b"", properties);
        confirms.push((number % 3 == 0, sent.await.unwrap()));
    }
    let mut wrong = 0;
    for (is_lost, confirm) in confirms {
        match confirm.await.unwrap() {
            Confirmation::Ack(returned) => wrong += u32::from(returned.is_some() != is_lost),
            other => panic!("{other:?}"),
        }
    }
    assert!(wrong > 0, "each return came with its own confirm");
}

/// `rabbitmq/lapin/depth` makes such headers shallow.
#[test]
fn headers_in_many_lists_overflow_the_stack() {
    if std::env::var_os(PARSE).is_some() {
        let parsing = std::thread::Builder::new().stack_size(STACK);
        let parsed = parsing.spawn(|| drop(parse_properties(&lists_in_lists(10_000)[..])));
        return parsed.unwrap().join().unwrap();
    }
    let program = std::env::current_exe().unwrap();
    let test = "upstream::headers_in_many_lists_overflow_the_stack";
    let parsing = Command::new(program).args(["--exact", test]).env(PARSE, "1").output().unwrap();
    assert!(!parsing.status.success(), "such headers can be read");
    let said = String::from_utf8_lossy(&parsing.stderr);
    assert!(said.contains("overflowed its stack"), "{said}");
}

/// Properties whose headers have a list with so many lists in one another.
fn lists_in_lists(depth: u32) -> Vec<u8> {
    const HEADERS: u16 = 1 << 13;
    // The name and each list: its type and its length.
    let name = [1, b'a'];
    let size = u32::try_from(name.len()).unwrap() + 5 * depth;
    let mut properties = [&HEADERS.to_be_bytes()[..], &size.to_be_bytes(), &name].concat();
    for inner in (0..depth).rev() {
        properties.push(b'A');
        properties.extend((5 * inner).to_be_bytes());
    }
    properties
}

/// `rabbitmq/control/counted` accounts for such consumers of pools therefore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_consumer_counts_while_it_holds_a_message() {
    let raw = Raw::connect(&broker::shared().await).await;
    let queue = broker::namespace();
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = raw.channel.queue_declare(queue.as_str().into(), options, arguments).await;
    declared.unwrap();
    raw.publish("", &queue, BasicProperties::default(), b"1").await;
    let mut consumer = raw.consume(&queue, "c").await;
    let held = consumer.next().await.unwrap().unwrap();
    let counted = async || {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let none = FieldTable::default();
        let found = raw.channel.queue_declare(queue.as_str().into(), options, none).await.unwrap();
        found.consumer_count()
    };
    raw.channel.basic_cancel("c".into(), BasicCancelOptions::default()).await.unwrap();
    assert_eq!(counted().await, 1);
    held.ack(BasicAckOptions::default()).await.unwrap();
    until("the broker to forget it", async || (counted().await == 0).then_some(())).await;
}
