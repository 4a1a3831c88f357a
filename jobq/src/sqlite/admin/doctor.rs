//! The doctor of a job file: facts about it, and findings from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::finding::{Finding, FindingKind as Kind, Report, Severity};
use crate::sqlite::place::Place;

const MIB: u64 = 1024 * 1024;
/// Less free space than this is a warning.
const LOW_SPACE: u64 = 256 * MIB;
const NO_SPACE: u64 = 16 * MIB;
/// The log is truncated to 64 MiB after a burst, unless a reader prevents it.
const LONG_LOG: u64 = 128 * MIB;
/// Network file systems. SQLite's log needs shared memory and working locks.
const NETWORK: [&str; 14] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "glusterfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
    "vboxsf",
];
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Facts about a file.
#[derive(Debug, Default, Clone)]
struct Facts {
    /// The type, such as `ext4`, if the system tells.
    filesystem: Option<String>,
    /// Bytes that this user may still write.
    free: Option<u64>,
    /// Bytes of the write-ahead log.
    log: u64,
    /// The damage that SQLite found.
    damage: Option<String>,
    /// The error if the check failed.
    unchecked: Option<String>,
}

/// Examines a place. It reads the whole file.
pub(super) fn examine(place: &Place, timeout: Duration) -> Report {
    let findings = match place {
        Place::Memory => vec![in_memory("is in the memory of this process")],
        Place::File(path) => diagnose(&place.to_string(), &look(path, timeout)),
    };
    Report::new(format!("SQLite, {place}"), Some(rusqlite::version().to_owned()), findings)
}

fn look(path: &Path, timeout: Duration) -> Facts {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let (mut damage, mut unchecked) = (None, None);
    match check(path, timeout) {
        Ok(answer) if answer == "ok" => {}
        Ok(answer) => damage = Some(answer),
        Err(error) => unchecked = Some(error.to_string()),
    }
    Facts {
        filesystem: filesystem(&mounts, &real),
        free: free(&real),
        log: std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len()),
        damage,
        unchecked,
    }
}

/// `ok`, or the damage, from a read-only connection that blocks no other.
fn check(path: &Path, timeout: Duration) -> rusqlite::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(timeout)?;
    connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

#[cfg(unix)]
fn free(path: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

/// The type of the file system of a path, from Linux's `/proc/self/mountinfo`: of the deepest mount
/// above it, the last one.
fn filesystem(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(before.split(' ').nth(4)?));
        let depth = path.starts_with(&point).then(|| point.components().count())?;
        Some((depth, after.split(' ').next()?.to_owned()))
    };
    let deepest = mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth)?;
    Some(deepest.1)
}

/// Decodes the octal escapes of white space and backslashes.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn in_memory(found: &str) -> Finding {
    Finding::new(Kind::Place, Severity::Warning, "the job file")
        .found(found)
        .matters("the jobs are lost when this memory is released")
        .remedy("use a file on a disk, such as sqlite:///var/lib/shop/jobs.db")
}

fn diagnose(about: &str, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let finding = |kind, severity| Finding::new(kind, severity, about);
    let kind = facts.filesystem.as_deref().unwrap_or_default();
    if IN_MEMORY.contains(&kind) {
        findings.push(in_memory(&format!("is on an in-memory file system ({kind})")));
    }
    if NETWORK.contains(&kind) {
        findings.push(
            finding(Kind::Place, Severity::Error)
                .found(format!("is on a network file system ({kind})"))
                .matters(
                    "SQLite's write-ahead log does not work over a network: processes on two \
                     machines corrupt the file",
                )
                .remedy(
                    "use a file on a local disk, or RabbitMQ if workers run on several machines",
                ),
        );
    }
    if let Some(free) = facts.free.filter(|free| *free < LOW_SPACE) {
        let severity = if free < NO_SPACE { Severity::Error } else { Severity::Warning };
        findings.push(
            finding(Kind::Space, severity)
                .found(format!("its disk has {} MiB of free space", free / MIB))
                .matters("on a full disk, no jobs are accepted and no outcomes are recorded")
                .remedy(
                    "free disk space, or move the file to another disk while no program uses it",
                ),
        );
    }
    if facts.log > LONG_LOG {
        findings.push(
            finding(Kind::Space, Severity::Warning)
                .found(format!("its write-ahead log (-wal) has {} MiB", facts.log / MIB))
                .matters("it keeps growing, and reads become slow")
                .remedy("stop the program that holds a long read transaction on the file"),
        );
    }
    if let Some(damage) = &facts.damage {
        findings.push(
            finding(Kind::Damage, Severity::Error)
                .found(format!("is damaged: {damage}"))
                .matters("jobs may be lost")
                .remedy(
                    "stop all programs that use the file, copy it, and recover what is readable \
                     with `sqlite3 FILE .recover`; check the disk, and whether another program \
                     copied or deleted parts of the file",
                ),
        );
    }
    if let Some(why) = &facts.unchecked {
        findings.push(
            finding(Kind::Unchecked, Severity::Warning)
                .found(format!("could not be checked for damage: {why}")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_has_its_finding() {
        use Severity::{Error, Warning};
        let on = |kind: &str| Facts { filesystem: Some(kind.into()), ..Facts::default() };
        let free = |free| Facts { free: Some(free), ..Facts::default() };
        let log = |log| Facts { log, ..Facts::default() };
        let table = [
            (Facts::default(), None),
            (on("ext4"), None),
            (on("tmpfs"), Some((Kind::Place, Warning))),
            (on("nfs4"), Some((Kind::Place, Error))),
            (on("9p"), Some((Kind::Place, Error))),
            (free(LOW_SPACE), None),
            (free(LOW_SPACE - 1), Some((Kind::Space, Warning))),
            (free(0), Some((Kind::Space, Error))),
            (log(LONG_LOG), None),
            (log(LONG_LOG + 1), Some((Kind::Space, Warning))),
            (
                Facts { damage: Some("page 3".into()), ..Facts::default() },
                Some((Kind::Damage, Error)),
            ),
            (
                Facts { unchecked: Some("locked".into()), ..Facts::default() },
                Some((Kind::Unchecked, Warning)),
            ),
        ];
        for (facts, expected) in table {
            let findings = diagnose("the job file /x", &facts);
            let found = findings.first().map(|finding| (finding.kind(), finding.severity()));
            assert_eq!((found, findings.len()), (expected, expected.iter().count()), "{facts:?}");
        }
    }

    #[test]
    fn the_deepest_mount_above_a_path_is_its_file_system() {
        let mounts = "\
            22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
            30 22 0:26 / /tmp rw - tmpfs tmpfs rw\n\
            31 22 0:40 / /srv/my\\040jobs rw - nfs4 nas:/jobs rw\n\
            32 22 0:41 / /srv/over rw - ext4 /dev/vdb rw\n\
            33 22 0:42 / /srv/over rw master:7 - cifs //nas/over rw\n\
            no mount\n";
        let table = [
            ("/var/jobs.db", "ext4"),
            ("/tmp/a/jobs.db", "tmpfs"),
            ("/tmpfile.db", "ext4"),
            ("/srv/my jobs/jobs.db", "nfs4"),
            ("/srv/over/jobs.db", "cifs"),
        ];
        for (path, expected) in table {
            assert_eq!(filesystem(mounts, Path::new(path)).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(filesystem("", Path::new("/jobs.db")), None);
    }
}
