//! Invariants checked: only a regular file with one name is opened as a side file, without waiting, and nothing is
//! created where a link leads.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::super::disk::SystemDisk;
use super::super::lock::lock_file;
use super::*;

fn files(dir: &Path) -> Files {
    Files::new(&dir.join("f")).unwrap()
}

fn problem<T>(outcome: Result<T>) -> Untrusted {
    match outcome.map(drop).unwrap_err() {
        Error::Untrusted { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

fn fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

#[test]
fn what_somebody_planted_under_a_derived_name_is_refused_at_once_and_left_alone() {
    type Plant = fn(&Path, &Path);
    let plants: [(Plant, Untrusted); 6] = [
        (|name, other| symlink(other, name).unwrap(), Untrusted::SymbolicLink),
        (|name, _| symlink("leads nowhere", name).unwrap(), Untrusted::SymbolicLink),
        (|name, other| fs::hard_link(other, name).unwrap(), Untrusted::HardLinks { links: 2 }),
        (|name, _| fifo(name), Untrusted::NotAFile),
        (|name, _| fs::create_dir(name).unwrap(), Untrusted::NotAFile),
        (|name, _| drop(UnixListener::bind(name).unwrap()), Untrusted::NotAFile),
    ];
    for (plant, expected) in plants {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("secret");
        fs::write(&other, "secret").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        let files = files(dir.path());
        plant(&files.lock, &other);
        assert_eq!(problem(lock_file(&files, &SystemDisk, None)), expected);
        assert_eq!(problem(files.open_side(&files.lock, true)), expected);
        let read = files.open_side(&files.lock, false);
        match expected {
            // A shared lock changes nothing, and people make snapshots of folders by links.
            Untrusted::HardLinks { .. } => assert!(read.unwrap().is_some()),
            expected => {
                assert_eq!(problem(read), expected);
                assert_eq!(problem(length_of_regular(&files.lock)), expected);
            }
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "secret");
        assert_eq!(other.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(!dir.path().join("leads nowhere").exists());
    }
}

#[test]
fn a_side_file_that_was_there_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    fs::write(&files.data, "").unwrap();
    fs::write(&files.lock, "").unwrap();
    fs::set_permissions(&files.lock, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&files.data, fs::Permissions::from_mode(0o644)).unwrap();
    let model = Rights::of(&File::open(&files.data).unwrap()).unwrap();
    lock_file(&files, &SystemDisk, Some(&model)).unwrap();
    assert_eq!(files.lock.metadata().unwrap().mode() & 0o777, 0o600);
    fs::remove_file(&files.lock).unwrap();
    lock_file(&files, &SystemDisk, Some(&model)).unwrap();
    assert_eq!(files.lock.metadata().unwrap().mode() & 0o777, 0o644);
}
