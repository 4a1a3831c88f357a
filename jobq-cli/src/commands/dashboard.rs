use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use jobq::{Client, setting};
use jobq_dashboard::{Secret, Standalone, demo};

use super::topology;
use crate::end::{End, Ended};
use crate::options::{Options, with};
use crate::output::Output;
use crate::signals;

/// Serve the web dashboard
///
/// On an address that others reach it needs a secret and its origin. The secret is the password for
/// people, with any user name, and the bearer token for scripts. If none is given, one is generated
/// and printed once.
#[derive(Debug, Args)]
// Each is an option of the command.
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Arguments {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// Require a secret on this machine as well
    #[arg(long)]
    protected: bool,
    /// Secret, at least 16 characters
    #[arg(long, env = "JOBQ_DASHBOARD_SECRET", hide_env_values = true, value_name = "TEXT")]
    secret: Option<String>,
    /// Origin as seen by browsers, such as `https://jobs.example.com`
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// Additional host name for access by browsers. Can be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// External path, if a proxy serves the dashboard under one
    #[arg(long, value_name = "PATH", default_value = "")]
    prefix: String,
    /// Read-only mode: allow no changes
    #[arg(long)]
    read_only: bool,
    /// Payload value to hide, such as `password` or `card.number`. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    redact: Vec<String>,
    /// Hide payloads
    #[arg(long)]
    no_payloads: bool,
    /// JSON file with the declarations of a program, for comparison with RabbitMQ on the doctor
    /// page. Can be repeated
    #[arg(long, value_name = "FILE")]
    topology: Vec<PathBuf>,
    /// Show a simulated shop, in memory, without connecting to anything
    #[arg(long)]
    demo: bool,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    if arguments.demo {
        let shop = demo::open().await?;
        return serve(arguments, shop.client(), options, output).await;
    }
    let client = options.client().await?;
    serve(arguments, &client, options, output).await
}

async fn serve(arguments: Arguments, client: &Client, options: &Options, output: Output) -> Ended {
    let is_local = arguments.listen.ip().is_loopback();
    let asks = arguments.protected || arguments.secret.is_some() || !is_local;
    // On this machine alone there is a proxy before an origin.
    let is_open = arguments.origin.is_some() && !asks;
    let mut dashboard = Standalone::new(client)
        .bind(arguments.listen)
        .prefix(arguments.prefix)
        .read_only(arguments.read_only)
        .redact(arguments.redact)
        .payloads(!arguments.no_payloads)
        .actor(options.actor());
    dashboard = with(dashboard, arguments.origin, Standalone::origin);
    for path in &arguments.topology {
        dashboard = dashboard.topology(topology::read(path)?);
    }
    dashboard = arguments.host.into_iter().fold(dashboard, Standalone::host);
    let mut made = None;
    if asks {
        let secret = match &arguments.secret {
            Some(secret) => {
                setting::check("`--secret` (JOBQ_DASHBOARD_SECRET)", secret)?;
                Secret::new(secret)?
            }
            None => made.insert(Secret::random()?).clone(),
        };
        dashboard = dashboard.secret(secret);
    }
    let serving = dashboard.start().await?;
    output.note(&format!("the dashboard is at {}", serving.url()));
    if is_open {
        output.note(
            "the dashboard does not ask for a secret, so anyone who can reach its origin may use \
             it: authenticate users in the proxy, or add `--protected`",
        );
    }
    if let Some(secret) = made {
        output.note(&format!("its secret, shown this once: {}", secret.reveal()));
    }
    let stopped_twice = async {
        signals::stop().await;
        signals::stop().await;
    };
    tokio::select! {
        served = serving.run_until(signals::stop()) => served?,
        () = stopped_twice => return Ok(End::Partly),
    }
    Ok(End::Done)
}
