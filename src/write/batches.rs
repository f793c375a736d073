//! Many keys at a time: the methods for users. `partition.rs` does the work.

use std::path::Path;

use super::inserted::{Inserted, by_index};
use super::partition::{Buffers, Hashes, Manner, Mode, Told, Until};
use super::writer::Writer;
use crate::cuckoo::{Key, KeyHash, KeyHasher};
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::options::Options;

/// The fewest keys of a batch to partition at a time, unless the batch has fewer.
const FEWEST: usize = 1 << 18;
/// The most keys of a batch to partition at a time. It bounds the memory.
const MOST: usize = 1 << 22;
/// Between these bounds, a block has this many keys for each region. More keys use each cached region more often, but a
/// larger block takes more memory. With 640, new filters of 22 and 216 MB were filled at 0.8 of the rate; removing 2^20
/// keys from 22 MB took 51 to 53 ms, and 45 as one block.
const KEYS_A_REGION: usize = 3072;

/// How many keys of an iterator are hashed at a time, and then inserted or removed.
const CHUNK: usize = 1 << 20;

/// Changes of many keys at once, several times as fast as one by one: to a filter through its [`Writer`], to a store
/// through its [`Update`](crate::store::Update).
///
/// Equal keys are processed in their order, others in any order. An error ends the call; changes made before it still
/// belong to the transaction or the update. A key that finds no room does not end the call: it is reported in
/// [`Inserted`], and the other keys are inserted.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("words.gowk");
/// use gowk::Batches;
///
/// let mut words = gowk::Options::new().counting().open(&path)?;
/// let inserted = words.insert_batch(&["to", "be", "or", "not", "to", "be"])?;
/// assert_eq!(inserted.mask(), [true, true, true, true, false, false]);
/// assert!(inserted.refused().is_empty());
/// assert_eq!(words.count("be")?, 2);
/// assert_eq!(words.remove_batch(&["be", "question"])?, [true, false]);
/// # words.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Batches {
    /// Why a call failed: [`crate::Error`], or [`crate::store::Error`].
    type Error: std::error::Error + Send + Sync + 'static;

    /// The hash of a key, for this filter or store.
    fn hash<K: Key>(&self, key: K) -> Result<KeyHash, Self::Error>;

    /// Inserts all keys as [`insert_batch`](Self::insert_batch) does, and calls `new` with the index of each new key, in
    /// any order. Returns the keys without room, by ascending index, with the reason.
    ///
    /// For callers who must know which keys were inserted before an error: `new` was called for each new key among them.
    fn insert_each<K: Key + Sync>(
        &mut self,
        keys: &[K],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>, Self::Error>;

    /// Removes one copy of each key as [`remove_batch`](Self::remove_batch) does. Calls `removed` with the index of each
    /// key that had a copy, in any order, also before an error.
    fn remove_each<K: Key + Sync>(
        &mut self,
        keys: &[K],
        removed: impl FnMut(usize),
    ) -> Result<(), Self::Error>;

    /// Inserts all keys as [`Writer::insert`] does, on up to [`Options::threads`] threads. Of equal keys in the batch,
    /// only the first can be new.
    ///
    /// Takes some 40 to 60 bytes for each key of a block. A block has 3,072 keys for each region of 64 KiB, but at least
    /// 262,144 and at most four million. If the filter doubles during the call, keys after the first key without room may
    /// be inserted before it.
    fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted, Self::Error> {
        let mut inserted = Inserted::of(keys.len());
        let refused = self.insert_each(keys, |index| inserted.set_new(index))?;
        Ok(inserted.with_refused(refused))
    }

    /// Removes one copy of each key as [`Writer::remove`] does, on up to [`Options::threads`] threads. Returns one
    /// answer a key: whether a copy was removed.
    fn remove_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Vec<bool>, Self::Error> {
        let mut removed = vec![false; keys.len()];
        self.remove_each(keys, |index| removed.get_mut(index).into_iter().for_each(|place| *place = true))?;
        Ok(removed)
    }

    /// Inserts all keys of an iterator as [`insert_batch`](Self::insert_batch) does.
    ///
    /// The keys are hashed as they come, and are not stored: this takes 25 to 75 MB, and one bit a key for the outcome.
    /// The iterator runs on the calling thread. After an error, up to a million keys that the iterator yielded may be
    /// missing.
    fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Inserted, Self::Error> {
        let mut inserted = Inserted::default();
        in_chunks(self, keys, |to, hashes| {
            inserted.append(to.insert_batch(hashes)?);
            Ok(())
        })?;
        Ok(inserted)
    }

    /// Removes one copy of each key of an iterator, like [`insert_all`](Self::insert_all). Returns how many copies were
    /// removed.
    fn remove_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64, Self::Error> {
        let mut removed = 0;
        in_chunks(self, keys, |to, hashes| to.remove_each(hashes, |_| removed += 1))?;
        Ok(removed)
    }
}

