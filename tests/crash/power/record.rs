//! A disk that records every operation, and fails on request.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use gowk::disk::{Disk, SystemDisk};

use super::history::{
    Change, Event, FILTER, FileId, History, JOURNAL, Naming, Piece, SECTOR, is_temporary, live_area, role,
};

/// Which call fails, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The number of the call, counted over all calls.
    pub(crate) call: usize,
    pub(crate) kind: io::ErrorKind,
    /// Whether the next call also fails.
    pub(crate) twice: bool,
}

/// Bounds for frames and journal, small enough for tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) frame: usize,
    pub(crate) journal: u64,
}

impl Limits {
    pub(crate) const NONE: Self = Self { frame: 16 << 20, journal: 64 << 20 };
}

/// The operating system's disk, recorded.
pub(crate) struct Recorder {
    dir: PathBuf,
    limits: Limits,
    recording: Mutex<Recording>,
}

struct Recording {
    history: History,
    /// Files by device and inode.
    ids: HashMap<(u64, u64), FileId>,
    names: BTreeMap<String, FileId>,
    files: BTreeMap<FileId, Seen>,
    calls: usize,
    fault: Option<Fault>,
    /// The call that failed.
    struck: Option<String>,
}

/// A file, and its contents after all recorded operations. Where the real file differs, a store through a map has changed
/// it since.
struct Seen {
    handle: File,
    content: Vec<u8>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Continues a history whose end is the present state of `dir`.
    pub(crate) fn new(
        dir: &Path,
        history: History,
        limits: Limits,
        fault: Option<Fault>,
    ) -> io::Result<Self> {
        let dir = dir.canonicalize()?;
        let names = history.names_now();
        let (ids, files) = (HashMap::new(), BTreeMap::new());
        let mut recording = Recording { history, ids, names, files, calls: 0, fault, struck: None };
        for (name, file) in recording.names.clone() {
            recording.open(&dir.join(name), file)?;
        }
        Ok(Self { dir, limits, recording: Mutex::new(recording) })
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Records an event that the test knows, and the disk does not.
    pub(crate) fn mark(&self, event: Event) {
        let mut recording = self.lock();
        recording.find_stores();
        recording.history.events.push(event);
    }

    /// The call that failed, if it was reached.
    pub(crate) fn struck(&self) -> Option<String> {
        self.lock().struck.clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    pub(crate) fn events(&self) -> usize {
        self.lock().history.events.len()
    }

    /// The history until now. Checks that it explains every byte of every file: no change may bypass the disk, except
    /// stores through maps where they are allowed.
    pub(crate) fn history(&self) -> History {
        let mut recording = self.lock();
        recording.find_stores();
        for (name, file) in &recording.names {
            let Some(seen) = recording.files.get(file) else { continue };
            let length = seen.handle.metadata().map_or(0, |metadata| metadata.len()) as usize;
            let real = read(&seen.handle, 0..length);
            assert!(real == seen.content, "{name} differs from what was written to it");
        }
        recording.history.clone()
    }

    fn call(
        &self,
        what: &str,
        at: &str,
        size: Option<usize>,
    ) -> Result<MutexGuard<'_, Recording>, Failed<'_>> {
        let mut recording = self.lock();
        recording.find_stores();
        let number = recording.calls;
        recording.calls += 1;
        let strikes = |fault: &Fault| number == fault.call || fault.twice && number == fault.call + 1;
        let Some(fault) = recording.fault.filter(strikes) else { return Ok(recording) };
        let size = size.map(|bytes| format!(" of {bytes}")).unwrap_or_default();
        let call = format!("{what} {}{size}", role(at));
        recording.struck =
            Some(recording.struck.take().map_or(call.clone(), |first| format!("{first}, {call}")));
        Err(Failed { recording, error: fault.kind.into() })
    }

    fn named(&self, path: &Path) -> String {
        assert_eq!(path.parent(), Some(&*self.dir), "{path:?} is in another folder");
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn name_of(&self, file: &File) -> String {
        let recording = self.lock();
        let id = recording.id(file);
        let name = recording.names.iter().find(|(_, named)| **named == id);
        name.map_or_else(|| "a file without a name".to_owned(), |(name, _)| name.clone())
    }
}

struct Failed<'a> {
    recording: MutexGuard<'a, Recording>,
    error: io::Error,
}

impl From<Failed<'_>> for io::Error {
    fn from(failed: Failed<'_>) -> Self {
        failed.error
    }
}

impl Recording {
    fn open(&mut self, path: &Path, file: FileId) -> io::Result<()> {
        let handle = File::open(path)?;
        let metadata = handle.metadata()?;
        self.ids.insert((metadata.dev(), metadata.ino()), file);
        let content = read(&handle, 0..metadata.len() as usize);
        self.files.insert(file, Seen { handle, content });
        Ok(())
    }

    fn id(&self, file: &File) -> FileId {
        let inode = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        let id = inode.ok().and_then(|inode| self.ids.get(&inode).copied());
        id.unwrap_or_else(|| panic!("{file:?} was not created through the disk"))
    }

