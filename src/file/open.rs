//! Opening: the locks, their order, and which process recovers.
//!
//! Invariants (`format-spec/README.md`, section 7):
//!
//! 1. The writer lock is taken only under the gate, and is tried, never waited for. A process that gives up both releases
//!    the writer lock first. Held exclusively, the lock means that its owner has recovered the file.
//! 2. A process compares the file with the one that the name leads to *after* it has the lock, before it trusts anything
//!    in the file: the file may have been replaced in between.
//! 3. The folder is synced before anything depends on which file has the name.
//! 4. During a recovery, the recovering process holds the gate exclusively and the writer lock shared.
//! 5. A file whose presence is held has a living writer, even if its name or its lock file suggest otherwise: no other
//!    process recovers it or writes to it.
//! 6. Every wait for the gate ends. Only a recovery holds the gate for a time that grows with the file.
//!
//! Crash cases: the system releases a dead owner's gate, writer lock and presence in any order. Its file still says that
//! it is in use, and the next process to open it recovers it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::journal;
use super::journal::Journal;
use super::live::LiveHead;
use super::medium::check_live;
use super::published::{PublishedFile, read_superblocks};
use super::recover::recover;
use super::sealed::{Sealed, map_sealed, map_where_read_only};
use crate::error::{Error, IoContext, Result, Untrusted};
use crate::format::{LIVE, Superblocks};
use crate::options::Verify;
use crate::system::{
    Deadline, Disk, Files, Held, Inode, Map, Presence, Rights, existing_lock_file, is_over, lock_file,
    open_regular,
};

/// The pause of a waiting writer between two tries.
const POLL: Duration = Duration::from_millis(20);
/// The least time that a writer waits for processes that are opening the file, or dying with it open.
const OPENINGS: Duration = Duration::from_secs(1);
const DYING: Duration = Duration::from_millis(100);
/// The least time that a reader waits for such processes.
const READERS_PATIENCE: Duration = Duration::from_secs(60);
/// How often a superblock is read again if a living writer may be writing it.
const TORN_READS: u32 = 50;

/// A file opened for writing, recovered, and marked as in use.
#[derive(Debug)]
pub(crate) struct OpenedToWrite {
    pub(crate) published: PublishedFile,
    pub(crate) journal: Option<Journal>,
    pub(crate) lock: Held,
}

/// Tries an opening until it succeeds or `wait` is over. Each try receives the time until which it may wait for other
/// openings.
fn poll<T>(
    path: &Path,
    wait: Duration,
    mut attempt: impl FnMut(Deadline) -> Result<Attempt<T>>,
) -> Result<T> {
    let start = Instant::now();
    let (deadline, openings) = (start.checked_add(wait), start.checked_add(wait.max(OPENINGS)));
    loop {
        // Computed before the attempt: a process that was stopped during one attempt gets another.
        let is_last = is_over(openings);
        match attempt(openings)? {
            Attempt::Done(opened) => return Ok(opened),
            Attempt::StartOver if is_last => {
                return Err(Error::Busy { path: path.to_owned(), op: "opened" });
            }
            Attempt::StartOver => thread::sleep(Duration::from_millis(1)),
            Attempt::Locked if is_over(deadline) => return Err(Error::Locked { path: path.to_owned() }),
            Attempt::Present if is_over(deadline) && start.elapsed() >= DYING => {
                return Err(Error::Locked { path: path.to_owned() });
            }
            Attempt::Locked | Attempt::Present => thread::sleep(POLL),
        }
    }
}

enum Attempt<T> {
    Done(T),
    /// The file was replaced during the attempt, or an owner was dying.
    StartOver,
    Locked,
    /// The presence is held but the writer lock is free: the writer is dying, or the lock file was removed.
    Present,
}

/// Opens an existing filter for writing; [`Error::NotFound`] without a file.
pub(crate) fn open_writer(
    files: &Files,
    disk: &Arc<dyn Disk>,
    verify: Verify,
    wait: Duration,
) -> Result<OpenedToWrite> {
    let opened = poll(&files.data, wait, |deadline| try_open_writer(files, disk, verify, deadline))?;
    // Verifying takes time in proportion to the file, so it runs without the gate: others can open the file.
    if verify == Verify::Eager
        && let Err(error) = opened.published.verify_all()
    {
        // Nothing was changed. If this call fails, the next opening recovers the file, which changes nothing either.
        let _ = opened.published.set_in_use(false);
        return Err(error);
    }
    Ok(opened)
}

