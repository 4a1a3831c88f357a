//! Time zones by name.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::error::{Error, Result};

/// Files of zoneinfo folders that are not zones: the machine's own zone, the default rule for POSIX
/// texts, and two placeholders for an unknown zone.
const NOT_ZONES: [&str; 4] = ["localtime", "posixrules", "factory", "etc/unknown"];
/// Folders of zones that count leap seconds, and of copies.
const NOT_FOLDERS: [&str; 2] = ["right/", "posix/"];

/// Finds a zone in the system's database, then in jiff's own. A system may have no database, and
/// Debian's lacks names such as `Europe/Kiev` without the package tzdata-legacy.
pub(super) fn find(name: &str) -> Result<TimeZone> {
    let lower = name.to_ascii_lowercase();
    let refused = NOT_ZONES.contains(&lower.as_str())
        || NOT_FOLDERS.iter().any(|folder| lower.starts_with(folder));
    let found = if refused {
        None
    } else {
        jiff::tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok()
    };
    found.ok_or_else(|| {
        let text = format!(
            "`{name}` is not a time zone; use a name of the IANA database, such as \
             `Europe/Berlin` or `UTC`"
        );
        Error::invalid(text)
    })
}
