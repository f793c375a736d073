//! Eight bytes that show, in constant time, whether a file is still the same as when it was read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::Xxh3;

/// How many bytes are hashed at the start of the part read, and as many at its end.
const BLOCK: u64 = 64 * 1024;

/// The hash of a length, the first block and the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signature(pub(super) u64);

impl Signature {
    /// The signature of the file's first `length` bytes, which must exist.
    pub(super) fn of(file: &File, length: u64) -> io::Result<Self> {
        let mut hash = Xxh3::new();
        hash.update(&length.to_le_bytes());
        let first = length.min(BLOCK);
        let last = (length - first).min(BLOCK);
        for (at, bytes) in [(0, first), (length - last, last)] {
            let mut block = vec![0; bytes as usize];
            file.read_exact_at(&mut block, at)?;
            hash.update(&block);
        }
        Ok(Self(hash.digest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_lengths_and_both_ends_apart_and_ignores_what_comes_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let of = |bytes: &[u8], length| {
            std::fs::write(&path, bytes).unwrap();
            Signature::of(&File::open(&path).unwrap(), length).unwrap()
        };
        let block = BLOCK as usize;
        for length in [0, 1, 100, block, block + 1, 2 * block - 1, 2 * block, 5 * block] {
            let mut bytes = vec![7; length + 9];
            let original = of(&bytes, length as u64);
            bytes[length] = 1;
            assert_eq!(of(&bytes, length as u64), original);
            assert_ne!(of(&bytes, length as u64 + 1), original);
            for at in [0, length / 100, length.saturating_sub(1)].into_iter().filter(|at| *at < length) {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_ne!(of(&changed, length as u64), original, "{at} of {length}");
            }
        }
    }
}