fn try_open_writer(
    files: &Files,
    disk: &Arc<dyn Disk>,
    verify: Verify,
    deadline: Deadline,
) -> Result<Attempt<OpenedToWrite>> {
    let path = &files.data;
    let file = open_data(path, true)?;
    // Checked before a lock file is made, so that no lock file appears beside a file that is not a filter.
    stable_superblocks(&file, path, true)?;
    let gate = Held::gate_exclusive(&file, path, deadline)?;
    let metadata = file.metadata().at(path, "look at")?;
    let rights = Rights::of(&file).at(path, "look at")?;
    let (lock, _) = lock_file(files, &**disk, Some(&rights))?;
    let Some(lock) = Held::try_shared(lock, &files.lock)? else {
        return Ok(Attempt::Locked);
    };
    if files.inode()? != Some(Inode::of(&metadata)) || !lock.is_at(&files.lock)? {
        return Ok(Attempt::StartOver);
    }
    if Presence::is_claimed(&file) {
        return Ok(Attempt::Present);
    }
    files.check_single_name(&**disk, &file)?;
    journal::check_place(files)?;
    let mut published = PublishedFile::open(files.clone(), disk.clone(), file, verify)?;
    reserve(&published)?;
    // Protects: the name. A rename must not be undone under the commits that follow.
    disk.sync_dir(&files.dir).at(&files.dir, "sync")?;
    let mut journal = None;
    if published.needs_recovery()? {
        journal = Some(recover(&mut published)?);
    }
    let Some(lock) = lock.try_into_exclusive(&files.lock)? else {
        return Ok(Attempt::StartOver);
    };
    if !lock.is_at(&files.lock)? {
        return Ok(Attempt::StartOver);
    }
    let Some(presence) = Presence::claim(&published.file, path)? else { return Ok(Attempt::Present) };
    published.presence = Some(presence);
    published.set_in_use(true)?;
    drop(gate);
    files.remove_stale(&**disk);
    Ok(Attempt::Done(OpenedToWrite { published, journal, lock }))
}

/// Allocates space that a restored file may lack, or may share with a copy. Without it, a store through a map would
/// raise SIGBUS on a full disk.
fn reserve(published: &PublishedFile) -> Result<()> {
    let geometry = published.checkpoint.identity.geometry;
    let reserved = published.disk.reserve(&published.file, geometry.file_length(), LIVE..geometry.sums());
    reserved.at(&published.files.data, "allocate all of")
}

/// Takes the writer lock for a filter that does not exist yet; [`Error::Exists`] if the filter exists.
///
/// A new lock file gets the rights of `model`, if the filter will have these rights.
pub(crate) fn lock_absent(
    files: &Files,
    disk: &Arc<dyn Disk>,
    model: Option<&Rights>,
    wait: Duration,
) -> Result<Held> {
    poll(&files.data, wait, |_| {
        // Shared first: if the file appears now, an exclusive lock would tell its readers that the file was recovered.
        // While this process holds the lock, no other process can publish a file.
        let (lock, made) = lock_file(files, &**disk, model)?;
        let Some(lock) = Held::try_shared(lock, &files.lock)? else {
            return Ok(Attempt::Locked);
        };
        if files.inode()?.is_some() {
            return Err(Error::Exists { path: files.data.clone() });
        }
        let Some(lock) = lock.try_into_exclusive(&files.lock)? else { return Ok(Attempt::Locked) };
        // Another process may have made the lock file, and removed it after failing.
        if !lock.is_at(&files.lock)? {
            return Ok(Attempt::StartOver);
        }
        let lock = if made { lock.of_new(files, disk) } else { lock };
        // The conversion gives up the lock for a moment.
        if files.inode()?.is_some() {
            return Err(Error::Exists { path: files.data.clone() });
        }
        journal::check_place(files)?;
        files.remove_stale(&**disk);
        Ok(Attempt::Done(lock))
    })
}

