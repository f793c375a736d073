//! A disk that records every operation in a folder. On request, it fails a call, or ignores syncs.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use gowk::disk::{Disk, SystemDisk};

/// A file for as long as it exists, under any name.
pub(crate) type FileId = usize;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A folder got a name.
    Folder(PathBuf),
    /// A file got a name, perhaps replacing another file.
    Named(PathBuf, FileId),
    Unnamed(PathBuf, FileId),
    /// The whole file is on the medium.
    Synced(FileId, Arc<Vec<u8>>),
    /// The names in a folder are on the medium.
    SyncedFolder(PathBuf),
    /// From here on, a power cut may leave the state with this number.
    Began(usize),
    /// From here on, a power cut may leave only this state or later ones.
    Acknowledged(usize),
}

/// Which call fails, counted over all calls, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) call: usize,
    pub(crate) kind: io::ErrorKind,
}

#[derive(Default)]
struct Recording {
    events: Vec<Event>,
    /// Files by device and inode.
    ids: HashMap<(u64, u64), FileId>,
    handles: Vec<File>,
    calls: usize,
    fault: Option<Fault>,
    struck: Option<String>,
    forgets: Option<&'static str>,
}

/// The operating system's disk, recorded.
pub(crate) struct Recorder {
    root: PathBuf,
    recording: Mutex<Recording>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// The role of a file or folder in a store, by its path below the recorded folder.
pub(crate) fn role(path: &Path) -> &'static str {
    let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
    let is_text = path.extension().is_some_and(|extension| extension == "toml");
    match parts[..] {
        [] => "the folder above",
        [_] => "the store",
        [_, "store.toml"] => "store.toml",
        [_, name] if ["versions", "shards", "runs", "incoming"].contains(&name) => match name {
            "versions" => "versions",
            "shards" => "shards",
            "runs" => "runs",
            _ => "incoming",
        },
        [_, "incoming", _] if is_text => "draft",
        [_, "incoming", name] if name.ends_with(".run") => "a run that is written",
        [_, "incoming", _] => "working copy",
        [_, "runs", _] => "a run",
        [_, "versions", _] => "version",
        [_, "shards", _] => "a shard's folder",
        _ => "a shard's file",
    }
}

impl Recorder {
    pub(crate) fn new(root: &Path, fault: Option<Fault>, forgets: Option<&'static str>) -> Arc<Self> {
        let recording = Recording { fault, forgets, ..Recording::default() };
        Arc::new(Self { root: root.canonicalize().unwrap(), recording: Mutex::new(recording) })
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn mark(&self, event: Event) {
        self.lock().events.push(event);
    }

    /// From now on ignores syncs of files or folders with this role.
    pub(crate) fn forget(&self, role: Option<&'static str>) {
        self.lock().forgets = role;
    }

    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    pub(crate) fn struck(&self) -> Option<String> {
        self.lock().struck.clone()
    }

    /// The operations, and what each file holds in memory at the end.
    pub(crate) fn history(&self) -> (Vec<Event>, Vec<Arc<Vec<u8>>>) {
        let recording = self.lock();
        (recording.events.clone(), recording.handles.iter().map(|handle| Arc::new(content(handle))).collect())
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root)
            .unwrap_or_else(|_| panic!("{path:?} is outside of the recorded folder"))
            .to_owned()
    }

    /// Counts a call, which may fail.
    fn call(&self, what: &str, path: &Path) -> io::Result<MutexGuard<'_, Recording>> {
        let mut recording = self.lock();
        let number = recording.calls;
        recording.calls += 1;
        match recording.fault {
            Some(Fault { call, kind }) if call == number => {
                recording.struck = Some(format!("{what} {}", role(&self.below(path))));
                Err(kind.into())
            }
            _ => Ok(recording),
        }
    }
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn inode(file: &File) -> (u64, u64) {
    let metadata = file.metadata().unwrap();
    (metadata.dev(), metadata.ino())
}

impl Recording {
    fn id_at(&self, path: &Path) -> FileId {
        let metadata = path.metadata().unwrap();
        self.ids[&(metadata.dev(), metadata.ino())]
    }

    fn forgets(&self, what: &str) -> bool {
        self.forgets == Some(what)
    }
}

impl Recorder {
    /// The path at which a file was last seen, for messages.
    fn path_of(&self, file: &File) -> PathBuf {
        let recording = self.lock();
        let id = recording.ids[&inode(file)];
        let named = recording.events.iter().rev().find_map(|event| match event {
            Event::Named(path, named) if *named == id => Some(self.root.join(path)),
            _ => None,
        });
        named.unwrap()
    }
}

impl Disk for Recorder {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let mut recording = self.call("create", path)?;
        let file = SystemDisk.create(path, mode)?;
        let id = recording.handles.len();
        recording.ids.insert(inode(&file), id);
        recording.handles.push(File::open(path)?);
        recording.events.push(Event::Named(self.below(path), id));
        Ok(file)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.call("write", &self.path_of(file)) {
            Ok(_recording) => SystemDisk.write_at(file, bytes, offset),
            Err(error) => {
                SystemDisk.write_at(file, &bytes[..bytes.len() / 2], offset)?;
                Err(error)
            }
        }
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let path = self.path_of(file);
        if ["a run", "a run that is written"].contains(&role(&self.below(&path))) {
            drop(self.call("read", &path)?);
        }
        SystemDisk.read_at(file, bytes, offset)
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        drop(self.call("cut", &self.path_of(file))?);
        SystemDisk.set_len(file, length)
    }

    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        drop(self.call("allocate", &self.path_of(file))?);
        SystemDisk.allocate(file, length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let path = self.path_of(file);
        let mut recording = self.call("sync", &path)?;
        SystemDisk.sync(file)?;
        if !recording.forgets(role(&self.below(&path))) {
            let id = recording.ids[&inode(file)];
            recording.events.push(Event::Synced(id, Arc::new(content(file))));
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let mut recording = self.call("rename", from)?;
        let id = recording.id_at(from);
        SystemDisk.rename(from, to, replace)?;
        recording.events.push(Event::Named(self.below(to), id));
        recording.events.push(Event::Unnamed(self.below(from), id));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut recording = self.call("link", from)?;
        let id = recording.id_at(from);
        SystemDisk.link(from, to)?;
        recording.events.push(Event::Named(self.below(to), id));
        Ok(())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut recording = self.call("create", dir)?;
        SystemDisk.create_dir(dir)?;
        recording.events.push(Event::Folder(self.below(dir)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut recording = self.call("remove", path)?;
        let id = recording.id_at(path);
        SystemDisk.remove(path)?;
        recording.events.push(Event::Unnamed(self.below(path), id));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut recording = self.call("sync", dir)?;
        SystemDisk.sync_dir(dir)?;
        let below = self.below(dir);
        if !recording.forgets(role(&below)) {
            recording.events.push(Event::SyncedFolder(below));
        }
        Ok(())
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        drop(self.call("ask for the room in", dir)?);
        SystemDisk.available(dir)
    }
}
