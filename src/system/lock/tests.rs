use std::fs::OpenOptions;

use super::*;

/// Two open file descriptions of one file, like those of two processes.
fn twice() -> (tempfile::TempDir, File, File) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let (one, other) = (open(), open());
    (dir, one, other)
}

fn soon() -> Deadline {
    Instant::now().checked_add(Duration::from_millis(20))
}

#[test]
fn a_presence_is_seen_by_others_until_it_is_dropped_even_while_the_file_is_mapped() {
    let (dir, one, other) = twice();
    let path = dir.path().join("f");
    one.set_len(4096).unwrap();
    let map = memmap2::MmapOptions::new().map_raw(&one).unwrap();
    let presence = Presence::claim(&one, &path).unwrap().unwrap();
    assert!(Presence::is_claimed(&other) && Presence::is_claimed(&File::open(&path).unwrap()));
    assert!(!Presence::is_claimed(&one), "its own is no other's");
    assert!(Presence::claim(&other, &path).unwrap().is_none());
    drop(one);
    assert!(Presence::is_claimed(&other));
    drop(presence);
    assert!(!Presence::is_claimed(&other));
    drop(map);
}

#[test]
fn the_gate_is_waited_for_until_the_deadline_and_no_longer() {
    let (dir, one, other) = twice();
    let path = dir.path().join("f");
    let shared = Held::gate_shared(&one, &path, soon()).unwrap();
    drop(Held::gate_shared(&other, &path, soon()).unwrap());
    assert!(matches!(Held::gate_exclusive(&other, &path, soon()), Err(Error::Stalled { .. })));
    drop(shared);
    let exclusive = Held::gate_exclusive(&other, &path, soon()).unwrap();
    assert!(matches!(Held::gate_shared(&one, &path, soon()), Err(Error::Stalled { .. })));
    drop(exclusive);
    Held::gate_shared(&one, &path, soon()).unwrap();
}

#[test]
fn who_waits_for_the_gate_exclusively_is_not_overtaken() {
    let (dir, one, other) = twice();
    let path = dir.path().join("f");
    let third = File::open(&path).unwrap();
    let shared = Held::gate_shared(&one, &path, None).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| Held::gate_exclusive(&other, &path, None).map(drop));
        while ByteLock::try_shared(&third, TURN).unwrap().is_some() {
            thread::yield_now();
        }
        assert!(matches!(Held::gate_shared(&third, &path, soon()), Err(Error::Stalled { .. })));
        drop(shared);
        waiting.join().unwrap().unwrap();
    });
    Held::gate_shared(&third, &path, soon()).unwrap();
}

/// A process can still lock a removed file that it had opened before.
#[test]
fn a_lock_file_goes_with_the_lock_of_a_filter_that_never_came_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::new(&dir.path().join("f")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crate::system::SystemDisk);
    let taken = || {
        let (file, made) = lock_file(&files, &*disk, None).unwrap();
        (
            Held::try_shared(file, &files.lock)
                .unwrap()
                .unwrap()
                .try_into_exclusive(&files.lock)
                .unwrap()
                .unwrap(),
            made,
        )
    };
    let (lock, made) = taken();
    assert!(made && lock.is_at(&files.lock).unwrap());
    let (waits, others) = lock_file(&files, &*disk, None).unwrap();
    assert!(!others && Held::try_shared(waits.try_clone().unwrap(), &files.lock).unwrap().is_none());
    drop(lock.of_new(&files, &disk));
    assert!(!files.lock.exists());
    let late = Held::try_shared(waits, &files.lock).unwrap().unwrap();
    assert!(!late.is_at(&files.lock).unwrap(), "its name is gone");
    let (lock, made) = taken();
    assert!(made && !late.is_at(&files.lock).unwrap(), "another file has its name");

    // If the filter exists now, or another file has the name of the lock file, nothing is removed.
    std::fs::write(&files.data, "a filter").unwrap();
    drop(lock.of_new(&files, &disk));
    assert!(files.lock.exists());
    std::fs::remove_file(&files.data).unwrap();
    let (lock, made) = taken();
    assert!(!made);
    std::fs::remove_file(&files.lock).unwrap();
    std::fs::write(&files.lock, "").unwrap();
    drop(lock.of_new(&files, &disk));
    assert!(files.lock.exists());
}
