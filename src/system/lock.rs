//! The locks of a filter. The kernel frees all of them when their owner dies.
//!
//! * The **gate** is a `flock` on the data file itself, held only while opening (and recovering).
//! * The **writer lock** is a `flock` on `FILE-lock`, which is never renamed. It is used only under the gate, and is
//!   tried, never waited for. *Held exclusively* means: its owner has recovered the file and writes.
//! * The **presence** of a writer is a lock on one byte of the data file. It means the same as the writer lock, but
//!   belongs to the file and not to its name. So it still holds if a user removes `FILE-lock` or renames the file.
//! * The **turn** is a lock on another byte of the data file. A process that waits for the gate exclusively holds the
//!   turn, and processes that open the file later wait for the turn. Without it, a stream of readers could keep a writer
//!   waiting for ever: some reader would always hold the gate.
//!
//! Presence and turn are locks of open file descriptions (`F_OFD_SETLK`). On systems without such locks, gate and writer
//! lock suffice as long as no user removes the lock file.
//!
//! If a filter is never published, the process that made its lock file removes that file again ([`Held::of_new`]).
//! Another process may have opened the lock file before, and may then lock a file without a name. So after taking the
//! writer lock, a process checks whether the name still leads to that file ([`Held::is_at`]), and starts over if not.
//! Only the owner of the exclusive lock removes the file, so a locked file that was found under its name stays.
//!
//! Locks are released explicitly: a memory map of the file keeps a lock alive after its descriptor is closed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fs2::FileExt;

use super::disk::Disk;
use super::files::{Files, Inode, inode_of};
use super::rights::Rights;
use crate::error::{Error, IoContext, Result};

/// The pause after the first attempt to lock. It grows with each attempt.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// The longest pause between two attempts to lock.
const LAST_PAUSE: Duration = Duration::from_millis(5);

/// A lock on a file, released when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    file: File,
    /// Set for a lock file that this process has made: the files of its filter, and the disk from which to remove it.
    made: Option<(Files, Arc<dyn Disk>)>,
}

/// How long to wait for a lock; `None` waits without end.
pub(crate) type Deadline = Option<Instant>;

pub(crate) fn is_over(deadline: Deadline) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

impl Held {
    /// Takes the gate shared; [`Error::Stalled`] if others hold it exclusively until the deadline.
    pub(crate) fn gate_shared(file: &File, path: &Path, deadline: Deadline) -> Result<Self> {
        let own = file.try_clone().at(path, "lock")?;
        until(path, deadline, || {
            let Some(_turn) = ByteLock::try_shared(file, TURN).at(path, "lock")? else { return Ok(None) };
            let free = contended(uninterrupted(|| FileExt::try_lock_shared(&own))).at(path, "lock")?;
            Ok(free.then_some(()))
        })?;
        Ok(Self::new(own))
    }

    /// Takes the gate exclusively; the file is open for writing. [`Error::Stalled`] if others hold it until the deadline.
    pub(crate) fn gate_exclusive(file: &File, path: &Path, deadline: Deadline) -> Result<Self> {
        let own = file.try_clone().at(path, "lock")?;
        let _turn = until(path, deadline, || ByteLock::try_exclusive(file, TURN).at(path, "lock"))?;
        until(path, deadline, || {
            let free = contended(uninterrupted(|| FileExt::try_lock_exclusive(&own))).at(path, "lock")?;
            Ok(free.then_some(()))
        })?;
        Ok(Self::new(own))
    }

    /// Takes a shared lock, unless another process holds it exclusively.
    pub(crate) fn try_shared(file: File, path: &Path) -> Result<Option<Self>> {
        let free = contended(uninterrupted(|| FileExt::try_lock_shared(&file))).at(path, "lock")?;
        Ok(free.then_some(Self::new(file)))
    }

    /// Makes a shared lock exclusive. If another process also holds a shared lock, returns `None` and releases the lock:
    /// the conversion is not atomic.
    pub(crate) fn try_into_exclusive(self, path: &Path) -> Result<Option<Self>> {
        let free = contended(uninterrupted(|| FileExt::try_lock_exclusive(&self.file))).at(path, "lock")?;
        Ok(free.then_some(self))
    }

    const fn new(file: File) -> Self {
        Self { file, made: None }
    }

