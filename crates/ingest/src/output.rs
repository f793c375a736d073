//! The files of keys seen for the first time, of keys without room in the filter, and of records without a key.
//!
//! Invariant: up to the length in a committed cursor, the file is whole and durable. A zstd frame ends there, so cutting
//! the file to this length leaves whole frames.
//!
//! A pipe or a device cannot be cut: after a crash it receives some keys again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::content::Content;
use super::csv::{self, Dialect};
use super::cursor::{Cursor, Written};
use super::decode::Unpack;
use super::error::{Error, OutputProblem};
use super::inputs::InputId;
use super::job::{Job, OutputKind};

/// How many bytes are gathered before they are written or compressed.
const BUFFER: usize = 256 * 1024;
/// How many bytes before the committed length are hashed, to check that the file is still the same.
const TAIL: u64 = 4096;
const LEVEL: i32 = 3;

/// Where a run begins to write. Finding the place changes nothing.
pub(super) struct Begin {
    path: PathBuf,
    id: InputId,
    regular: bool,
    separator: u8,
    /// The committed part, after which writing begins; `None` for a new file.
    from: Option<Written>,
}

impl Begin {
    /// `None` for a job without an output of this kind.
    pub(super) fn find(
        job: &Job,
        kind: OutputKind,
        cursor: &Cursor,
        anew: bool,
    ) -> Result<Option<Self>, Error> {
        let Some(name) = &job.outputs[kind as usize] else { return Ok(None) };
        let (path, written) = (job.base.join(name), cursor.outputs[kind as usize]);
        let refused = |problem| Error::output(&path, problem);
        let id = InputId::of(name);
        let metadata = match path.metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::of_output(&path, "look at")(source)),
        };
        let regular = metadata.as_ref().is_none_or(std::fs::Metadata::is_file);
        let found = metadata.map_or(0, |metadata| metadata.len());
        let from = match written {
            _ if anew => None,
            Some(written) if written.path == id => Some(written),
            Some(_) if !cursor.all_read => return Err(refused(OutputProblem::Other)),
            _ => None,
        };
        // After a finished run the user may take the output away: then the file is empty, or gone.
        let from = from.filter(|_| found > 0 || !cursor.all_read);
        if regular {
            check(&path, found, from, |length| tail(&File::open(&path)?, length))?;
        }
        Ok(Some(Self { path, id, regular, separator: job.separator(), from }))
    }

    /// The description of the output that a committed cursor must have before anything is written.
    pub(super) fn written(&self) -> Written {
        self.from.unwrap_or(Written { path: self.id, length: 0, tail: xxh3_64(b"") })
    }

    /// Fails if the file is not empty and begins with another record.
    pub(super) fn check_header(&self, header: &[u8], dialect: Dialect) -> Result<(), Error> {
        if !self.regular || self.length() == 0 {
            return Ok(());
        }
        if csv::is_same_header(
            &csv::header(&mut Content::open(&self.path, 0, Unpack::Usual)?, dialect)?,
            header,
        ) {
            return Ok(());
        }
        let header = csv::shown_record(header);
        Err(Error::output(&self.path, OutputProblem::OtherHeader { header }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is or will be a file, and not a pipe or device.
    pub(super) const fn is_file(&self) -> bool {
        self.regular
    }

    pub(super) const fn length(&self) -> u64 {
        match self.from {
            Some(written) => written.length,
            None => 0,
        }
    }
}

/// Fails if a file of `found` bytes does not hold the bytes written up to `from`. `tail` hashes the bytes before a given
/// length.
fn check(
    path: &Path,
    found: u64,
    from: Option<Written>,
    tail: impl FnOnce(u64) -> io::Result<u64>,
) -> Result<(), Error> {
    let refused = |problem| Err(Error::output(path, problem));
    match from {
        None if found > 0 => refused(OutputProblem::InTheWay),
        Some(Written { length: committed, .. }) if found < committed => {
            refused(OutputProblem::Short { committed, found })
        }
        Some(Written { length: committed, tail: expected, .. }) if committed > 0 => match tail(committed) {
            Ok(tail) if tail == expected => Ok(()),
            Ok(_) => refused(OutputProblem::Changed { committed }),
            Err(source) => refused(OutputProblem::Io { op: "read", source }),
        },
        _ => Ok(()),
    }
}

fn tail(file: &File, length: u64) -> io::Result<u64> {
    let mut bytes = vec![0; length.min(TAIL) as usize];
    file.read_exact_at(&mut bytes, length - length.min(TAIL))?;
    Ok(xxh3_64(&bytes))
}

pub(super) struct Output {
    begin: Begin,
    /// The header to write before the first record; `None` if it was written, or if there is none.
    header: Option<Vec<u8>>,
    file: File,
    buffer: Vec<u8>,
    compress: bool,
    /// The zstd frame begun since the last commit.
    frame: Option<zstd::Encoder<'static, File>>,
    /// Whether anything was written since the last commit.
    dirty: bool,
    written: Written,
}

impl Output {
    /// Cuts off the uncommitted bytes, or creates the file.
    ///
    /// Since the output was found, its name may have come to lead to another file, for example after log rotation. So
    /// `open` checks the opened file again before it cuts it, and refuses a shorter one.
    pub(super) fn open(begin: Begin, header: Option<Vec<u8>>) -> Result<Self, Error> {
        let (written, path) = (begin.written(), &begin.path);
        let refused = |problem| Error::output(path, problem);
        let failed = |source| refused(OutputProblem::Io { op: "open", source });
        let opened = OpenOptions::new()
            .read(begin.regular)
            .write(true)
            .create(written.length == 0)
            .truncate(false)
            .open(path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && written.length > 0 => {
                return Err(refused(OutputProblem::Short { committed: written.length, found: 0 }));
            }
            outcome => outcome.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_file() != begin.regular {
            return Err(refused(OutputProblem::Changed { committed: written.length }));
        }
        if begin.regular {
            check(path, metadata.len(), begin.from, |length| tail(&file, length))?;
            if metadata.len() > written.length {
                file.set_len(written.length).map_err(failed)?;
            }
            file.seek(SeekFrom::Start(written.length)).map_err(failed)?;
            // The name must be durable before a commit relies on it.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or(Path::new(".")));
            folder.and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        let compress = path.extension().is_some_and(|extension| extension == "zst");
        let (header, buffer) = (header.filter(|_| written.length == 0), Vec::with_capacity(BUFFER));
        Ok(Self { begin, header, file, buffer, compress, frame: None, dirty: false, written })
    }

    /// Writes a key, or its record.
    pub(super) fn record(&mut self, record: &[u8]) -> Result<(), Error> {
        if let Some(header) = self.header.take() {
            self.buffer.extend(header);
            self.buffer.push(self.begin.separator);
        }
        self.buffer.extend_from_slice(record);
        self.buffer.push(self.begin.separator);
        if self.buffer.len() < BUFFER { Ok(()) } else { self.drain() }
    }

    /// Makes all keys written before durable, and describes the file for the cursor.
    pub(super) fn commit(&mut self) -> Result<Written, Error> {
        if !self.buffer.is_empty() {
            self.drain()?;
        }
        if self.dirty {
            if let Some(frame) = self.frame.take() {
                frame.finish().map_err(Error::of_output(&self.begin.path, "write"))?;
            }
            if self.begin.regular {
                self.sync().map_err(|source| Error::of_output(&self.begin.path, "sync")(source))?;
            }
            self.dirty = false;
        }
        Ok(self.written)
    }

    fn drain(&mut self) -> Result<(), Error> {
        self.dirty = true;
        let written = if self.compress { self.compress() } else { self.file.write_all(&self.buffer) };
        self.buffer.clear();
        written.map_err(Error::of_output(&self.begin.path, "write"))
    }

    fn compress(&mut self) -> io::Result<()> {
        let frame = match &mut self.frame {
            Some(frame) => frame,
            none => none.insert(zstd::Encoder::new(self.file.try_clone()?, LEVEL)?),
        };
        frame.write_all(&self.buffer)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The keys must be durable before the filter remembers them as seen.
        self.file.sync_data()?;
        self.written.length = self.file.stream_position()?;
        self.written.tail = tail(&self.file, self.written.length)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &[u8] = b"1\n2\n3\n";

    /// Commits and finds an output, runs `meanwhile`, and opens the output. Returns how that ended, and the content of
    /// the file that has the name afterwards.
    fn opened_after(meanwhile: impl FnOnce(&Path)) -> (Result<(), String>, Option<Vec<u8>>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        std::fs::write(&path, [COMMITTED, b"not committed"].concat()).unwrap();
        let text = "[filter]\npath = 'f'\n[output]\nnew_keys = 'new'\n[input]\npaths = ['a']";
        let job = Job::parse(text, dir.path().join("job.toml")).unwrap();
        let output = Written {
            path: InputId::of(Path::new("new")),
            length: COMMITTED.len() as u64,
            tail: xxh3_64(COMMITTED),
        };
        let cursor = Cursor { outputs: [Some(output), None, None], ..Cursor::default() };
        let begin = Begin::find(&job, OutputKind::New, &cursor, false).unwrap().unwrap();
        meanwhile(&path);
        let outcome = Output::open(begin, None).map(drop).map_err(|error| error.to_string());
        (outcome, std::fs::read(&path).ok())
    }

    #[test]
    fn what_was_not_committed_is_cut_off() {
        assert_eq!(opened_after(|_| {}), (Ok(()), Some(COMMITTED.to_vec())));
    }

    /// Log rotation moves the file in this way.
    #[test]
    fn an_output_moved_away_after_it_was_found_is_neither_made_anew_nor_extended() {
        let (outcome, left) = opened_after(|path| std::fs::rename(path, path.with_extension("1")).unwrap());
        let message = outcome.unwrap_err();
        assert!(message.contains("6 bytes were written, but 0 are there now"), "{message}");
        assert_eq!(left, None);
        for shorter in [b"".as_slice(), b"1\n2\n"] {
            let (outcome, left) = opened_after(|path| std::fs::write(path, shorter).unwrap());
            let message = outcome.unwrap_err();
            let words = format!("6 bytes were written, but {} are there now", shorter.len());
            assert!(message.contains(&words), "{message}");
            assert_eq!(left.unwrap(), shorter);
        }
    }

    #[test]
    fn another_file_in_the_place_of_the_output_found_is_not_cut() {
        let other = b"somebody else's, and longer";
        let (outcome, left) = opened_after(|path| std::fs::write(path, other).unwrap());
        let message = outcome.unwrap_err();
        assert!(message.contains("its first 6 bytes are not what this job wrote"), "{message}");
        assert_eq!(left.unwrap(), other);
    }

    #[test]
    fn a_file_that_appears_in_the_place_of_a_new_output_is_not_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let text = "[filter]\npath = 'f'\n[output]\nnew_keys = 'new'\n[input]\npaths = ['a']";
        let job = Job::parse(text, dir.path().join("job.toml")).unwrap();
        let begin = Begin::find(&job, OutputKind::New, &Cursor::default(), false).unwrap().unwrap();
        std::fs::write(&path, "precious").unwrap();
        let message = Output::open(begin, None).map(drop).unwrap_err().to_string();
        assert!(message.contains("exists already, and this job did not write it"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
