"""The interface that the tests of rbloom use, over gowk, without intersections. gowk hashes the keys, not
``hash_func``.

Equality and subsets compare entries: a filter is a subset of another filter if a union with it adds no entry. Then every
key found in it is found in the other filter.
"""
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
import gowk
class Bloom:
    def __init__(self, expected_items, false_positive_rate, hash_func=hash):
        self._prepare(hash_func)
        self._create(capacity=expected_items, false_positive_rate=false_positive_rate, seed=1)
    def _prepare(self, hash_func):
        self.hash_func, self._folder = hash_func, TemporaryDirectory()
        self._path = Path(self._folder.name, "f")
    def _create(self, **options):
        writer = gowk.Writer(self._path, mode="w", **options)
        writer.commit(); writer.close()
    reader = cached_property(lambda self: gowk.Reader(self._path))
    approx_items = property(lambda self: float(self.reader.info().copies))
    def add(self, key): self.update([key])
    def update(self, *others):
        for other in others:
            if other is self: continue
            with gowk.Writer(self._path) as writer:
                writer.merge(other.reader) if isinstance(other, Bloom) else writer.update(other)
    def __contains__(self, key): return key in self.reader
    def __bool__(self): return self.reader.info().entries > 0
    @classmethod
    def _made(cls, hash_func, copy_to):
        made = cls.__new__(cls)
        made._prepare(hash_func); copy_to(made._path); return made
    def copy(self): return self._made(self.hash_func, self.reader.copy_to)
    def clear(self): self._create(like=self.reader); self.reader.reload()
    def issubset(self, other):
        writer = gowk.Writer(other._path)
        try:
            before = writer.info().entries
            if other is not self: writer.merge(self.reader)
            return writer.info().entries == before
        finally: writer.rollback(); writer.close()
    def issuperset(self, other): return other.issubset(self)
    __le__, __ge__, __hash__ = issubset, issuperset, None
    def __eq__(self, other): return self <= other and other <= self
    def __lt__(self, other): return self <= other and not other <= self
    def __gt__(self, other): return other < self
    def union(self, *others): (copy := self.copy()).update(*others); return copy
    __or__ = union
    def __ior__(self, other): self.update(other); return self
    def save(self, name): self.reader.copy_to(name)
    def save_bytes(self): return self._path.read_bytes()
    @classmethod
    def load(cls, name, hash_func): return cls._made(hash_func, gowk.Reader(name).copy_to)
    @classmethod
    def load_bytes(cls, data, hash_func): return cls._made(hash_func, lambda path: path.write_bytes(data))
