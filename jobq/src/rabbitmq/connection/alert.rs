//! The TLS alert with which a broker refuses a client's certificate.

use std::pin::Pin;
use std::time::Duration;

use futures_io::AsyncRead;
use lapin::tcp::{AMQPUriTcpExt, OwnedTLSConfig};
use lapin::uri::AMQPUri;

use super::connect_error::has_ended;
use super::tls::cause;

/// How long to wait for the alert of a broker that refuses a client.
const ALERT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// The reason for which a broker reset a connection during the handshake, if TLS states it.
///
/// A broker that refuses a client's certificate closes the connection while the client is still
/// sending (in TLS 1.3 the client already considers itself connected), and the alert is lost. So
/// this connects once more, and only reads. The end of the handshake may still cross the refusal,
/// so it reads until the alert has arrived.
pub(crate) async fn after_a_reset(
    error: lapin::Error,
    node: &AMQPUri,
    tls: &OwnedTLSConfig,
) -> lapin::Error {
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

async fn listen(node: &AMQPUri, tls: &OwnedTLSConfig) -> lapin::Result<()> {
    let runtime = lapin::runtime::default_runtime()?;
    let mut stream = node.connect_with_config_async(tls.as_ref(), &runtime).await?;
    let mut first = [0];
    std::future::poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut first)).await?;
    Ok(())
}
