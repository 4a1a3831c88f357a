//! Many queues and many viewers.

use std::time::{Duration, Instant};

use jobq::admin::Queues;
use jobq_tests::stage::Store;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::shop::Shop;

/// The bytes of a stream until this moment.
async fn watch(address: String, end: Instant) -> usize {
    let mut stream = TcpStream::connect(&address).await.expect("it listens");
    let request = format!("GET /?live=stream HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let (mut bytes, mut part) = (0, vec![0; 65_536]);
    while let Ok(Ok(read)) = tokio::time::timeout_at(end.into(), stream.read(&mut part)).await {
        if read == 0 {
            break;
        }
        bytes += read;
    }
    bytes
}

/// What this process has used of the processors.
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks: u64 =
        [12, 13].iter().filter_map(|field| fields.get(*field)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_viewers_of_300_queues_on_a_quiet_machine() {
    let shop = Shop::on(Store::rabbitmq().await, "").await;
    for number in 0..300 {
        let job = shop.client.enqueue_named("work", format!("queue-{number}"), &number);
        job.await.expect("it is accepted");
    }
    let start = Instant::now();
    let overview = shop.client.admin().overview(Queues::All).await.expect("it is read");
    assert!(overview.queues.len() >= 300);
    println!("a sample of {} queues takes {:?}", overview.queues.len(), start.elapsed());
    let address = shop.url.trim_start_matches("http://").to_owned();
    let lasts = Duration::from_secs(15);
    for viewers in [1, 50] {
        let (before, end) = (used(), Instant::now() + lasts);
        let watching: Vec<_> =
            (0..viewers).map(|_| tokio::spawn(watch(address.clone(), end))).collect();
        let mut bytes = 0;
        for watching in watching {
            bytes += watching.await.expect("it ends");
        }
        assert!(bytes > 0, "the streams carry something");
        let busy = used().saturating_sub(before).as_secs_f64() / lasts.as_secs_f64();
        println!("{viewers} viewers: {:.1} % of a processor, {bytes} bytes", busy * 100.0);
    }
}