    fn changed(&mut self, file: FileId, change: Change) {
        if let Some(seen) = self.files.get_mut(&file) {
            super::image::apply(&change, &mut seen.content, super::image::Fate::Kept);
        }
        self.history.events.push(Event::Change(file, change));
    }

    fn named(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.history.events.push(Event::Naming(naming));
    }

    /// Records stores through maps since the last operation: to the live area of the filter, and anywhere in unpublished
    /// files.
    fn find_stores(&mut self) {
        // In the order of the files' creation, as temporary names are random.
        let named: BTreeMap<FileId, String> =
            self.names.iter().map(|(name, file)| (*file, name.clone())).collect();
        for (file, name) in named {
            let live = name == FILTER;
            if !live && !is_temporary(&name) {
                continue;
            }
            let Some(seen) = self.files.get_mut(&file) else { continue };
            let length = seen.content.len();
            let range = if live { live_area(length).unwrap_or(0..0) } else { 0..length };
            let pieces = seen.differences(range);
            if pieces.is_empty() {
                continue;
            }
            self.changed(file, if live { Change::StoredLive(pieces) } else { Change::Stored(pieces) });
        }
    }
}

impl Seen {
    fn differences(&self, range: Range<usize>) -> Vec<Piece> {
        let real = read(&self.handle, range.clone());
        let known = &self.content[range.clone()];
        if real == known {
            return Vec::new();
        }
        let sectors = (range.start..).step_by(SECTOR).zip(real.chunks(SECTOR).zip(known.chunks(SECTOR)));
        sectors.filter(|(_, (real, known))| real != known).map(|(at, (real, _))| (at, real.into())).collect()
    }
}

fn read(file: &File, range: Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; range.len()];
    if let Err(error) = file.read_exact_at(&mut bytes, range.start as u64) {
        panic!("{file:?} cannot be read at {range:?}: {error}");
    }
    bytes
}

impl Disk for Recorder {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let name = self.named(path);
        let mut recording = self.call("create", &name, None)?;
        let file = SystemDisk.create(path, mode)?;
        let id = recording.history.files.len();
        recording.history.files.push(Arc::default());
        recording.open(path, id)?;
        recording.named(Naming::Create { name, file: id });
        Ok(file)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let piece = |bytes: &[u8]| Change::Write((offset as usize, bytes.into()));
        let name = self.name_of(file);
        let what = if name == JOURNAL && offset > 0 { "append to" } else { "write" };
        match self.call(what, &name, Some(bytes.len())) {
            Ok(mut recording) => {
                SystemDisk.write_at(file, bytes, offset)?;
                let id = recording.id(file);
                recording.changed(id, piece(bytes));
                Ok(())
            }
            Err(mut failed) => {
                // A failed write may have written a part.
                let part = &bytes[..bytes.len() / 2];
                SystemDisk.write_at(file, part, offset)?;
                let id = failed.recording.id(file);
                failed.recording.changed(id, piece(part));
                Err(failed.into())
            }
        }
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        let mut recording = self.call("cut", &self.name_of(file), None)?;
        SystemDisk.set_len(file, length)?;
        let id = recording.id(file);
        recording.changed(id, Change::Length(length as usize));
        Ok(())
    }

    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        let mut recording = self.call("allocate", &self.name_of(file), None)?;
        SystemDisk.allocate(file, length)?;
        let id = recording.id(file);
        recording.changed(id, Change::Allocate(length as usize));
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let name = self.name_of(file);
        // The head of a new file is synced before more room is allocated for the file.
        let is_head = role(&name) == "new file" && file.metadata()?.len() <= 16;
        match self.call(if is_head { "sync head of" } else { "sync" }, &name, None) {
            Ok(mut recording) => {
                SystemDisk.sync(file)?;
                let id = recording.id(file);
                recording.history.events.push(Event::Sync(id));
                Ok(())
            }
            Err(mut failed) => {
                let id = failed.recording.id(file);
                failed.recording.history.events.push(Event::SyncFailed(id));
                Err(failed.into())
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let (old, new) = (self.named(from), self.named(to));
        let mut recording = self.call("rename", &old, None)?;
        SystemDisk.rename(from, to, replace)?;
        let file = recording.names[&old];
        recording.named(Naming::Rename { from: old, to: new, file });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = self.named(path);
        let mut recording = self.call("remove", &name, None)?;
        SystemDisk.remove(path)?;
        let file = recording.names[&name];
        recording.named(Naming::Remove { name, file });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        assert_eq!(dir, self.dir, "another folder");
        let mut recording = self.call("sync", "folder", None)?;
        SystemDisk.sync_dir(dir)?;
        recording.history.events.push(Event::SyncDir);
        Ok(())
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        drop(self.call("ask for the room in", "folder", None)?);
        SystemDisk.available(dir)
    }

    fn frame_limit(&self) -> usize {
        self.limits.frame
    }

    fn checkpoint_at(&self) -> u64 {
        self.limits.journal
    }
}
