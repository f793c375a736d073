//! A store in a bucket of an object store: of a server that speaks the S3 protocol, of Google Cloud Storage or of Azure Blob
//! Storage (`format-spec/STORE.md`, section 13).
//!
//! Invariants:
//!
//! 1. A version is put with `If-None-Match: *` or what Google takes for it, so of several puts of one name the server takes
//!    one.
//! 2. A put with an unclear outcome is reported as such, or the object under the name is compared.
//! 3. A sealed file is whole under its name before `put_file` returns.
//! 4. No credentials come into errors, events or `Debug`.

mod cache;
mod client;
mod fetches;
mod server;
#[cfg(test)]
mod tests;
#[cfg(feature = "s3")]
mod uploads;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutPayload};

use super::super::error::{Error, Result};
use super::super::files::{INCOMING, Name, VERSIONS, incoming, version};
use super::super::text::LONGEST;
use super::super::version::FIRST;
use super::{Address, Put, Requests, Storage, Upload};
use crate::Options;
use crate::error::{Error as FilterError, IoContext, Result as FilterResult};
use crate::system::new_uuid;
use cache::Cache;
use client::{Client, RequestError, wait_after};
use fetches::Fetches;
pub(super) use server::Settings;

/// Bytes of a request that moves a file.
const PART: u64 = 16 << 20;
/// Parts that an upload may have; S3 and Google take 10,000.
const PARTS: u64 = 9000;
/// Parts of a file that are moved at the same time.
const AT_ONCE: usize = 4;
/// Simultaneous creates of one name, of which a server must let one succeed.
const CONTENDERS: u8 = 32;
/// How often the server must do so.
const ROUNDS: u8 = 4;

