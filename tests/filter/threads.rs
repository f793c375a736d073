//! A process that cannot start threads.
//!
//! Invariant checked: the library then does all work on the caller's thread, with the same results.
//!
//! A limit on threads does not apply to root. Under root, the child process therefore runs as another user.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gowk::{Batches, Lookup, Options, Reader};

const KEYS: u64 = 200_000;
const NOBODY: u32 = 65_534;
const FILTER: &str = "GOWK_TEST_FILTER";

fn keys(numbers: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    numbers.map(u64::to_le_bytes).collect()
}

/// Fills, doubles, changes and reads a filter, and requests four threads.
fn be_limited(path: &Path) {
    let started = std::thread::Builder::new().spawn(|| ());
    assert!(started.is_err(), "the limit does not bind");
    let options = Options::new().counting().capacity(KEYS / 4).threads(4);
    let mut writer = options.create(path).unwrap();
    writer.commit().unwrap();
    for part in keys(0..KEYS).chunks(KEYS as usize / 2) {
        assert!(writer.insert_batch(part).unwrap().refused().is_empty());
    }
    writer.commit().unwrap();
    writer.grow().unwrap();
    let removed = writer.remove_batch(&keys(0..KEYS / 4)).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = options.read(path).unwrap();
    let found = reader.contains_batch(&keys(KEYS / 4..KEYS)).unwrap();
    assert!(found.iter().all(|found| *found));
    let copy = path.with_extension("copy");
    reader.copy_to(&copy, &|_, _| {}).unwrap();
    println!("\n:: done");
}

#[test]
fn where_no_thread_can_be_started_the_caller_does_the_work() {
    if let Some(path) = std::env::var_os(FILTER) {
        return be_limited(path.as_ref());
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("limited");
    crate::thorough::copy_program(&std::env::current_exe().unwrap(), &program);
    let filter = dir.path().join("f.gowk");
    // The limit counts all threads of the user, including this process's.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -u 1 2>/dev/null || ulimit -p 1; exec \"$0\" \"$@\""]).arg(&program);
    command.args([
        "threads::where_no_thread_can_be_started_the_caller_does_the_work",
        "--exact",
        "--nocapture",
    ]);
    command.arg("--test-threads=1").env(FILTER, &filter);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(":: done"), "{said}");
    let (reader, copy) =
        (Reader::open(&filter).unwrap(), Reader::open(filter.with_extension("copy")).unwrap());
    for key in keys(KEYS / 4..KEYS) {
        assert!(reader.contains(&key).unwrap() && copy.contains(&key).unwrap());
    }
    for reader in [reader, copy] {
        let report = reader.verify(&|_, _| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}
