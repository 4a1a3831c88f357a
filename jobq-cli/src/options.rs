//! The options of every command, and the client that they describe.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jobq::admin::Admin;
use jobq::{Client, ClientBuilder, setting};
use tracing_subscriber::filter::Targets;

use crate::end::Problem;
use crate::log;
use crate::output::colour::When;

/// The file of jobs that is used without a URL, if it exists.
const DEFAULT_FILE: &str = "jobq.db";
const DEFAULT_NAMESPACE: &str = "jobq";

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Options {
    /// Broker or SQLite file: `amqp://user:password@host` or `sqlite://jobs.db`. Defaults to
    /// `sqlite://jobq.db` if that file exists. Other users of the machine can see the command line:
    /// put passwords in the environment variable
    #[arg(long, global = true, env = "JOBQ_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// RabbitMQ management API, such as `http://localhost:15672`. Used to list all queues and the
    /// tiers of their waiting jobs
    #[arg(
        long,
        global = true,
        env = "JOBQ_MANAGEMENT_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) management: Option<String>,

    /// Namespace of the queues
    #[arg(
        long,
        global = true,
        env = "JOBQ_NAMESPACE",
        default_value = DEFAULT_NAMESPACE,
        value_name = "NAME"
    )]
    pub(crate) namespace: String,

    /// Print JSON: one document, or one document per line for streamed lists
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Maximum time to wait for the broker or the file, per call
    #[arg(long, global = true, default_value = "10s", value_name = "DURATION", value_parser = period)]
    pub(crate) timeout: Duration,

    /// When to use colours: on a terminal only, always or never
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN", value_enum)]
    pub(crate) color: When,

    /// Delete without asking for confirmation
    #[arg(long, global = true)]
    pub(crate) yes: bool,

    /// Name of the operator, recorded with a pause and in the log. Defaults to the current user of
    /// this machine
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) by: Option<String>,

    /// Log filter for standard error: a level, or targets with levels. By default, logs warnings,
    /// and changes with the name of the operator; `off` disables the log
    #[arg(
        long,
        global = true,
        env = "JOBQ_LOG",
        default_value = log::DEFAULT_FILTER,
        value_name = "FILTER",
        value_parser = log::filter
    )]
    pub(crate) log: Targets,
}

/// A duration such as `30s` or `1h 30m`.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    jobq::period::parse(text).map_err(|error| error.to_string())
}

/// A duration that is not zero.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    match period(text)? {
        Duration::ZERO => Err("must not be zero; use a duration such as `2s`".to_owned()),
        pause => Ok(pause),
    }
}

/// A builder with a setting, if there is one: builders have no optional settings.
pub(crate) fn with<B, T>(builder: B, setting: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match setting {
        Some(setting) => set(builder, setting),
        None => builder,
    }
}

impl Options {
    /// A client for looking at what there is: a file must exist.
    pub(crate) async fn client(&self) -> Result<Client, Problem> {
        self.client_of(&self.url_or_default(Path::new(DEFAULT_FILE).exists())?).await
    }

    /// A client for looking at this URL: a file must exist.
    pub(crate) async fn client_of(&self, url: &str) -> Result<Client, Problem> {
        self.check()?;
        if let Some(path) = file(url)
            && !Path::new(path).exists()
        {
            return Err(Problem::Refused(format!(
                "the job file {path} does not exist; check the path in the URL, which is relative \
                 to the current directory unless it begins with `/`"
            )));
        }
        Ok(self.builder(url)?.connect().await?)
    }

    /// A client for adding jobs: a file is created if it is missing.
    pub(crate) async fn enqueuing_client(&self) -> Result<Client, Problem> {
        self.check()?;
        let url = self.url_or_default(Path::new(DEFAULT_FILE).exists())?;
        Ok(self.builder(&url)?.connect().await?)
    }

    /// A client for adding jobs at a further URL, of which the options say nothing else: a file is created
    /// if it is missing.
    pub(crate) async fn further_client(&self, url: &str) -> Result<Client, Problem> {
        self.check()?;
        Ok(self.plain_builder(url)?.connect().await?)
    }

    /// The administration of a client's queues, in the name of who acts.
    pub(crate) fn admin(&self, client: &Client) -> Admin {
        client.admin().by(self.actor())
    }

    /// The namespace. An empty variable counts as none.
    pub(crate) fn namespace(&self) -> &str {
        if self.namespace.is_empty() { DEFAULT_NAMESPACE } else { &self.namespace }
    }

    /// Whether somebody lists all queues: a file, or the management API.
    pub(crate) fn lists_queues(&self) -> Result<bool, Problem> {
        let url = self.url_or_default(Path::new(DEFAULT_FILE).exists())?;
        Ok(!is_broker(&url) || self.management_url().is_some())
    }

    fn management_url(&self) -> Option<&String> {
        self.management.as_ref().filter(|url| !url.is_empty())
    }

    /// The name of who acts.
    pub(crate) fn actor(&self) -> String {
        self.by.clone().unwrap_or_else(user)
    }

    /// Refuses an option or a variable with a character that nobody sees.
    fn check(&self) -> Result<(), Problem> {
        for (name, text) in [
            ("`--url` (JOBQ_URL)", self.url.as_deref()),
            ("the file of `--url` (JOBQ_URL)", self.url.as_deref().and_then(file)),
            ("`--management` (JOBQ_MANAGEMENT_URL)", self.management.as_deref()),
            ("`--namespace` (JOBQ_NAMESPACE)", Some(&*self.namespace)),
            ("`--by`", self.by.as_deref()),
        ] {
            text.map_or(Ok(()), |text| setting::check(name, text))?;
        }
        Ok(())
    }