    /// Whether the name leads to the locked file. A lock on a file that was removed means nothing.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool> {
        let own = Inode::of(&self.file.metadata().at(path, "look at")?);
        Ok(inode_of(path).at(path, "look at")? == Some(own))
    }

    /// Marks this as the exclusive lock of a filter that does not exist yet, whose lock file this process has made. If
    /// the filter still does not exist when the lock is released, the lock file is removed.
    pub(crate) fn of_new(mut self, files: &Files, disk: &Arc<dyn Disk>) -> Self {
        self.made = Some((files.clone(), disk.clone()));
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The file is removed before the lock is released, so that no other process has the lock then.
        if let Some((files, disk)) = self.made.take()
            && files.inode().is_ok_and(|found| found.is_none())
            && self.is_at(&files.lock).is_ok_and(|is_at| is_at)
        {
            // A lock file that remains does no harm.
            let _ = disk.remove(&files.lock);
        }
        // This cannot fail on a descriptor that holds a lock. If it did, the kernel would free the lock with the
        // process.
        let _ = FileExt::unlock(&self.file);
    }
}

/// Tries until there is an outcome, with growing pauses.
fn until<T>(path: &Path, deadline: Deadline, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(outcome) = attempt()? {
            return Ok(outcome);
        }
        if is_over(deadline) {
            return Err(Error::Stalled { path: path.to_owned() });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn contended(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The lock that shows that a living writer has the data file open; released when dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    _byte: ByteLock,
}

impl Presence {
    /// Takes the presence of a file that is open for writing; `None` if another writer holds it.
    pub(crate) fn claim(file: &File, path: &Path) -> Result<Option<Self>> {
        Ok(ByteLock::try_exclusive(file, PRESENCE).at(path, "lock")?.map(|byte| Self { _byte: byte }))
    }

    /// Whether the presence is held through another open file description.
    pub(crate) fn is_claimed(file: &File) -> bool {
        byte::is_held(file, PRESENCE)
    }
}

/// The byte of the data file that the presence locks: `format-spec/README.md`, section 7.1.
pub(super) const PRESENCE: u64 = crate::format::LIVE;
/// The byte of the data file that the turn locks.
pub(super) const TURN: u64 = PRESENCE + 1;

/// A lock on one byte of a file, released when dropped.
#[derive(Debug)]
struct ByteLock(File, u64);

impl ByteLock {
    fn try_shared(file: &File, at: u64) -> io::Result<Option<Self>> {
        let own = file.try_clone()?;
        Ok(byte::try_lock(&own, at, false)?.then_some(Self(own, at)))
    }

    fn try_exclusive(file: &File, at: u64) -> io::Result<Option<Self>> {
        let own = file.try_clone()?;
        Ok(byte::try_lock(&own, at, true)?.then_some(Self(own, at)))
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        byte::unlock(&self.0, self.1);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod byte {
    use std::fs::File;
    use std::io;

    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    fn range(kind: i32, at: u64) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: at as libc::off_t,
            l_len: 1,
            l_pid: 0,
        }
    }

    /// True if the lock was taken, or if the system has no such locks.
    pub(super) fn try_lock(file: &File, at: u64, exclusive: bool) -> io::Result<bool> {
        let range = range(if exclusive { libc::F_WRLCK } else { libc::F_RDLCK }, at);
        match super::uninterrupted(|| {
            fcntl(file, FcntlArg::F_OFD_SETLK(&range)).map(drop).map_err(io::Error::from)
        }) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EAGAIN | Errno::EACCES) => Ok(false),
                Some(Errno::EINVAL | Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(true),
                _ => Err(error),
            },
        }
    }

    pub(super) fn unlock(file: &File, at: u64) {
        // This cannot fail, for the reason given in `Held::drop`.
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, at)));
    }

    /// Whether another open file description has the lock exclusively.
    pub(super) fn is_held(file: &File, at: u64) -> bool {
        let mut range = range(libc::F_RDLCK, at);
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut range)).is_ok()
            && range.l_type != libc::F_UNLCK as libc::c_short
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod byte {
    use std::fs::File;
    use std::io;

    pub(super) fn try_lock(_: &File, _: u64, _: bool) -> io::Result<bool> {
        Ok(true)
    }

    pub(super) fn unlock(_: &File, _: u64) {}

    pub(super) fn is_held(_: &File, _: u64) -> bool {
        false
    }
}

/// Opens the file of the writer lock, or creates it with the rights of `model`. The flag is true if it was created.
pub(crate) fn lock_file(files: &Files, disk: &dyn Disk, model: Option<&Rights>) -> Result<(File, bool)> {
    loop {
        if let Some(file) = files.open_side(&files.lock, true)? {
            return Ok((file, false));
        }
        if let Some(file) = files.create_side(disk, &files.lock, model)? {
            return Ok((file, true));
        }
    }
}

/// Opens the file of the writer lock for reading; `None` if it does not exist.
pub(crate) fn existing_lock_file(files: &Files) -> Result<Option<File>> {
    files.open_side(&files.lock, false)
}

#[cfg(test)]
mod tests;
