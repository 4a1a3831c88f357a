//! Configuration by environment variables.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Client, ClientBuilder};
use crate::engine::{Certificates, ClientCertificate, ManagementUrl, Pem};
use crate::error::{Error, ErrorKind, Result};
use crate::setting;

/// The default file without a URL.
const DEFAULT_FILE: &str = "jobq.db";

const URL: &str = "JOBQ_URL";
const ROOT_CERTIFICATE: &str = "JOBQ_ROOT_CERTIFICATE";
const CLIENT_CERTIFICATE: &str = "JOBQ_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "JOBQ_CLIENT_KEY";
const MANAGEMENT_URL: &str = "JOBQ_MANAGEMENT_URL";

impl Client {
    /// Connects to the URL in the environment variable `JOBQ_URL`, or to `sqlite://jobq.db` if it
    /// is not set or empty, and logs the absolute path of that file. See
    /// [`ClientBuilder::from_env`] for other variables.
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::Client::from_env().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn from_env() -> Result<Self> {
        ClientBuilder::from_env()?.connect().await
    }
}

impl ClientBuilder {
    /// A builder for the URL in the environment variable `JOBQ_URL`, or for `sqlite://jobq.db` if
    /// it is not set or empty.
    ///
    /// For an `amqps://` URL, `JOBQ_ROOT_CERTIFICATE` may name a PEM file for
    /// [`root_certificate_file`](Self::root_certificate_file), and `JOBQ_CLIENT_CERTIFICATE` and
    /// `JOBQ_CLIENT_KEY` together the files for
    /// [`client_certificate_files`](Self::client_certificate_files).
    ///
    /// `JOBQ_MANAGEMENT_URL` may be the URL for [`management`](Self::management).
    ///
    /// ```no_run
    /// # async fn example() -> jobq::Result<()> {
    /// let client = jobq::ClientBuilder::from_env()?.namespace("shop").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A variable that is no UTF-8, or has a character that nobody sees ([`setting`](crate::setting)); a
    /// file that cannot be read; a client certificate without a key, or a key without one.
    pub fn from_env() -> Result<Self> {
        let mut builder = Self::from_url_in_env()?;
        builder.options.certificates = certificates(|name| std::env::var_os(name))?;
        builder.management_in_env()
    }

    /// Sets the management API from the environment.
    pub(super) fn management_in_env(mut self) -> Result<Self> {
        self.options.management = management(|name| std::env::var_os(name))?;
        Ok(self)
    }

    fn from_url_in_env() -> Result<Self> {
        if let Some(url) = url(|name| std::env::var_os(name))? {
            return Ok(Self::new(&url));
        }
        let path = std::path::absolute(DEFAULT_FILE).unwrap_or(DEFAULT_FILE.into());
        tracing::info!(path = %path.display(), "JOBQ_URL is not set; storing jobs in a file");
        Ok(Self::new(&format!("sqlite://{DEFAULT_FILE}")))
    }
}

/// The URL of the client from the environment.
pub(super) fn url(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>> {
    text(URL, "amqp://localhost or sqlite://jobs.db", variable)
}

/// The text of a variable, unless it is empty. It is not shown in errors: it may have a password.
fn text(
    name: &str,
    example: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<String>> {
    let Some(text) = variable(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let text = text.into_string().map_err(|_| {
        Error::invalid(format!(
            "the environment variable {name} is not valid UTF-8; set it to a URL such as {example}"
        ))
    })?;
    setting::check(name, &text)?;
    Ok(Some(text))
}

/// The certificates in the files named by the environment.
pub(super) fn certificates(variable: impl Fn(&str) -> Option<OsString>) -> Result<Certificates> {
    let variable = |name: &str| variable(name).filter(|path| !path.is_empty());
    let file = |name: &str| variable(name).map(|path| readable(name, path.into())).transpose();
    let roots = file(ROOT_CERTIFICATE)?.into_iter().collect();
    let client = match (file(CLIENT_CERTIFICATE)?, file(CLIENT_KEY)?) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        (Some(_), None) => return Err(alone(CLIENT_CERTIFICATE, CLIENT_KEY)),
        (None, Some(_)) => return Err(alone(CLIENT_KEY, CLIENT_CERTIFICATE)),
    };
    Ok(Certificates { roots, client })
}

/// The URL of the broker's management API from the environment.
pub(super) fn management(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<ManagementUrl>> {
    let Some(url) = text(MANAGEMENT_URL, "http://localhost:15672", variable)? else {
        return Ok(None);
    };
    if !cfg!(feature = "management") {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{MANAGEMENT_URL} is set, but this program was built without jobq's feature \
                 `management`; enable the feature, or unset the variable"
            ),
        ));
    }
    Ok(Some(ManagementUrl(url)))
}