/// Hashes the keys of an iterator, and passes the hashes to `take`, many at a time.
fn in_chunks<C: Batches + ?Sized, K: Key>(
    to: &mut C,
    keys: impl IntoIterator<Item = K>,
    mut take: impl FnMut(&mut C, &[KeyHash]) -> Result<(), C::Error>,
) -> Result<(), C::Error> {
    let (mut keys, mut hashes) = (keys.into_iter(), Vec::new());
    loop {
        hashes.clear();
        for key in keys.by_ref().take(CHUNK) {
            hashes.push(to.hash(key)?);
        }
        take(to, &hashes)?;
        if hashes.len() < CHUNK {
            return Ok(());
        }
    }
}

impl Batches for Writer {
    type Error = Error;

    #[inline]
    fn hash<K: Key>(&self, key: K) -> Result<KeyHash> {
        Self::hash(self, key)
    }

    fn insert_each<K: Key + Sync>(
        &mut self,
        keys: &[K],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>> {
        self.insert_reporting(keys, Told::New, new)
    }

    fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted> {
        let mut inserted = Inserted::all_new(keys.len());
        let refused = self.insert_reporting(keys, Told::Seen, |index| inserted.set_seen(index))?;
        Ok(inserted.with_refused(refused))
    }

    fn remove_each<K: Key + Sync>(&mut self, keys: &[K], removed: impl FnMut(usize)) -> Result<()> {
        self.check_removals()?;
        self.take_all(keys, Mode::Remove, None, removed).map(drop)
    }
}

impl Writer {
    /// Inserts all keys, and calls `done` with the indices that `told` selects, in any order.
    pub(crate) fn insert_reporting<K: Key + Sync>(
        &mut self,
        keys: &[K],
        told: Told,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>> {
        let mode = Mode::Insert(self.state()?.transaction.kind(), told);
        // In a filter of the newest keys, each round takes at most as many keys as its epoch still has room for.
        let (mut begin, mut refused) = (0_usize, Vec::new());
        loop {
            let (until, most) = self.until_now()?;
            let piece = keys.get(begin..keys.len().min(begin.saturating_add(most))).unwrap_or_default();
            let of_piece = self.take_all(piece, mode, until, |index| done(begin + index))?;
            refused.extend(of_piece.into_iter().map(|(index, error)| (begin + index, error)));
            begin += piece.len();
            if begin == keys.len() {
                return Ok(refused);
            }
        }
    }

    /// Inserts or removes all keys, and calls `done` with the indices that `mode` selects, or of removed keys.
    fn take_all<K: Key + Sync>(
        &mut self,
        keys: &[K],
        mode: Mode,
        until: Option<Until<'_>>,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>> {
        let hasher = self.state()?.transaction.traits.hasher;
        let path = self.files.data.clone();
        // Reused by the next batch, unless this one fails.
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut refused = Vec::new();
        let mut rest = keys;
        while !rest.is_empty() {
            let base = keys.len() - rest.len();
            // Blocks of equal length: each block costs every region the same.
            let blocks = rest.len().div_ceil(self.block()?);
            let (block, behind) = rest.split_at(rest.len().div_ceil(blocks));
            rest = behind;
            let hash = hashes_of(hasher, &path, block);
            let indices = (0..block.len() as u32).collect();
            let mut done = |indices: &[u32]| indices.iter().for_each(|index| done(base + *index as usize));
            let mut refuse = |index: u32, error| refused.push((base + index as usize, error));
            self.take_block(indices, &hash, (mode, until), &mut buffers, &mut done, &mut refuse)?;
        }
        self.buffers = buffers.kept();
        Ok(by_index(refused))
    }

    /// How many keys to partition at a time.
    fn block(&self) -> Result<usize> {
        let regions = self.state()?.transaction.work.identity().geometry.regions();
        let keys = (regions as usize).saturating_mul(KEYS_A_REGION);
        Ok(keys.clamp(FEWEST, MOST))
    }

    /// Calls `done` with many indices at a time, so that a call through a pointer is cheap enough.
    pub(super) fn take_block(
        &mut self,
        mut indices: Vec<u32>,
        hashes: &Hashes<'_>,
        (mode, until): (Mode, Option<Until<'_>>),
        buffers: &mut Buffers,
        done: &mut dyn FnMut(&[u32]),
        refuse: &mut dyn FnMut(u32, Error),
    ) -> Result<()> {
        let one = |index| {
            let mut hash = [KeyHash::new(0)];
            hashes(&[index], &mut hash).map(|()| hash[0])
        };
        let manner = Manner { mode, until, max_kicks: self.options.max_kicks, threads: self.options.threads };
        loop {
            self.state()?.transaction.hash_all(&indices, hashes, manner, buffers)?;
            let (outcomes, outcome) = self.change(|transaction| transaction.take_hashed(manner, buffers))?;
            buffers.done().for_each(&mut *done);
            outcome?;
            indices = outcomes.left;
            indices.sort_unstable();
            let Some(first) = indices.first() else { return Ok(()) };
            let geometry = self.state()?.transaction.work.identity().geometry;
            let (region, _) = geometry.region_of(one(*first)?, &self.files.data)?;
            match self.make_room(region) {
                Ok(()) => {}
                Err(error) if error.refuses_one_key() => break,
                Err(error) => return Err(error),
            }
        }
        // The filter must not double, so keys that do not fit are refused one by one. Only inserts remain.
        for index in indices {
            let hash = one(index)?;
            let inserted = match until {
                Some(until) => self.insert_one_until(hash, until.expiry(index)),
                None => self.insert(hash),
            };
            let is_new = match inserted {
                Ok(is_new) => is_new,
                Err(error) if error.refuses_one_key() => {
                    refuse(index, error);
                    !self.contains(hash)?
                }
                Err(error) => return Err(error),
            };
            if matches!(mode, Mode::Insert(_, told) if told.tells(is_new)) {
                done(&[index]);
            }
        }
        Ok(())
    }
}

/// The hashes of these keys, by their indices.
pub(super) fn hashes_of<K: Key>(
    hasher: KeyHasher,
    path: &Path,
    keys: &[K],
) -> impl Fn(&[u32], &mut [KeyHash]) -> Result<()> {
    move |indices, hashes| {
        for (index, to) in indices.iter().zip(hashes) {
            let hash = keys[*index as usize].hash(hasher);
            *to = hash.ok_or_else(|| Error::CallerHashes { path: path.to_owned() })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Batches, FEWEST};
    use crate::error::{Error, Result};
    use crate::format::Growth;
    use crate::options::Options;
    use crate::system::{Disk, SystemDisk};
    use crate::write::Writer;

    fn keys(numbers: std::ops::Range<u32>) -> Vec<[u8; 4]> {
        numbers.map(u32::to_le_bytes).collect()
    }

    /// Inserts numbers, 0 among them, until no more fit. Returns keys that are not in the filter.
    pub(in crate::write) fn filled(writer: &mut Writer) -> Vec<[u8; 4]> {
        let mut absent = keys(0..60_000);
        loop {
            let refused = writer.insert_batch(&absent).unwrap().into_refused();
            let is_full = refused.len() == absent.len();
            absent = refused.into_iter().map(|(index, _)| absent[index]).collect();
            if is_full {
                absent.retain(|key| !writer.contains(key).unwrap());
                return absent;
            }
        }
    }

    fn indices(refused: &[(usize, Error)]) -> Vec<usize> {
        refused.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn keys_refused_behind_a_block_are_told_by_their_own_indices() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1).seed(7).growth(Growth::Never).max_kicks(20);
        let mut writer = options.create(dir.path().join("f")).unwrap();
        let [a, b, ..] = filled(&mut writer)[..] else { panic!("all keys are there") };
        let known = 0_u32.to_le_bytes();
        assert!(writer.contains(known).unwrap());
        let inserted = writer.insert_batch(&[known, a, known, b]).unwrap();
        assert_eq!(
            (inserted.mask(), indices(inserted.refused())),
            (vec![false, true, false, true], vec![1, 3])
        );

        // The filter has one region.
        let mut many = vec![known; FEWEST];
        many.extend([a, known, b]);
        let mut new = Vec::new();
        let refused = writer.insert_each(&many, |index| new.push(index)).unwrap();
        new.sort_unstable();
        assert_eq!((indices(&refused), new), (vec![FEWEST, FEWEST + 2], vec![FEWEST, FEWEST + 2]));
        assert!(refused.iter().all(|(_, error)| matches!(error, Error::Full { .. })));
    }

    /// The keys fill several epochs of the filter; each epoch holds another part of them.
    #[test]
    fn keys_refused_in_a_later_epoch_are_those_that_single_inserts_refuse() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().keep_newest(25_000).seed(7).max_kicks(1);
        let mut single = options.create(dir.path().join("single")).unwrap();
        let mut batch = options.create(dir.path().join("batch")).unwrap();
        let keys = keys(0..60_000);
        let (mut refused, mut new) = (Vec::new(), Vec::new());
        for (index, key) in keys.iter().enumerate() {
            match single.insert(key) {
                Ok(is_new) => new.push(is_new),
                Err(error) if error.refuses_one_key() => {
                    refused.push(index);
                    new.push(!single.contains(key).unwrap());
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused.len() > 10 && refused.iter().any(|index| *index > 40_000), "{refused:?}");
        let inserted = batch.insert_batch(&keys).unwrap();
        assert_eq!(indices(inserted.refused()), refused);
        assert!(inserted.mask() == new);
        assert_eq!(batch.len().unwrap(), single.len().unwrap());
    }

    /// A disk that once fails to make room for a file.
    #[derive(Debug, Default)]
    struct FailsOnce(AtomicBool);

    impl Disk for FailsOnce {
        fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
            if self.0.swap(false, Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            SystemDisk.allocate(file, length)
        }
    }

    /// Inserts more keys than the filter holds before it doubles.
    fn insert_and_double(path: &Path, max_kicks: u32, fails: bool) -> (Writer, Result<crate::Inserted>) {
        let disk = Arc::new(FailsOnce::default());
        let options = Options::new().capacity(1).seed(7).max_kicks(max_kicks).disk(disk.clone());
        let mut writer = options.create(path).unwrap();
        writer.commit().unwrap();
        disk.0.store(fails, Ordering::Relaxed);
        let inserted = writer.insert_batch(&keys(0..40_000));
        (writer, inserted)
    }

    #[test]
    fn a_disk_that_fails_in_a_doubling_ends_a_batch_and_refuses_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, inserted) = insert_and_double(&dir.path().join("a"), 2000, false);
        assert!(inserted.unwrap().refused().is_empty());
        assert_eq!(writer.info().unwrap().generation, 1);
        let (_, inserted) = insert_and_double(&dir.path().join("b"), 2000, true);
        assert!(matches!(inserted, Err(Error::Io { .. })), "{inserted:?}");
        // The first keys without room are refused, as in a crowded region of a filter with room. The doubling comes when
        // the other keys of the batch are inserted one by one.
        let (writer, inserted) = insert_and_double(&dir.path().join("c"), 1, false);
        let refused = inserted.unwrap().into_refused();
        assert!(!refused.is_empty() && writer.info().unwrap().generation == 1, "{refused:?}");
        let (_, inserted) = insert_and_double(&dir.path().join("d"), 1, true);
        assert!(matches!(inserted, Err(Error::Io { .. })), "{inserted:?}");
    }
}
