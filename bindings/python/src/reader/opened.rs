//! The file of a reader. Each process opens it separately.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Reader;
use crate::asked::Asked;
use crate::key::bytes_of;
use crate::process::generation;
use crate::{failure, options};

/// For a reader of one shard, the store's path, the folder of copies, the version and the shard.
pub(crate) type ShardOf = (PathBuf, Option<PathBuf>, u64, u32);

/// The path and options of a reader: the contents of its pickle.
#[derive(Clone)]
pub(super) struct Settings {
    /// For a reader of one shard of a store: which file it must be.
    pub(super) shard: Option<ShardOf>,
    pub(super) threads: usize,
    pub(super) in_memory: bool,
    pub(super) sealed: bool,
    pub(super) on_damage: String,
    pub(super) verify: String,
    pub(super) wait: f64,
    /// The filter came from bytes, and lies only in memory.
    pub(super) of_bytes: bool,
}

/// A lookup of a single key looks at the filter's name again if the last look is older than this, in milliseconds.
const PERIOD: u64 = 500;

/// The file, as opened by one process.
pub(super) struct Opened {
    reader: gowk::Reader,
    generation: u32,
    /// When a single lookup last looked at the filter's name.
    looked: AtomicU64,
    /// The file, as opened by a child of a later fork.
    next: OnceLock<Box<Opened>>,
}

impl Opened {
    pub(super) fn new(reader: gowk::Reader) -> Self {
        Self { reader, generation: generation(), looked: AtomicU64::new(now()), next: OnceLock::new() }
    }

    #[cold]
    #[inline(never)]
    fn follow(&self, py: Python<'_>) -> PyResult<()> {
        // If this fails, the next lookup tries again: answers from the old file are outdated.
        failure::done(py, py.detach(|| self.reader.reload()))?;
        self.looked.store(now(), Ordering::Relaxed);
        Ok(())
    }
}

/// Milliseconds since some fixed moment. The coarse clock, with ticks of a few milliseconds, costs less than the fine
/// one.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn now() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_millis() as u64
}

impl Settings {
    pub(super) fn open(&self, py: Python<'_>, path: &Path) -> PyResult<Opened> {
        let Self { shard, threads, in_memory, sealed, on_damage, verify, wait, of_bytes: _ } = self;
        if let Some((store, copies, version, shard)) = shard {
            let asked = Asked {
                copies: copies.clone(),
                threads: *threads,
                on_damage: on_damage.clone(),
                verify: verify.clone(),
                clock_is_right: false,
            };
            let read = asked.read(py, store, Some(*version))?;
            let filter = failure::done(py, py.detach(|| read.shard(*shard).map(|filter| filter.cloned())))?;
            // Versions do not change: a version that had a file for this shard still has it.
            let Some(filter) = filter else {
                return failure::done(py, Err(gowk::Error::NotFound { path: path.to_owned() }));
            };
            return Ok(Opened::new(filter));
        }
        let options = options::common(gowk::Options::new(), *threads, *wait, verify)?;
        let options = options.sealed(*sealed).on_damage(options::on_damage(on_damage)?);
        let open = || if *in_memory { options.read_in_memory(path) } else { options.read(path) };
        failure::done(py, py.detach(open)).map(Opened::new)
    }
}

impl Reader {
    /// A reader of one shard of a store, whose file is already open.
    pub(crate) fn of_shard(filter: &gowk::Reader, shard: ShardOf, asked: &Asked) -> Self {
        let Asked { threads, on_damage, verify, .. } = asked.clone();
        let path = filter.path().to_owned();
        let settings = Settings {
            shard: Some(shard),
            threads,
            in_memory: false,
            sealed: true,
            on_damage,
            verify,
            wait: 0.0,
            of_bytes: false,
        };
        Self { path, settings, opened: OnceLock::from(Opened::new(filter.clone())) }
    }

    /// A reader of the filter that has these bytes.
    pub(super) fn of_bytes(
        data: &Bound<'_, PyAny>,
        threads: usize,
        on_damage: &str,
        verify: &str,
    ) -> PyResult<Self> {
        let py = data.py();
        if data.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("a filter is read from bytes, and not from str"));
        }
        let bytes = bytes_of(data).map_err(|other| other.raised(py, "data"))?;
        let options = options::common(gowk::Options::new(), threads, 0.0, verify)?;
        let options = options.on_damage(options::on_damage(on_damage)?);
        let filter = failure::done(py, options.read_bytes(&bytes))?;
        let settings = Settings {
            shard: None,
            threads,
            in_memory: true,
            sealed: true,
            on_damage: on_damage.to_owned(),
            verify: verify.to_owned(),
            wait: 0.0,
            of_bytes: true,
        };
        Ok(Self { path: filter.path().to_owned(), settings, opened: OnceLock::from(Opened::new(filter)) })
    }

    /// The file, as opened by this process.
    #[inline(always)]
    pub(crate) fn reader(&self, py: Python<'_>) -> PyResult<&gowk::Reader> {
        self.opened(py).map(|opened| &opened.reader)
    }

    /// Like `opened`, for a lookup of a single key: looks at the filter's name, unless that was done in the last half
    /// second.
    #[inline(always)]
    pub(super) fn followed(&self, py: Python<'_>) -> PyResult<&gowk::Reader> {
        let opened = self.opened(py)?;
        if now().saturating_sub(opened.looked.load(Ordering::Relaxed)) >= PERIOD {
            opened.follow(py)?;
        }
        Ok(&opened.reader)
    }

    #[inline(always)]
    fn opened(&self, py: Python<'_>) -> PyResult<&Opened> {
        match self.opened.get() {
            Some(opened) if opened.generation == generation() => Ok(opened),
            opened => self.reopened(py, opened),
        }
    }

    #[cold]
    #[inline(never)]
    fn reopened<'a>(&'a self, py: Python<'_>, first: Option<&'a Opened>) -> PyResult<&'a Opened> {
        // Two threads may open the file here at once. One of them then drops its reader.
        let mut opened = match first {
            Some(opened) => opened,
            None => {
                let opened = self.settings.open(py, &self.path)?;
                self.opened.get_or_init(|| opened)
            }
        };
        // A copy in memory never changes, so children may use it directly.
        while opened.generation != generation() && !self.settings.in_memory {
            opened = match opened.next.get() {
                Some(next) => next,
                None => {
                    let next = Box::new(self.settings.open(py, &self.path)?);
                    opened.next.get_or_init(|| next)
                }
            };
        }
        Ok(opened)
    }
}