pub(in super::super) struct Bucket {
    /// The address, for errors.
    root: PathBuf,
    prefix: String,
    client: Client,
    cache: Cache,
    fetches: Arc<Fetches>,
    /// The text of the version that was read last: the newest version is read again and again. It never changes. If others
    /// delete it, this process still sees it.
    last: Mutex<Option<(String, Vec<u8>)>>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Bucket {
    pub(in super::super) fn open(
        address: Address<'_>,
        settings: Settings,
        options: &Options,
    ) -> Result<Self> {
        let client = Client::new(address.root(), address.bucket, settings)?;
        let cache = Cache::open(&client.place(), &address.root())?;
        let (root, prefix) = (address.root(), address.prefix.to_owned());
        let fetches = Arc::new(Fetches::new(options));
        Ok(Self { root, prefix, client, cache, fetches, last: Mutex::default() })
    }

    /// Fails with [`Error::Exists`] unless there is nothing but what an unfinished creation leaves, and with
    /// [`Error::Unsafe`] if the server lets two creates of one object succeed.
    pub(in super::super) fn prepare(
        address: Address<'_>,
        settings: Settings,
        options: &Options,
    ) -> Result<Self> {
        let bucket = Self::open(address, settings, options)?;
        let names = bucket.names("", "")?;
        let is_left = |name: &String| *name == version(FIRST) || name.starts_with(INCOMING);
        if !names.iter().all(is_left) {
            return Err(Error::Exists { path: bucket.root });
        }
        for _ in 0..ROUNDS {
            bucket.prove()?;
        }
        Ok(bucket)
    }

    /// Lets many creates of one object run at the same time. One must win, and no later one.
    fn prove(&self) -> Result<()> {
        let name = incoming(&Name { base: 0, uuid: new_uuid(&self.root)? }.draft());
        let key = self.key(&name)?;
        let won = self.client.run(move |connection| async move {
            let put = |own: u8| {
                let (connection, key) = (connection.clone(), key.clone());
                async move { (own, connection.create(&key, vec![own].into()).await) }
            };
            let puts: Vec<_> = (0..CONTENDERS).map(|own| tokio::spawn(put(own))).collect();
            let mut outcomes = Vec::new();
            for one in puts {
                outcomes.extend(one.await.ok());
            }
            outcomes.push(put(CONTENDERS).await);
            outcomes
        });
        let won = won.map_err(|refusal| refusal.at(&self.path(&name), "write"))?;
        let found = self.fetch_text(&name);
        let _ = self.delete(&name);
        let found = found?;
        let (mut winners, mut failed) = (Vec::new(), None);
        for (own, outcome) in won {
            match outcome {
                Ok(()) => winners.push(own),
                Err(RequestError::Taken | RequestError::Conflict) => {}
                Err(refusal) => failed = Some(refusal),
            }
        }
        match (&winners[..], failed) {
            ([winner], _) if found.as_deref() == Some(&[*winner]) => Ok(()),
            (_, Some(refusal)) if winners.len() <= 1 => Err(refusal.at(&self.path(&name), "write").into()),
            _ => Err(Error::Unsafe { path: self.root.clone(), winners: winners.len() as u64 }),
        }
    }

    /// The path of an object, for errors.
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn key(&self, name: &str) -> FilterResult<Key> {
        let key = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Key::parse(key.trim_end_matches('/')).map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
            FilterError::io(&self.path(name), "name", source)
        })
    }

    /// All names below a folder that come after `after`, ascending, without the folder's own name.
    fn names(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        let below = self.key(folder)?;
        let offset = if after.is_empty() { None } else { Some(self.key(&format!("{folder}/{after}"))?) };
        let start = if below.as_ref().is_empty() { String::new() } else { format!("{below}/") };
        let listed = self.client.run(move |connection| async move {
            let below = Some(&below).filter(|below| !below.as_ref().is_empty());
            let objects = connection.list(below, offset.as_ref());
            objects.map_ok(|object| object.location).try_collect::<Vec<Key>>().await.map_err(RequestError::of)
        });
        let listed =
            listed.and_then(|listed| listed).map_err(|refusal| refusal.at(&self.path(folder), "list"))?;
        let mut names: Vec<String> =
            listed.iter().filter_map(|key| key.as_ref().strip_prefix(&start)).map(str::to_owned).collect();
        names.retain(|name| name.as_str() > after);
        names.sort_unstable();
        Ok(names)
    }

    fn fetch_text(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        let key = self.key(name)?;
        let got = self.client.run(move |connection| async move {
            let object = connection.stores.patient.get(&key).await.map_err(RequestError::of)?;
            if object.meta.size > LONGEST {
                let start = connection.stores.patient.get_range(&key, 0..LONGEST).await;
                return Ok(start.map_err(RequestError::of)?.to_vec());
            }
            Ok(object.bytes().await.map_err(RequestError::of)?.to_vec())
        });
        match got.and_then(|got| got) {
            Err(RequestError::Absent) => Ok(None),
            outcome => outcome.map(Some).map_err(|refusal| refusal.at(&self.path(name), "read")),
        }
    }

    /// Fetches an object into a local file, its parts side by side.
    fn fetch(&self, name: &str, into: &Path) -> FilterResult<()> {
        let key = self.key(name)?;
        let file = File::options().read(true).write(true).create_new(true).open(into).at(into, "create")?;
        let file = Arc::new(file);
        let fetches = self.fetches.clone();
        let fetched = self.client.run(move |connection| async move {
            let length = connection.stores.patient.head(&key).await.map_err(RequestError::of)?.size;
            let fetch = fetches.begin(length);
            let fetch = &fetch;
            let part = |start: u64| {
                let (connection, key, file) = (connection.clone(), key.clone(), file.clone());
                async move {
                    let _turn = connection.parts.acquire().await;
                    let range = Some(GetRange::Bounded(start..(start + PART).min(length)));
                    let options = GetOptions { range, ..GetOptions::default() };
                    let part =
                        connection.stores.patient.get_opts(&key, options).await.map_err(RequestError::of)?;
                    let bytes = part.bytes().await.map_err(RequestError::of)?;
                    if bytes.len() as u64 != (length - start).min(PART) {
                        return Err(RequestError::unclear(
                            "the server sent another length than it announced",
                        ));
                    }
                    file.write_all_at(&bytes, start).map_err(RequestError::Local)?;
                    fetch.add(bytes.len() as u64);
                    Ok(())
                }
            };
            let starts = (0..length).step_by(PART as usize);
            stream::iter(starts.map(part)).buffer_unordered(AT_ONCE).try_collect::<()>().await
        });
        match fetched.and_then(|fetched| fetched) {
            Err(RequestError::Absent) => Err(FilterError::NotFound { path: self.path(name) }),
            Err(RequestError::Local(source)) => Err(FilterError::io(into, "write", source)),
            outcome => outcome.map_err(|refusal| refusal.at(&self.path(name), "read")),
        }
    }

    /// Puts a local file: in one request, or in parts that become one object at once.
    fn upload(&self, name: &str, local: &Path) -> FilterResult<()> {
        let (key, file) = (self.key(name)?, File::open(local).at(local, "open")?);
        let length = file.metadata().at(local, "look at")?.len();
        let sent = self.client.run(move |connection| async move {
            let read = |start: u64, size: u64| {
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, start).map_err(RequestError::Local)?;
                Ok(PutPayload::from(bytes))
            };
            if length <= PART {
                let put = connection.stores.patient.put(&key, read(0, length)?).await;
                return put.map(drop).map_err(RequestError::of);
            }
            let mut upload = connection.stores.patient.put_multipart(&key).await.map_err(RequestError::of)?;
            let size = PART.max(length.div_ceil(PARTS));
            let mut sent = Ok(());
            let mut starts = (0..length).step_by(size as usize).peekable();
            while sent.is_ok() && starts.peek().is_some() {
                let mut parts = Vec::new();
                for start in starts.by_ref().take(AT_ONCE) {
                    match read(start, size.min(length - start)) {
                        Ok(part) => parts.push(upload.put_part(part)),
                        Err(error) => sent = Err(error),
                    }
                }
                let done = stream::iter(parts).buffer_unordered(AT_ONCE).try_collect::<()>().await;
                sent = sent.and(done.map_err(RequestError::of));
            }
            if sent.is_ok() {
                sent = upload.complete().await.map(drop).map_err(RequestError::of);
                // A completion whose answer was lost is repeated, and the server knows the upload no more.
                if sent.is_err()
                    && let Ok(object) = connection.stores.patient.head(&key).await
                    && object.size == length
                {
                    return Ok(());
                }
            }
            if sent.is_err() {
                // What stays of it costs room until a vacuum removes it.
                let _ = upload.abort().await;
            }
            sent
        });
        match sent.and_then(|sent| sent) {
            Err(RequestError::Local(source)) => Err(FilterError::io(local, "read", source)),
            outcome => outcome.map_err(|refusal| refusal.at(&self.path(name), "write")),
        }
    }
}