/// A file that can be read now.
fn readable(variable: &str, path: PathBuf) -> Result<Pem> {
    setting::check(variable, &path.to_string_lossy())?;
    match std::fs::read(&path) {
        Ok(_) => Ok(Pem::file(path)),
        Err(source) => Err(Error::invalid(format!(
            "cannot read the file {} named by {variable}: {source}; name a file in PEM format",
            path.display()
        ))
        .with_source(source)),
    }
}

fn alone(set: &str, missing: &str) -> Error {
    Error::invalid(format!("{set} is set, but {missing} is not; set both or neither"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The certificates in an environment whose variables name an existing or a
    /// missing file.
    fn among(set: &[(&str, bool)]) -> Result<Certificates> {
        let path = |exists| if exists { file!() } else { "no/such/file" };
        // The tests of a package run in its folder, and `file!` is relative to its parent.
        let path = |exists| Path::new("..").join(path(exists)).into_os_string();
        let find = |name: &str| set.iter().find(|(known, _)| *known == name);
        certificates(|name| find(name).map(|(_, exists)| path(*exists)))
    }

    #[test]
    fn a_variable_that_ends_with_a_newline_is_told_and_not_shown() {
        let set = |value: &'static str| move |_: &str| Some(OsString::from(value));
        assert_eq!(url(|_| None).unwrap(), None);
        assert_eq!(url(set("")).unwrap(), None);
        assert_eq!(url(set("sqlite://my jobs.db")).unwrap().unwrap(), "sqlite://my jobs.db");
        let secret = set("amqp://ann:topsecret@mq\n");
        let path = certificates(set("/etc/topsecret.pem\r")).map(drop);
        let mut table = vec![(url(secret).map(drop), "JOBQ_URL ends with a newline")];
        table.push((path, "JOBQ_ROOT_CERTIFICATE ends with a carriage return"));
        if cfg!(feature = "management") {
            let management = management(secret).map(drop);
            table.push((management, "JOBQ_MANAGEMENT_URL ends with a newline"));
        }
        for (found, expected) in table {
            let error = found.unwrap_err();
            assert!(error.is_invalid() && error.to_string().starts_with(expected), "{error}");
            assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
        }
    }

    #[cfg(feature = "management")]
    #[test]
    fn a_management_url_is_text() {
        use std::os::unix::ffi::OsStringExt;

        let set = |value: OsString| management(|_| Some(value.clone()));
        assert!(management(|_| None).unwrap().is_none());
        assert!(set(OsString::new()).unwrap().is_none());
        assert_eq!(set("http://mq".into()).unwrap().unwrap().0, "http://mq");
        assert!(set(OsString::from_vec(vec![0xff])).unwrap_err().is_invalid());
    }

    #[test]
    fn certificates_are_read_from_the_files_that_are_named() {
        let (root, chain, key) = (ROOT_CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY);
        assert!(among(&[]).unwrap().is_empty());
        assert!(certificates(|_| Some(OsString::new())).unwrap().is_empty());
        let found = among(&[(root, true), (chain, true), (key, true)]).unwrap();
        assert!(found.roots[0].read().unwrap().starts_with(b"//!"));
        assert!(found.client.unwrap().key.read().unwrap().starts_with(b"//!"));
        let table: [(&[_], _); 4] = [
            (&[(chain, true)], "JOBQ_CLIENT_KEY is not"),
            (&[(key, true)], "JOBQ_CLIENT_CERTIFICATE is not"),
            (&[(root, false)], "no/such/file named by JOBQ_ROOT_CERTIFICATE"),
            (&[(chain, true), (key, false)], "no/such/file named by JOBQ_CLIENT_KEY"),
        ];
        for (set, said) in table {
            let error = among(set).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(said), "{error:?}");
        }
    }
}
