//! One open filter: a reader for everybody, and a writer after the first change.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gowk::{Commits, Error, Growth, Info, Kind, Options, Pending, Reader, SharedWriter};
use tokio::sync::Mutex as AsyncMutex;

use crate::blocking;
use crate::failure;
use crate::reply::Reply;
use crate::steps::{Outcome, Rules, Step, make};

/// How long an opening waits for the previous writer of the same filter to finish.
const PATIENCE: Duration = Duration::from_secs(1);

/// A filter of the folder.
#[derive(Debug)]
pub struct Filter {
    pub key: Vec<u8>,
    pub path: PathBuf,
    pub reader: Reader,
    pub kind: Kind,
    /// How many keys the filter may hold, if it must not grow.
    limit: Option<u64>,
    commits: Commits,
    writer: Mutex<Option<SharedWriter>>,
    /// Held while a writer is opened or closed.
    opening: AsyncMutex<()>,
    /// The folder's second at the last request for this filter.
    used: AtomicU64,
    /// Whether the folder no longer has this filter: it is closed, and its file may be gone. Set with `opening` held.
    gone: AtomicBool,
}

impl Filter {
    /// Opens the filter for lookups. Blocks.
    pub fn open(key: &[u8], path: &Path, commits: Commits) -> gowk::Result<Self> {
        let reader = Reader::open(path)?;
        let Info { kind, growth, capacity, .. } = reader.info()?;
        Ok(Self {
            key: key.to_owned(),
            path: path.to_owned(),
            reader,
            kind,
            limit: (growth == Growth::Never).then_some(capacity),
            commits,
            writer: Mutex::default(),
            opening: AsyncMutex::default(),
            used: AtomicU64::new(0),
            gone: AtomicBool::new(false),
        })
    }

    pub fn is_counting(&self) -> bool {
        self.kind == Kind::Counting
    }

    pub fn note_use(&self, second: u64) {
        self.used.store(second, Ordering::Relaxed);
    }

    pub fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The writer, if it is open.
    pub fn open_writer(&self) -> Option<SharedWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_writer(&self, writer: Option<SharedWriter>) -> Option<SharedWriter> {
        std::mem::replace(&mut *self.writer.lock().unwrap_or_else(PoisonError::into_inner), writer)
    }

    /// The writer. Opens it if necessary, which takes the filter's lock. `None` if the folder no longer has this filter.
    pub async fn writer(&self) -> Result<Option<SharedWriter>, Reply> {
        if let Some(writer) = self.open_writer() {
            return Ok(Some(writer));
        }
        let _one_at_a_time = self.opening.lock().await;
        if self.is_gone() {
            return Ok(None);
        }
        if let Some(writer) = self.open_writer() {
            return Ok(Some(writer));
        }
        let (path, commits) = (self.path.clone(), self.commits);
        let open = move || Options::new().wait(PATIENCE).open_existing(path)?.into_shared_with(commits);
        let writer = blocking(open).await?.map_err(|error| failure::reply(&error))?;
        self.set_writer(Some(writer.clone()));
        Ok(Some(writer))
    }

    /// Uses the writer of a filter that was just created.
    pub fn adopt(&self, writer: SharedWriter) {
        self.set_writer(Some(writer));
    }

    /// Whether lookups must ask the writer, because it has answered changes that are not committed.
    pub fn asks_writer(&self) -> bool {
        matches!(self.commits, Commits::Every(_)) && self.open_writer().is_some()
    }

    /// Queues the steps for the next commit.
    pub fn submit(&self, writer: &SharedWriter, steps: Vec<Step>) -> Pending<Vec<Outcome>> {
        let rules = Rules { counting: self.is_counting(), limit: self.limit };
        writer.change(steps.len(), move |changes| Ok(make(changes, &steps, rules)))
    }

    /// The reply for a failure of the writer. If the writer is unusable, the next change opens a new one.
    pub fn failed(&self, error: &Error) -> Reply {
        if failure::ends_the_writer(error) {
            self.set_writer(None);
        }
        failure::reply(error)
    }

    /// The filter's description, including all answered changes.
    pub async fn info(&self) -> Result<Info, Reply> {
        if self.asks_writer()
            && let Some(writer) = self.open_writer()
        {
            return writer.change(0, |changes| changes.info()).await.map_err(|error| self.failed(&error));
        }
        self.reader.info().map_err(|error| failure::reply(&error))
    }

    /// Commits all waiting changes and gives up the lock, for good: the next request for the key gets a new `Filter`.
    pub async fn retire(&self) -> Result<(), Arc<Error>> {
        let _one_at_a_time = self.opening.lock().await;
        self.gone.store(true, Ordering::Relaxed);
        match self.set_writer(None) {
            Some(writer) => writer.close().await,
            None => Ok(()),
        }
    }

    /// Removes the filter's files. Fails if another process has it open for writing. Readers keep their maps.
    pub async fn delete(&self) -> Result<(), Reply> {
        let _one_at_a_time = self.opening.lock().await;
        self.gone.store(true, Ordering::Relaxed);
        if let Some(writer) = self.set_writer(None) {
            writer.close().await.map_err(|error| failure::reply(&error))?;
        }
        let path = self.path.clone();
        let deleted = blocking(move || {
            // This writer's lock keeps other writers away. The empty lock file remains: another process may be waiting
            // for it.
            let writer = Options::new().wait(PATIENCE).open_existing(&path)?;
            writer.close()?;
            let remove = |path: &Path| {
                std::fs::remove_file(path).map_err(|source| Error::Io {
                    path: path.to_owned(),
                    op: "remove",
                    source: source.into(),
                })
            };
            remove(&path)?;
            // A journal without its filter holds no commits after a clean close.
            let mut journal = path.into_os_string();
            journal.push("-journal");
            remove(Path::new(&journal))
        });
        deleted.await?.map_err(|error| failure::reply(&error))
    }
}
