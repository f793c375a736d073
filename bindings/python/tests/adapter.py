"""The interface that the tests of two Bloom filter libraries use, over gowk. Any object is a key there; here its ``repr``."""
from pathlib import Path
from tempfile import TemporaryDirectory
import functools, gowk
def fail(error): raise error
def of(key): return key if isinstance(key, str | bytes) else repr(key)
class BloomFilter:
    SMALL_SET_GROWTH, _writer = 2, None
    def __init__(self, capacity=1000, error_rate=0.001, filename=None, mode="rw+", create=True):
        self.read_only, self._name, self._folder = mode == "r", filename, TemporaryDirectory()
        self._path = Path(filename or self._folder.name + "/f")
        if create:
            self._path.unlink(missing_ok=True)
            gowk.Writer(self._path, capacity=capacity, false_positive_rate=error_rate, seed=1).commit()
        self._info = gowk.Reader(self._path).info()
        self.capacity, self.error_rate = self._info.capacity, self._info.requested_false_positive_rate
        self.num_bits, self.hash_seeds = 8 * self._info.file_length, [self._info.seed]
    def _changed(self):
        self._writer = self._writer or (fail(ValueError) if self.read_only else gowk.Writer(self._path))
        return self._writer
    def add(self, key): return not self._changed().insert(of(key))
    def update(self, keys): self._changed().update(map(of, keys))
    def sync(self): self._changed().commit(); self._writer = self._writer.close()
    _reader = functools.cached_property(lambda self: gowk.Reader(self._path))
    def __contains__(self, key): return of(key) in (self._writer or self._reader)
    def __repr__(self): return f"<BloomFilter capacity: {self.capacity}, error: {self.error_rate:.3f}>"
    filename = property(lambda self: fail(NotImplementedError) if self._name is None else self._name)
    name = property(lambda self: self.filename.encode())
    open = classmethod(lambda cls, name, mode="rw": cls(filename=name, mode=mode, create=False))
    def copy(self, name):
        Path(self.filename and name).unlink(missing_ok=True)
        gowk.Reader(self._path).copy_to(name); return self.open(name)
    def copy_template(self, name):
        Path(name).unlink(); gowk.Writer(name, like=self._reader).commit(); return self.open(name)
    def union(self, other):
        if (self.capacity, self.error_rate) != (other.capacity, other.error_rate): fail(ValueError)
        other.sync(); self._changed().merge(other._reader); return self
    def tofile(self, f): self.sync(); f.write(self._path.read_bytes())
    fromfile = classmethod(lambda cls, f: (new := cls(), new._path.write_bytes(f.read()))[0])
ScalableBloomFilter, make_hashfuncs = BloomFilter, None
