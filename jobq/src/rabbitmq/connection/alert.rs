//! Hears what a broker says of a client's certificate.

use std::pin::Pin;
use std::time::Duration;

use futures_io::AsyncRead;
use lapin::tcp::AMQPUriTcpExt;
use lapin::uri::AMQPUri;

use super::connect_error::has_ended;
use super::tls::{Tls, cause};

/// How long a broker may take to say that it refuses a client.
const ALERT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Why a broker reset a connection in the middle of the handshake, if TLS tells.
///
/// A broker that refuses a client's certificate hangs up while the client goes on talking
/// (in TLS 1.3 it even takes itself for connected), and then what the broker said is lost
/// with the connection. So this connects once more, and only listens. The end of the
/// handshake may still cross the refusal, so it listens until it has heard it.
pub(crate) async fn after_a_reset(error: lapin::Error, node: &AMQPUri, tls: &Tls) -> lapin::Error {
    if !is_reset(&error) {
        return error;
    }
    let listening = async {
        loop {
            match listen(node, tls).await {
                Err(heard) if cause(&heard).is_some() => return Some(heard),
                Err(again) if is_reset(&again) => tokio::time::sleep(PAUSE).await,
                _ => return None,
            }
        }
    };
    tokio::time::timeout(ALERT, listening).await.ok().flatten().unwrap_or(error)
}

fn is_reset(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::IOError(error) if has_ended(error.kind()))
}

async fn listen(node: &AMQPUri, tls: &Tls) -> lapin::Result<()> {
    let runtime = lapin::runtime::default_runtime()?;
    let mut stream = node.connect_with_config_async(tls.config.as_ref(), &runtime).await?;
    let mut first = [0];
    std::future::poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut first)).await?;
    Ok(())
}
