//! Keys into a writer, one by one and many at once.

use pyo3::prelude::*;

use super::Writer;
use crate::array_of;
use crate::key::with_key;
use crate::owned::refusals;

#[pymethods]
impl Writer {
    /// Whether the key is present, with the changes of the open transaction; see :meth:`Reader.__contains__`.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.contains(bytes)))?
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order. See :meth:`Reader.contains_many`; a reader
    /// is faster.
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.owned.look_up(keys, |writer, keys, found: &mut Vec<bool>| {
            for key in keys {
                found.push(writer.contains(key)?);
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), found))
    }

    /// How many copies of the key are stored. Other keys that match it count too, so this is never too low.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.count(bytes)))?.map(u64::from)
    }

    /// As :meth:`count`, for many keys: a NumPy array of uint64. A null has none.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.owned.look_up(keys, |writer, keys, counts: &mut Vec<u64>| {
            for key in keys {
                counts.push(writer.count(key)?.into());
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), counts))
    }

    /// Stores the key unless it is found already.
    ///
    /// Raises:
    ///     TypeError: the key is neither ``str`` nor ``bytes``-like.
    ///     Full: the filter has no room, and must not grow.
    ///     Growth: the filter has no room, and growing would not be right.
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add_new(key).map(drop)
    }

    /// Stores the key unless it is found already; returns whether it was **new**, and so was stored.
    ///
    /// Errors as for :meth:`add`.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.add_new("a"), seen.add_new(b"a")
    /// (True, False)
    fn add_new(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.insert_unique(bytes)))?
    }

    /// Stores all keys that are not found already. Nulls are skipped. The GIL is released.
    ///
    /// An iterable is read in chunks, in constant memory: about a million keys, or 16 MiB of them. If it raises, if one
    /// of its keys is none, or at Ctrl-C, the keys before that stay in the open transaction: the exception's attribute
    /// ``taken`` has their number, and a note says so. :meth:`commit` keeps them, and :meth:`rollback` undoes them.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///
    /// Raises:
    ///     TypeError: one of the keys is none, which the message names by its index.
    ///     Full: some keys found no room, and the filter must not grow. The others of their chunk were taken.
    ///     Growth: some keys found no room, and growing would not be right.
    ///
    /// >>> import gowk
    /// >>> seen = gowk.Writer("seen.gowk")
    /// >>> try:
    /// ...     seen.update(["a", "b", 3, "d"])
    /// ... except TypeError as error:
    /// ...     print(error, error.taken)
    /// keys[2] is int, but a key is str or bytes-like 2
    /// >>> "b" in seen, "d" in seen
    /// (True, False)
    /// >>> seen.close()
    fn update(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut stored = Vec::new();
        let take = |writer: &mut gowk::Writer, keys: &[&[u8]], _: &mut Vec<()>| {
            refusals(writer.insert_unique_batch(keys, &mut stored))
        };
        self.owned.change(keys, take).map(drop)
    }

    /// As :meth:`update`; returns which keys were **new**: a NumPy array of bool, one a key, in their order.
    ///
    /// Of equal keys, the first counts. A null has False. If an exception ends the call, its attribute ``mask`` has the
    /// answers of the keys that were taken.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.update_new(["a", "b", "a"])
    /// array([ True,  True, False])
    fn update_new<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let stored = self
            .owned
            .change(keys, |writer, keys, stored| refusals(writer.insert_unique_batch(keys, stored)))?;
        Ok(array_of(keys.py(), stored))
    }

    /// Stores one more copy of the key, as removal needs it: one removal takes one copy. Errors as for :meth:`add`.
    fn insert(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.insert(bytes)))?
    }

    /// Stores one more copy of each key. Otherwise as :meth:`update`.
    fn insert_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let take =
            |writer: &mut gowk::Writer, keys: &[&[u8]], _: &mut Vec<()>| refusals(writer.insert_batch(keys));
        self.owned.change(keys, take).map(drop)
    }

    /// Removes one copy of the key; returns whether there was one.
    ///
    /// Remove only what was inserted: removing another key can take an entry that a key needs, which is then lost.
    ///
    /// Raises:
    ///     UnsafeRemove: some inserts stored no entry of their own, because :meth:`add` or :meth:`update` found the key.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.remove(bytes)))?
    }

    /// As :meth:`remove`, even if inserts were skipped. Skipped keys that rely on the removed entry are lost with it.
    fn remove_unchecked(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.remove_unchecked(bytes)))?
    }

    /// Removes one copy of each key; returns where there was one: a NumPy array of bool, one a key, in their order.
    ///
    /// Otherwise as :meth:`remove` and :meth:`update_new`.
    fn remove_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.owned.change(keys, |writer, keys, removed| {
            writer.remove_batch(keys, removed)?;
            Ok(())
        })?;
        Ok(array_of(keys.py(), removed))
    }
}