    fn url_or_default(&self, has_default_file: bool) -> Result<String, Problem> {
        match &self.url {
            Some(url) if !url.is_empty() => Ok(url.clone()),
            _ if has_default_file => Ok(format!("sqlite://{DEFAULT_FILE}")),
            _ => Err(Problem::Usage(format!(
                "no broker or job file was given, and there is no {DEFAULT_FILE} here: use `--url \
                 amqp://user:password@host` or `--url sqlite://jobs.db`, or set JOBQ_URL"
            ))),
        }
    }

    fn builder(&self, url: &str) -> Result<ClientBuilder, Problem> {
        let management = self.management_url().filter(|_| is_broker(url));
        Ok(with(self.plain_builder(url)?, management, ClientBuilder::management))
    }

    /// A builder without the management API.
    fn plain_builder(&self, url: &str) -> Result<ClientBuilder, Problem> {
        let builder = Client::builder(url).namespace(self.namespace()).timeout(self.timeout);
        // The programs that use a file may be older than this command.
        let builder = builder.keep_schema();
        if url.starts_with("amqps:") { with_certificates(builder) } else { Ok(builder) }
    }
}

/// Whether a URL is one of a broker.
fn is_broker(url: &str) -> bool {
    url.starts_with("amqp")
}

/// The path of the file of a URL, if it is one of a file.
fn file(url: &str) -> Option<&str> {
    url.strip_prefix("sqlite://").filter(|path| !path.is_empty())
}

/// Adds the certificates that the environment names, as `ClientBuilder::from_env` does.
fn with_certificates(builder: ClientBuilder) -> Result<ClientBuilder, Problem> {
    let root = pem("JOBQ_ROOT_CERTIFICATE")?;
    let builder = with(builder, root, ClientBuilder::root_certificate_file);
    match (pem("JOBQ_CLIENT_CERTIFICATE")?, pem("JOBQ_CLIENT_KEY")?) {
        (Some(chain), Some(key)) => Ok(builder.client_certificate_files(chain, key)),
        (None, None) => Ok(builder),
        _ => Err(Problem::Usage(
            "only one of JOBQ_CLIENT_CERTIFICATE and JOBQ_CLIENT_KEY is set; set both or neither"
                .into(),
        )),
    }
}

/// The file that a variable names, which can be read now.
fn pem(variable: &str) -> Result<Option<PathBuf>, Problem> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    setting::check(variable, &path.to_string_lossy())?;
    let path = PathBuf::from(path);
    match std::fs::read(&path) {
        Ok(_) => Ok(Some(path)),
        Err(error) => Err(Problem::Usage(format!(
            "cannot read the file {} named by {variable}: {error}; name a file in PEM format",
            path.display()
        ))),
    }
}

/// The user of this machine who runs the command.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| env::var(name).ok());
    let is_name = |name: &String| !name.is_empty() && setting::check("the user", name).is_ok();
    named.into_iter().find(is_name).unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: Option<&str>) -> Options {
        Options {
            url: url.map(str::to_owned),
            management: None,
            namespace: "jobq".into(),
            json: false,
            timeout: Duration::from_secs(1),
            color: When::Auto,
            yes: false,
            by: None,
            log: Targets::new(),
        }
    }

    #[test]
    fn an_option_with_a_character_that_nobody_sees_is_named() {
        let told = |change: fn(&mut Options)| {
            let mut options = options(Some("amqp://ann:topsecret@mq"));
            change(&mut options);
            let problem = options.check().map_err(|problem| problem.to_string());
            problem.err()
        };
        assert_eq!(told(|_| {}), None);
        for (change, expected) in [
            (
                (|o| o.url = Some("sqlite://topsecret\n".into())) as fn(&mut Options),
                "`--url` (JOBQ_URL) ends with a newline (U+000A)",
            ),
            (
                |o| o.management = Some("http://topsecret ".into()),
                "`--management` (JOBQ_MANAGEMENT_URL) ends with a space (U+0020)",
            ),
            (
                |o| o.namespace = "topsecret\r".into(),
                "`--namespace` (JOBQ_NAMESPACE) ends with a carriage return (U+000D)",
            ),
            (|o| o.by = Some("\ttopsecret".into()), "`--by` begins with a tab (U+0009)"),
        ] {
            let told = told(change).expect("refused");
            assert!(told.starts_with(expected) && !told.contains("topsecret"), "{told}");
        }
    }

    #[test]
    fn the_default_file_is_used_only_if_it_exists() {
        for (url, exists, expected) in [
            (Some("amqp://mq"), false, Some("amqp://mq")),
            (Some("amqp://mq"), true, Some("amqp://mq")),
            (Some(""), true, Some("sqlite://jobq.db")),
            (None, true, Some("sqlite://jobq.db")),
            (None, false, None),
            (Some(""), false, None),
        ] {
            let found = options(url).url_or_default(exists);
            assert_eq!(found.ok().as_deref(), expected, "{url:?} {exists}");
        }
    }

    #[test]
    fn only_the_url_of_a_file_has_a_path() {
        for (url, path) in [
            ("sqlite://jobs.db", Some("jobs.db")),
            ("sqlite:///var/jobs.db", Some("/var/jobs.db")),
            ("sqlite::memory:", None),
            ("sqlite://", None),
            ("amqp://mq", None),
        ] {
            assert_eq!(file(url), path, "{url}");
        }
    }
}
