use std::fs;

use super::*;
use crate::system::disk::SystemDisk;

fn files() -> (tempfile::TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::new(&dir.path().join("urls")).unwrap();
    (dir, files)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Leaves a temporary file behind, like a process that dies.
fn left_behind(files: &Files) -> PathBuf {
    let (_, path) = files.temporary(&SystemDisk, None).unwrap().keep().unwrap();
    path
}

#[test]
fn only_what_a_dead_writer_left_is_removed() {
    let (dir, files) = files();
    for name in [
        "urls-new-20241121",
        "urls-new-1a2b3c4d",
        "urls-gowk-new-",
        "urls-gowk-new-notes",
        "urls-new-abcdefgh",
    ] {
        fs::write(dir.path().join(name), "mine").unwrap();
    }
    // Named like a temporary file of gowk, but not one: other contents, a folder, or a link to a file that begins like
    // one.
    fs::write(dir.path().join("urls-gowk-new-0000000000000001"), "sixteen letters and more").unwrap();
    fs::write(dir.path().join("urls-gowk-new-0000000000000002"), temporary_head(3)).unwrap();
    fs::create_dir(dir.path().join("urls-gowk-new-0000000000000004")).unwrap();
    fs::write(dir.path().join("other"), temporary_head(5)).unwrap();
    std::os::unix::fs::symlink("other", dir.path().join("urls-gowk-new-0000000000000005")).unwrap();
    let status =
        std::process::Command::new("mkfifo").arg(dir.path().join("urls-gowk-new-0000000000000006")).status();
    assert!(status.unwrap().success());
    let before = names(dir.path());

    let stale: Vec<_> = (0..4).map(|_| left_behind(&files)).collect();
    fs::write(&stale[1], "").unwrap();
    for (stale, kind) in stale[2..].iter().zip(Kind::ALL) {
        fs::write(stale, [superblock_head(kind).as_slice(), &[1; 100]].concat()).unwrap();
    }
    fs::write(dir.path().join("urls-gowk-new-0000000000000007"), [0; 4096]).unwrap();
    files.remove_stale(&SystemDisk);
    assert_eq!(names(dir.path()), before);
}

#[test]
fn a_temporary_file_that_a_living_writer_has_stays() {
    let (_dir, files) = files();
    let file = files.temporary(&SystemDisk, None).unwrap();
    let presence = Presence::claim(file.as_file(), file.path()).unwrap();
    files.remove_stale(&SystemDisk);
    assert!(file.path().exists());
    drop(presence);
    files.remove_stale(&SystemDisk);
    assert!(!file.path().exists());
}

#[test]
fn what_cannot_be_removed_keeps_nothing_else_from_being_removed() {
    #[derive(Debug)]
    struct Refusing(PathBuf);
    impl Disk for Refusing {
        fn remove(&self, path: &Path) -> io::Result<()> {
            if path == self.0 { Err(io::ErrorKind::PermissionDenied.into()) } else { SystemDisk.remove(path) }
        }
    }
    let (dir, files) = files();
    let stale: Vec<_> = (0..6).map(|_| left_behind(&files)).collect();
    let kept = stale[2].clone();
    files.remove_stale(&Refusing(kept.clone()));
    assert_eq!(names(dir.path()), [kept.file_name().unwrap().to_str().unwrap()]);
}

#[test]
fn a_second_name_left_by_a_publication_is_removed_and_any_other_is_refused() {
    let (dir, files) = files();
    fs::write(&files.data, "filter").unwrap();
    let file = File::open(&files.data).unwrap();
    files.check_single_name(&SystemDisk, &file).unwrap();
    fs::hard_link(&files.data, dir.path().join("urls-gowk-new-00000000000000ff")).unwrap();
    files.check_single_name(&SystemDisk, &file).unwrap();
    assert_eq!(names(dir.path()), ["urls"]);
    fs::hard_link(&files.data, dir.path().join("elsewhere")).unwrap();
    fs::hard_link(&files.data, dir.path().join("urls-gowk-new-00000000000000ff")).unwrap();
    assert!(matches!(files.check_single_name(&SystemDisk, &file), Err(Error::HardLinks { links: 2, .. })));
    assert_eq!(names(dir.path()), ["elsewhere", "urls"]);
}
