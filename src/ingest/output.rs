//! The file of keys seen for the first time.
//!
//! Invariant: what it holds up to the length that a committed cursor gives is whole and durable. With zstd a
//! frame ends there, so that cutting it to this length leaves whole frames.
//!
//! An output that is no regular file, a pipe or a device, cannot be cut: after a crash it gets keys again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::cursor::{Cursor, Written};
use super::error::{Error, OutputProblem};
use super::inputs::InputId;
use super::job::Job;

/// Bytes gathered before they are written or compressed.
const BUFFER: usize = 256 * 1024;
/// Bytes before the committed length whose hash tells whether the file is still the same.
const TAIL: u64 = 4096;
const LEVEL: i32 = 3;

/// Where writing begins, found without changing anything.
pub(super) struct Begin {
    path: PathBuf,
    id: InputId,
    regular: bool,
    separator: u8,
    /// `None`: a new file.
    from: Option<Written>,
}

impl Begin {
    /// `None` for a job without an output.
    pub(super) fn find(job: &Job, cursor: &Cursor, anew: bool) -> Result<Option<Self>, Error> {
        let (Some(name), Some(path)) = (&job.new_keys, job.output()) else { return Ok(None) };
        let refused = |problem| Error::output(&path, problem);
        let id = InputId::of(name);
        let metadata = match path.metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(refused(OutputProblem::Io { op: "look at", source })),
        };
        let regular = metadata.as_ref().is_none_or(std::fs::Metadata::is_file);
        let found = metadata.map_or(0, |metadata| metadata.len());
        let from = match cursor.output {
            _ if anew => None,
            Some(written) if written.path == id => Some(written),
            Some(_) if !cursor.all_read => return Err(refused(OutputProblem::Other)),
            _ => None,
        };
        // Whoever takes the keys of a finished run away may leave an empty file, or none.
        let from = from.filter(|_| found > 0 || !cursor.all_read);
        if regular {
            match from {
                None if found > 0 => return Err(refused(OutputProblem::InTheWay)),
                Some(Written { length: committed, .. }) if found < committed => {
                    return Err(refused(OutputProblem::Short { committed, found }));
                }
                Some(written) if written.length > 0 => check_tail(&path, written)?,
                _ => {}
            }
        }
        let path = path.clone();
        Ok(Some(Self { path, id, regular, separator: job.separator(), from }))
    }

    /// What the cursor must say, committed, before anything is written.
    pub(super) fn written(&self) -> Written {
        self.from.unwrap_or(Written { path: self.id, length: 0, tail: xxh3_64(b"") })
    }

    pub(super) const fn length(&self) -> u64 {
        match self.from {
            Some(written) => written.length,
            None => 0,
        }
    }
}

fn check_tail(path: &Path, written: Written) -> Result<(), Error> {
    let tail = File::open(path).and_then(|file| tail(&file, written.length));
    match tail.map_err(|source| Error::output(path, OutputProblem::Io { op: "read", source }))? {
        tail if tail == written.tail => Ok(()),
        _ => Err(Error::output(path, OutputProblem::Changed { committed: written.length })),
    }
}

fn tail(file: &File, length: u64) -> io::Result<u64> {
    let mut bytes = vec![0; length.min(TAIL) as usize];
    file.read_exact_at(&mut bytes, length - length.min(TAIL))?;
    Ok(xxh3_64(&bytes))
}

pub(super) struct Output {
    path: PathBuf,
    file: File,
    regular: bool,
    separator: u8,
    buffer: Vec<u8>,
    compress: bool,
    /// What is being compressed since the last commit.
    frame: Option<zstd::Encoder<'static, File>>,
    /// Whether anything was written since the last commit.
    dirty: bool,
    written: Written,
}

impl Output {
    /// Cuts off what was not committed, or creates the file.
    pub(super) fn open(begin: Begin) -> Result<Self, Error> {
        let (written, path) = (begin.written(), begin.path);
        let open = || {
            let mut file = OpenOptions::new()
                .read(begin.regular)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            if begin.regular {
                file.set_len(written.length)?;
                file.seek(SeekFrom::Start(written.length))?;
                // Protects: the name, before a commit counts on it.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            }
            Ok(file)
        };
        let file = open().map_err(|source| Error::output(&path, OutputProblem::Io { op: "open", source }))?;
        let compress = path.extension().is_some_and(|extension| extension == "zst");
        Ok(Self {
            path,
            file,
            regular: begin.regular,
            separator: begin.separator,
            buffer: Vec::with_capacity(BUFFER),
            compress,
            frame: None,
            dirty: false,
            written,
        })
    }

    pub(super) fn key(&mut self, key: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(key);
        self.buffer.push(self.separator);
        if self.buffer.len() < BUFFER { Ok(()) } else { self.drain() }
    }

    /// Makes all keys until now durable, and says what there is then.
    pub(super) fn commit(&mut self) -> Result<Written, Error> {
        if !self.buffer.is_empty() {
            self.drain()?;
        }
        if self.dirty {
            let path = self.path.clone();
            let refused = |op| move |source| Error::output(&path, OutputProblem::Io { op, source });
            let frame = self.frame.take();
            if let Some(frame) = frame {
                frame.finish().map_err(refused.clone()("write"))?;
            }
            if self.regular {
                self.sync().map_err(refused("sync"))?;
            }
            self.dirty = false;
        }
        Ok(self.written)
    }

    fn drain(&mut self) -> Result<(), Error> {
        self.dirty = true;
        let written = if self.compress { self.compress() } else { self.file.write_all(&self.buffer) };
        self.buffer.clear();
        written.map_err(|source| Error::output(&self.path, OutputProblem::Io { op: "write", source }))
    }

    fn compress(&mut self) -> io::Result<()> {
        let frame = match &mut self.frame {
            Some(frame) => frame,
            none => none.insert(zstd::Encoder::new(self.file.try_clone()?, LEVEL)?),
        };
        frame.write_all(&self.buffer)
    }

    fn sync(&mut self) -> io::Result<()> {
        // Protects: the keys, before the filter remembers that they were seen.
        self.file.sync_data()?;
        self.written.length = self.file.stream_position()?;
        self.written.tail = tail(&self.file, self.written.length)?;
        Ok(())
    }
}
