//! The name of this machine, and the memory of this process.

use std::sync::LazyLock;

#[cfg(unix)]
static NAME: LazyLock<String> =
    LazyLock::new(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
#[cfg(not(unix))]
static NAME: LazyLock<String> =
    LazyLock::new(|| std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned()));

/// The name of this machine, as it was at the first call.
pub(crate) fn name() -> &'static str {
    &NAME
}

/// The resident memory of this process, in bytes. `None` on a system other than Linux.
pub(crate) fn memory() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The resident memory in the text of a `status` file of proc(5), in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_is_read_from_the_status() {
        for (status, expected) in [
            (
                "Name:\tshop\nVmPeak:\t  9 kB\nVmRSS:\t    1204 kB\nRssAnon:\t 7 kB\n",
                Some(1_232_896),
            ),
            ("VmRSS:\t1204\n", None),
            ("VmRSS:\tmany kB\n", None),
            ("VmRSS:\t18446744073709551615 kB\n", None),
            ("Name:\tVmRSS: 7 kB\n", None),
            ("", None),
        ] {
            assert_eq!(resident(status), expected, "{status:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory() {
        assert!(memory().unwrap() > 1024 * 1024);
    }
}
