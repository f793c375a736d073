//! Records of new keys that wait for the commit of a store, which decides whether their keys are new.
//!
//! The first records stay in memory; all others go into a temporary file without a name, which the system removes when
//! the process ends.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use super::error::{Error, OutputProblem};
use gowk::KeyHash;

/// How many bytes stay in memory.
const MEMORY: usize = 64 << 20;
/// Bytes before each record: the hash of its key, whether it has a key, and its length.
const HEAD: usize = 16 + 1 + 8;

/// Records in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Held {
    memory: Vec<u8>,
    file: Option<BufWriter<File>>,
}

fn failed(op: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::output(&std::env::temp_dir(), OutputProblem::Io { op, source })
}

impl Held {
    /// Stores a record with the hash of its key, if it has a key.
    pub(super) fn push(&mut self, hash: Option<KeyHash>, record: &[u8]) -> Result<(), Error> {
        let key = hash.map_or(0, KeyHash::get).to_le_bytes();
        let (has_key, length) = ([u8::from(hash.is_some())], (record.len() as u64).to_le_bytes());
        let parts: [&[u8]; 4] = [&key, &has_key, &length, record];
        if self.file.is_none() && self.memory.len() + HEAD + record.len() <= MEMORY {
            parts.iter().for_each(|part| self.memory.extend_from_slice(part));
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(tempfile::tempfile().map_err(failed("create a file in"))?)),
        };
        parts.iter().try_for_each(|part| file.write_all(part)).map_err(failed("write to a file in"))
    }

    /// Passes all records to `take`, each with the hash of its key. Removes none.
    pub(super) fn each<E: From<Error>>(
        &mut self,
        mut take: impl FnMut(Option<KeyHash>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        read(&mut &*self.memory, &mut take)?;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.flush().map_err(failed("write to a file in"))?;
        file.rewind().map_err(failed("read a file in"))?;
        read(&mut BufReader::new(file.get_ref()), &mut take)?;
        file.seek(SeekFrom::End(0)).map_err(failed("read a file in"))?;
        Ok(())
    }
}

fn read<E: From<Error>>(
    from: &mut impl Read,
    take: &mut impl FnMut(Option<KeyHash>, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut key, mut has_key, mut length, mut record) = ([0; 16], [0; 1], [0; 8], Vec::new());
    loop {
        match from.read_exact(&mut key) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome.map_err(failed("read a file in"))?,
        }
        let rest = from.read_exact(&mut has_key).and_then(|()| from.read_exact(&mut length));
        rest.map_err(failed("read a file in"))?;
        record.resize(u64::from_le_bytes(length) as usize, 0);
        from.read_exact(&mut record).map_err(failed("read a file in"))?;
        take((has_key == [1]).then(|| KeyHash::new(u128::from_le_bytes(key))), &record)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_their_order_from_memory_and_from_the_file() {
        let mut held = Held::default();
        let long = vec![7; MEMORY / 3];
        let record = |at: u128| match at % 7 {
            0 => Vec::new(),
            1 if at < 40 => long.clone(),
            _ => vec![at as u8; at as usize],
        };
        let hash = |at: u128| (!at.is_multiple_of(3)).then(|| KeyHash::new(at << 64 | at));
        for last in [100, 110] {
            (last - 100..last)
                .skip(if last > 100 { 90 } else { 0 })
                .for_each(|at| held.push(hash(at), &record(at)).unwrap());
            assert!(held.file.is_some() && !held.memory.is_empty());
            let mut next = 0;
            held.each(|found, bytes| {
                assert_eq!((found, bytes), (hash(next), &*record(next)), "{next}");
                next += 1;
                Ok::<_, Error>(())
            })
            .unwrap();
            assert_eq!(next, last);
        }
    }
}
