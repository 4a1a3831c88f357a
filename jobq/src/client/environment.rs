//! Configuration by environment variables.

use std::ffi::OsString;
use std::path::Path;

use crate::engine::{Certificates, ClientCertificate, ManagementUrl};
use crate::error::{Error, ErrorKind, Result};

const ROOT_CERTIFICATE: &str = "JOBQ_ROOT_CERTIFICATE";
const CLIENT_CERTIFICATE: &str = "JOBQ_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "JOBQ_CLIENT_KEY";
const MANAGEMENT_URL: &str = "JOBQ_MANAGEMENT_URL";

/// The certificates in the files named by the environment.
pub(super) fn certificates(variable: impl Fn(&str) -> Option<OsString>) -> Result<Certificates> {
    let variable = |name: &str| variable(name).filter(|path| !path.is_empty());
    let file = |name: &str| variable(name).map(|path| read(name, Path::new(&path))).transpose();
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
    let Some(url) = variable(MANAGEMENT_URL).filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    if !cfg!(feature = "management") {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{MANAGEMENT_URL} is set, and this program was built without the feature \
                 `management` of jobq, which asks there"
            ),
        ));
    }
    // The value is not shown: it may have a password.
    let url = url.into_string().map_err(|_| {
        Error::invalid(format!(
            "the environment variable {MANAGEMENT_URL} is no UTF-8; set it to a URL such as \
             http://localhost:15672"
        ))
    })?;
    Ok(Some(ManagementUrl(url)))
}

fn read(variable: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| {
        Error::invalid(format!(
            "the file {} that {variable} names cannot be read: {source}; name a file in PEM form",
            path.display()
        ))
        .because(source)
    })
}

fn alone(set: &str, missing: &str) -> Error {
    Error::invalid(format!("{set} is set and {missing} is not; set both or neither"))
}

#[cfg(test)]
mod tests {
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
        assert!(found.roots[0].starts_with(b"//!"));
        assert!(found.client.unwrap().key.starts_with(b"//!"));
        let table: [(&[_], _); 4] = [
            (&[(chain, true)], "JOBQ_CLIENT_KEY is not"),
            (&[(key, true)], "JOBQ_CLIENT_CERTIFICATE is not"),
            (&[(root, false)], "no/such/file that JOBQ_ROOT_CERTIFICATE"),
            (&[(chain, true), (key, false)], "no/such/file that JOBQ_CLIENT_KEY"),
        ];
        for (set, said) in table {
            let error = among(set).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(said), "{error:?}");
        }
    }
}
