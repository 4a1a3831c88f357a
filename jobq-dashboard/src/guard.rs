//! The checks of a request before anything is done. Pure.

use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderValue, Method};

/// The reason why a request that changes something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Another site sent it.
    Elsewhere,
    /// It does not say from where it is.
    Unsaid,
    /// It names an origin, and none is configured.
    NotConfigured,
}

impl Foreign {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Elsewhere => {
                "The form is from another site. If the dashboard is behind a proxy, configure its \
                 origin: the scheme, host and port that the browser shows."
            }
            Self::Unsaid => {
                "The request has neither a Sec-Fetch-Site nor an Origin header, so it may be from \
                 another site. Browsers send one of them. A script must send `Origin` with the \
                 origin of the dashboard."
            }
            Self::NotConfigured => {
                "Without HTTPS, the browser identifies the site of the form by `Origin` alone, and \
                 the dashboard does not know its own origin: configure it."
            }
        }
    }
}

/// Whether a request changes something.
pub(crate) fn writes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Checks that a request that changes something is from a page of the dashboard itself.
pub(crate) fn same_origin(headers: &HeaderMap, origins: &[String]) -> Result<(), Foreign> {
    if let Some(site) = headers.get("sec-fetch-site") {
        return if site == "same-origin" { Ok(()) } else { Err(Foreign::Elsewhere) };
    }
    let origin = headers.get(ORIGIN).ok_or(Foreign::Unsaid)?;
    if origins.is_empty() {
        return Err(Foreign::NotConfigured);
    }
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    if origins.contains(&origin) { Ok(()) } else { Err(Foreign::Elsewhere) }
}

/// Whether a page of another site is behind a request that only reads, and no person who follows a
/// link: its pictures, frames and scripts could make the broker look for failed jobs over and over.
pub(crate) fn reads_for_another_site(headers: &HeaderMap) -> bool {
    let header = |name| headers.get(name).map(HeaderValue::as_bytes);
    let is_ours = matches!(header("sec-fetch-site"), None | Some(b"same-origin" | b"none"));
    let follows_a_link = header("sec-fetch-mode") == Some(b"navigate")
        && header("sec-fetch-dest") == Some(b"document");
    !is_ours && !follows_a_link
}

/// The origin as browsers send it: in lower case, without a `/` and the usual port. `None` if the text
/// has anything but a scheme, a host and a port.
pub(crate) fn origin(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/').to_ascii_lowercase();
    let (scheme, host) = text.split_once("://")?;
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._~:[]".contains(c);
    let host = host.strip_suffix(usual).unwrap_or(host);
    (!host.is_empty() && host.chars().all(is_host)).then(|| format!("{scheme}://{host}"))
}

/// The name or address in a `Host`, without the port.
pub(crate) fn host_name(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            name
        }
        _ => host,
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_of_the_same_origin_change_something() {
        let ours = vec!["https://jobs.example.com".to_owned()];
        for (site, origin, origins, expected) in [
            (Some("same-origin"), None, &ours, Ok(())),
            (Some("same-origin"), Some("https://evil.example"), &ours, Ok(())),
            (Some("cross-site"), Some("https://jobs.example.com"), &ours, Err(Foreign::Elsewhere)),
            (Some("same-site"), None, &ours, Err(Foreign::Elsewhere)),
            (Some("none"), None, &ours, Err(Foreign::Elsewhere)),
            (None, Some("https://jobs.example.com"), &ours, Ok(())),
            (None, Some("HTTPS://Jobs.Example.com"), &ours, Ok(())),
            (None, Some("http://jobs.example.com"), &ours, Err(Foreign::Elsewhere)),
            (None, Some("https://jobs.example.com.evil.example"), &ours, Err(Foreign::Elsewhere)),
            (None, Some("https://jobs.example.com:8443"), &ours, Err(Foreign::Elsewhere)),
            (None, Some("null"), &ours, Err(Foreign::Elsewhere)),
            (None, Some("https://jobs.example.com"), &Vec::new(), Err(Foreign::NotConfigured)),
            (None, None, &ours, Err(Foreign::Unsaid)),
        ] {
            let mut headers = HeaderMap::new();
            site.map(|site| headers.insert("sec-fetch-site", site.parse().unwrap()));
            origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            assert_eq!(same_origin(&headers, origins), expected, "{site:?} {origin:?}");
        }
    }

    #[test]
    fn other_sites_only_lead_to_pages() {
        for (site, mode, to, expected) in [
            (None, None, None, false),
            (Some("none"), Some("navigate"), Some("document"), false),
            (Some("same-origin"), Some("cors"), Some("empty"), false),
            (Some("cross-site"), Some("navigate"), Some("document"), false),
            (Some("same-site"), Some("navigate"), Some("document"), false),
            (Some("cross-site"), Some("navigate"), Some("iframe"), true),
            (Some("cross-site"), Some("no-cors"), Some("image"), true),
            (Some("cross-site"), Some("no-cors"), Some("empty"), true),
            (Some("same-site"), Some("no-cors"), Some("script"), true),
            (Some("cross-site"), None, None, true),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in
                [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", to)]
            {
                value.map(|value| headers.insert(name, value.parse().unwrap()));
            }
            assert_eq!(reads_for_another_site(&headers), expected, "{site:?} {mode:?} {to:?}");
        }
    }

    #[test]
    fn an_origin_is_as_browsers_send_it() {
        for (text, expected) in [
            ("https://Jobs.example.com/", Some("https://jobs.example.com")),
            ("https://jobs.example.com:443", Some("https://jobs.example.com")),
            ("http://[::1]:8700", Some("http://[::1]:8700")),
            ("http://localhost:80", Some("http://localhost")),
            ("http://localhost:8080", Some("http://localhost:8080")),
            ("jobs.example.com", None),
            ("https://", None),
            ("https://jobs.example.com/admin", None),
            ("https://ann@jobs.example.com", None),
            ("ftp://jobs.example.com", None),
            ("*", None),
        ] {
            assert_eq!(origin(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_host_is_compared_without_its_port() {
        for (host, name) in [
            ("localhost:8700", "localhost"),
            ("LOCALHOST", "localhost"),
            ("[::1]:8700", "[::1]"),
            ("[::1]", "[::1]"),
            ("jobs.example.com.", "jobs.example.com"),
            ("", ""),
        ] {
            assert_eq!(host_name(host), name, "{host}");
        }
    }
}
