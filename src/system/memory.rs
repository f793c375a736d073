//! How much memory this process may use, and whether a file fits into it.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// A file larger than this part of the memory counts as too large to stay there: other files and the process itself need
/// memory, too.
const MOST: f64 = 0.5;

/// Every process may use more memory than twice this. Reading the limit takes some 30 system calls, and a store may have
/// thousands of files.
const FITS: u64 = 1 << 20;

/// Whether a file of `length` bytes is too large to stay in memory, so that random reads continually go to the disk.
pub(crate) fn is_exceeded_by(length: u64) -> bool {
    length > FITS && length as f64 > limit(Path::new("/proc"), Path::new("/sys/fs/cgroup")) as f64 * MOST
}

/// A quarter of the bytes of memory that this process may use, read once.
pub(crate) fn quarter() -> u64 {
    static QUARTER: OnceLock<u64> = OnceLock::new();
    *QUARTER.get_or_init(|| limit(Path::new("/proc"), Path::new("/sys/fs/cgroup")) / 4)
}

/// How many bytes of memory this process may use: the least of the machine's memory and the limits of the process's
/// control groups, version 1 or 2. No limit if none of these can be read, as on systems other than Linux.
fn limit(proc: &Path, cgroups: &Path) -> u64 {
    let machine = read_to_string(proc.join("meminfo")).ok().and_then(|text| total(&text));
    let groups = read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| group_limit(line, cgroups));
    groups.chain(machine).min().unwrap_or(u64::MAX)
}

/// `MemTotal:       24629384 kB`
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least limit of a group and of the groups above it, for a line of `/proc/self/cgroup`: `0::/path` for version 2,
/// `N:memory:/path` for version 1. Inside a container, the path may be the host's and not exist. The root exists, and has
/// the container's limit.
fn group_limit(line: &str, cgroups: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => (cgroups.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (cgroups.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group = root.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(&root));
    groups.filter_map(|group| read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
}

/// Whether blocks of lookups prefetch their pages, so that a disk reads many at once.
///
/// Prefetching costs two system calls for each lookup. Even in a file larger than memory, the pages of a lookup may be in
/// memory. So a block prefetches only if the block before it had to wait.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) larger_than_memory: bool,
    pub(crate) waited: AtomicBool,
}

impl Paging {
    pub(crate) fn new(length: u64) -> Self {
        let larger_than_memory = is_exceeded_by(length);
        Self { larger_than_memory, waited: AtomicBool::new(larger_than_memory) }
    }

    /// For memory that is never paged out to a file.
    pub(crate) const fn none() -> Self {
        Self { larger_than_memory: false, waited: AtomicBool::new(false) }
    }
}

/// How many regions are read ahead when regions are visited in order: 16, or 1 MiB.
pub(crate) const REGIONS_AHEAD: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_with(cgroup: &str, limits: &[(&str, &str)]) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let (proc, cgroups) = (dir.path().join("proc"), dir.path().join("cgroup"));
        std::fs::create_dir_all(proc.join("self")).unwrap();
        std::fs::write(proc.join("meminfo"), "MemTotal:  1024 kB\nMemFree:  1 kB\n").unwrap();
        std::fs::write(proc.join("self/cgroup"), cgroup).unwrap();
        for (path, bytes) in limits {
            let path = cgroups.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        limit(&proc, &cgroups)
    }

    #[test]
    fn the_least_limit_counts() {
        assert_eq!(limit_with("", &[]), 1 << 20);
        assert_eq!(limit_with("0::/a/b\n", &[("a/b/memory.max", "max\n"), ("a/memory.max", "4096\n")]), 4096);
        assert_eq!(limit_with("0::/not/here\n", &[("memory.max", "8192\n")]), 8192);
        let old = [("memory/x/memory.limit_in_bytes", "12288\n"), ("x/memory.max", "1")];
        assert_eq!(limit_with("5:cpu:/y\n4:cpuset,memory:/x\n", &old), 12288);
        assert_eq!(
            limit_with("4:memory:/../..\n", &[("memory/memory.limit_in_bytes", "9999999999")]),
            1 << 20
        );
    }

    #[test]
    fn nothing_known_is_no_limit() {
        assert_eq!(limit(Path::new("/nowhere"), Path::new("/nowhere")), u64::MAX);
    }
}
