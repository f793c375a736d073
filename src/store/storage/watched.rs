//! A storage around another one, for tests: it reports each call before it is made, and can make it fail.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::error::Result;
use super::{Put, Storage};
use crate::error::{Error as FilterError, Result as FilterResult};

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Verdict {
    Made,
    /// It is not made, and fails.
    Failed,
    /// It is made, and then reported as failed. Of a put: as the name being taken, as having failed, or as unknown.
    Taken,
    Reported,
    Unknown,
}

type Watch = dyn FnMut(&str) -> Verdict + Send;
type Opening = dyn FnMut(&str) + Send;

pub(in super::super) struct Watched {
    inner: Arc<dyn Storage>,
    watch: Mutex<Box<Watch>>,
    /// Gets the name of each file before it is opened.
    opening: Mutex<Box<Opening>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The role of an object in a store.
fn role(name: &str) -> &str {
    match name.split('/').next().unwrap_or_default() {
        "versions" => "version",
        "shards" | "runs" => "file",
        "incoming" if name.ends_with(".toml") => "draft",
        "incoming" => "working copy",
        _ => name,
    }
}

fn failure(name: &str) -> FilterError {
    FilterError::io(name.as_ref(), "reach", io::Error::other("by a test"))
}

impl Watched {
    pub(in super::super) fn new(
        inner: Arc<dyn Storage>,
        watch: impl FnMut(&str) -> Verdict + Send + 'static,
    ) -> Self {
        Self { inner, watch: Mutex::new(Box::new(watch)), opening: Mutex::new(Box::new(|_| {})) }
    }

    /// Makes all calls, and reports the name of each file before it is opened.
    pub(in super::super) fn opening(
        inner: Arc<dyn Storage>,
        opening: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        Self { opening: Mutex::new(Box::new(opening)), ..Self::new(inner, |_| Verdict::Made) }
    }

    fn ask(&self, call: &str, name: &str) -> Verdict {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch(&format!("{call} {name}"))
    }

    fn call<T>(
        &self,
        call: &str,
        what: &str,
        name: &str,
        made: impl FnOnce() -> FilterResult<T>,
    ) -> FilterResult<T> {
        match self.ask(call, what) {
            Verdict::Made => made(),
            Verdict::Failed => Err(failure(name)),
            Verdict::Taken | Verdict::Reported | Verdict::Unknown => made().and(Err(failure(name))),
        }
    }
}

impl Storage for Watched {
    fn is_object_store(&self) -> bool {
        self.inner.is_object_store()
    }

    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put> {
        let verdict = self.ask("put", role(name));
        if verdict == Verdict::Failed {
            return Err(failure(name).into());
        }
        let put = self.inner.put_if_absent(name, draft, bytes, due)?;
        Ok(match (verdict, put) {
            (Verdict::Taken, Put::Done) => Put::Taken,
            (Verdict::Reported, Put::Done) => Put::Failed(failure(name)),
            (Verdict::Unknown, Put::Done) => Put::Unknown(failure(name)),
            (_, put) => put,
        })
    }

    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()> {
        self.call("put", role(name), name, || self.inner.put_file(name, local))
    }

    fn local(&self, name: &str) -> FilterResult<PathBuf> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)(name);
        self.inner.local(name)
    }

    fn forget(&self, name: &str) {
        self.inner.forget(name);
    }

    fn workplace(&self) -> FilterResult<PathBuf> {
        self.inner.workplace()
    }

    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        self.call("get", role(name), name, || self.inner.get(name))
    }

    fn length(&self, name: &str) -> FilterResult<Option<u64>> {
        self.call("measure", role(name), name, || self.inner.length(name))
    }

    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        let what = folder.split('/').next().unwrap_or_default();
        self.call("list", what, folder, || self.inner.list(folder, after))
    }

    fn delete(&self, name: &str) -> FilterResult<Option<u64>> {
        self.call("delete", role(name), name, || self.inner.delete(name))
    }

    fn uploads(&self) -> FilterResult<Option<Vec<super::Upload>>> {
        self.inner.uploads()
    }

    fn give_up(&self, upload: &super::Upload) -> FilterResult<()> {
        self.inner.give_up(upload)
    }

    fn requests(&self) -> Option<super::Requests> {
        self.inner.requests()
    }

    fn settle(&self, folder: &str) -> FilterResult<()> {
        self.call("settle", folder, folder, || self.inner.settle(folder))
    }
}