impl Storage for Bucket {
    fn is_object_store(&self) -> bool {
        true
    }

    fn put_if_absent(
        &self,
        name: &str,
        _: &str,
        bytes: &[u8],
        _: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put> {
        let (key, payload) = (self.key(name)?, PutPayload::from(bytes.to_vec()));
        // Whether a try may have been carried out, or may still be.
        let mut in_doubt = false;
        let mut tries = 0;
        loop {
            let (key, payload) = (key.clone(), payload.clone());
            let put =
                self.client.run(move |connection| async move { connection.create(&key, payload).await });
            let refusal = match put.and_then(|put| put) {
                Ok(()) => return Ok(Put::Done),
                Err(RequestError::Taken) => return Ok(Put::Taken),
                Err(refusal) => refusal,
            };
            tries += 1;
            in_doubt |= matches!(refusal, RequestError::Unclear(_));
            match (refusal, wait_after(tries)) {
                // A conflict: another put of the name is under way, perhaps an earlier try of this one.
                (
                    RequestError::Conflict | RequestError::Unreached(_) | RequestError::Unclear(_),
                    Some(wait),
                ) => {
                    std::thread::sleep(wait);
                }
                (RequestError::Conflict, None) if !in_doubt => return Ok(Put::Taken),
                (refusal, _) => {
                    let error = refusal.at(&self.path(name), "write");
                    return if in_doubt { Ok(Put::Unknown(error)) } else { Err(error.into()) };
                }
            }
        }
    }

    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()> {
        self.upload(name, local)?;
        // Who has made a file often reads it next.
        self.cache.adopt(name, local);
        Ok(())
    }

    fn local(&self, name: &str) -> FilterResult<PathBuf> {
        self.cache.get(name, |into| self.fetch(name, into))
    }

    fn forget(&self, name: &str) {
        self.cache.forget(name);
    }

    fn workplace(&self) -> FilterResult<PathBuf> {
        self.cache.workplace()
    }

    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        let lock = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, bytes)) = &*lock()
            && last == name
        {
            return Ok(Some(bytes.clone()));
        }
        let found = self.fetch_text(name)?;
        if let Some(bytes) = found.as_ref().filter(|_| name.starts_with(VERSIONS)) {
            *lock() = Some((name.to_owned(), bytes.clone()));
        }
        Ok(found)
    }

    fn length(&self, name: &str) -> FilterResult<Option<u64>> {
        let key = self.key(name)?;
        let length = self.client.run(move |connection| async move {
            connection.stores.patient.head(&key).await.map(|object| object.size).map_err(RequestError::of)
        });
        match length.and_then(|length| length) {
            Err(RequestError::Absent) => Ok(None),
            outcome => outcome.map(Some).map_err(|refusal| refusal.at(&self.path(name), "look at")),
        }
    }

    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        let mut names = self.names(folder, after)?;
        names.retain(|name| !name.contains('/'));
        Ok(names)
    }

    fn delete(&self, name: &str) -> FilterResult<Option<u64>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(last, _)| last == name);
        self.cache.forget(name);
        let Some(length) = self.length(name)? else { return Ok(None) };
        let key = self.key(name)?;
        let deleted = self.client.run(move |connection| async move { connection.delete(&key).await });
        match deleted.and_then(|deleted| deleted) {
            Err(RequestError::Absent) => Ok(None),
            outcome => {
                outcome.map(|()| Some(length)).map_err(|refusal| refusal.at(&self.path(name), "remove"))
            }
        }
    }

    fn uploads(&self) -> FilterResult<Option<Vec<Upload>>> {
        let start = if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        let listed = self.client.run(move |connection| async move { connection.uploads(&start).await });
        listed.and_then(|listed| listed).map_err(|refusal| refusal.at(&self.root, "list the uploads"))
    }

    fn give_up(&self, upload: &Upload) -> FilterResult<()> {
        let (key, id) = (self.key(&upload.name)?, upload.id.clone());
        let given_up = self.client.run(move |connection| async move { connection.give_up(&key, &id).await });
        match given_up.and_then(|given_up| given_up) {
            // Another process has finished or aborted it.
            Err(RequestError::Absent) => Ok(()),
            outcome => outcome.map_err(|refusal| refusal.at(&self.path(&upload.name), "give up the upload")),
        }
    }

    fn settle(&self, _: &str) -> FilterResult<()> {
        Ok(())
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.client.requests())
    }
}