/// Opens the data file. The path is canonical, so no link is followed.
fn open_data(path: &Path, write: bool) -> Result<File> {
    match open_regular(path, write) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Error::NotFound { path: path.to_owned() }),
        Err(Error::Untrusted { problem: Untrusted::NotAFile, .. }) if path.is_dir() => {
            Err(io::Error::from(rustix::io::Errno::ISDIR)).at(path, "open")
        }
        Err(Error::Untrusted { problem: Untrusted::NotAFile, .. }) => {
            Err(Error::NotGowk { path: path.to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// A file opened and mapped for reading.
#[derive(Debug)]
pub(crate) struct OpenedToRead {
    pub(crate) file: File,
    pub(crate) map: Map,
    pub(crate) superblocks: Superblocks,
    pub(crate) inode: Inode,
    /// Set if the file needs recovery but this process lacks permission to write it. The caller then replays the journal
    /// privately, while these locks keep writers away.
    pub(crate) unrecovered: Option<Locks>,
}

impl OpenedToRead {
    fn sealed(file: File, Sealed { map, superblocks, inode }: Sealed) -> Self {
        Self { file, map, superblocks, inode, unrecovered: None }
    }
}

/// The writer lock and the gate, released in this order.
#[derive(Debug)]
pub(crate) struct Locks {
    _lock: Option<Held>,
    _gate: Held,
}

/// Opens a filter for reading. Recovers it first if that is needed and allowed, unless the caller opens it as sealed.
pub(crate) fn open_reader(
    files: &Files,
    disk: &Arc<dyn Disk>,
    wait: Duration,
    sealed: bool,
) -> Result<OpenedToRead> {
    if sealed {
        let file = open_data(&files.data, false)?;
        let sealed = map_sealed(files, &**disk, &file)?;
        return Ok(OpenedToRead::sealed(file, sealed));
    }
    let deadline = Instant::now().checked_add(wait.max(READERS_PATIENCE));
    let mut may_recover = true;
    loop {
        let is_last = is_over(deadline);
        match try_open_reader(files, disk, may_recover, deadline)? {
            Readable::Yes(opened) => return Ok(*opened),
            Readable::StartOver if is_last => {
                return Err(Error::Busy { path: files.data.clone(), op: "opened" });
            }
            Readable::StartOver => thread::sleep(Duration::from_millis(1)),
            Readable::NeedsRecovery => match recover_for_reading(files, disk, deadline) {
                Err(Error::Io { source, .. }) if is_forbidden(&source) || is_full(&source) => {
                    may_recover = false;
                }
                outcome => outcome?,
            },
        }
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a sync failed because the file system does not support it; some read-only file systems do not.
pub(crate) fn needs_no_sync(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::ROFS))
}

enum Readable {
    Yes(Box<OpenedToRead>),
    StartOver,
    NeedsRecovery,
}

fn try_open_reader(
    files: &Files,
    disk: &Arc<dyn Disk>,
    may_recover: bool,
    deadline: Deadline,
) -> Result<Readable> {
    let path = &files.data;
    let file = open_data(path, false)?;
    if let Some(sealed) = map_where_read_only(files, &**disk, &file) {
        return Ok(Readable::Yes(Box::new(OpenedToRead::sealed(file, sealed))));
    }
    let gate = Held::gate_shared(&file, path, deadline)?;
    let lock = existing_lock_file(files)?.map(|lock| Held::try_shared(lock, &files.lock)).transpose()?;
    let writer = matches!(lock, Some(None)) || Presence::is_claimed(&file);
    let locks = Locks { _lock: lock.flatten(), _gate: gate };
    let inode = Inode::of(&file.metadata().at(path, "look at")?);
    if files.inode()? != Some(inode) {
        return Ok(Readable::StartOver);
    }
    let superblocks = stable_superblocks(&file, path, writer)?;
    let map = Map::shared(&file, superblocks.newest.identity.geometry).at(path, "map")?;
    // Protects: the name. A power cut must not undo lookups' answers.
    sync_dir_if_allowed(files, &**disk)?;
    let mut opened = OpenedToRead { file, map, superblocks, inode, unrecovered: None };
    // Read by a system call first: an unreadable block makes the call fail, while a load from the map would kill the
    // process. Recovery overwrites such blocks.
    let live = check_live(&opened.file, &**disk, path);
    if !writer && (live.is_err() || opened.map.needs_recovery() || journal::holds_anything(files)?) {
        if may_recover {
            return Ok(Readable::NeedsRecovery);
        }
        live?;
        files.check_single_name(&**disk, &opened.file)?;
        opened.unrecovered = Some(locks);
    } else {
        live?;
    }
    Ok(Readable::Yes(Box::new(opened)))
}

/// Opens the file as a writer does, recovers it, and marks it as not in use.
fn recover_for_reading(files: &Files, disk: &Arc<dyn Disk>, deadline: Deadline) -> Result<()> {
    let path = &files.data;
    let file = open_data(path, true)?;
    let gate = Held::gate_exclusive(&file, path, deadline)?;
    let metadata = file.metadata().at(path, "look at")?;
    let rights = Rights::of(&file).at(path, "look at")?;
    let (lock, _) = lock_file(files, &**disk, Some(&rights))?;
    let Some(lock) = Held::try_shared(lock, &files.lock)? else {
        return Ok(());
    };
    let is_current = files.inode()? == Some(Inode::of(&metadata)) && lock.is_at(&files.lock)?;
    if is_current && !Presence::is_claimed(&file) {
        files.check_single_name(&**disk, &file)?;
        journal::check_place(files)?;
        let mut published = PublishedFile::open(files.clone(), disk.clone(), file, Verify::FirstTouch)?;
        if published.needs_recovery()? {
            reserve(&published)?;
            recover(&mut published)?;
            published.set_in_use(false)?;
        }
    }
    drop(lock);
    drop(gate);
    Ok(())
}

/// The superblocks, read again if a living writer may be writing one.
fn stable_superblocks(file: &File, path: &Path, writer: bool) -> Result<Superblocks> {
    let mut tries = 0;
    loop {
        match read_superblocks(file, path)?.check(path) {
            Err(Error::Superblocks { .. }) if writer && tries < TORN_READS => {
                tries += 1;
                thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

/// Syncs the folder. Readers continue without a sync if this process lacks permission or the file system does not support
/// it.
fn sync_dir_if_allowed(files: &Files, disk: &dyn Disk) -> Result<()> {
    match disk.sync_dir(&files.dir) {
        Err(error) if is_forbidden(&error) || needs_no_sync(&error) => Ok(()),
        outcome => outcome.at(&files.dir, "sync"),
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
