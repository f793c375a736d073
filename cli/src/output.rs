//! What goes to standard output and standard error.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl};

use super::failure::Failure;

/// Bytes of keys gathered before they are written.
const BUFFER: usize = 64 * 1024;

/// Standard output or a file, buffered even if it is a terminal; flushed before something depends on it.
pub(super) struct Output {
    /// `None` for standard output.
    path: Option<PathBuf>,
    stream: BufWriter<File>,
    separator: u8,
    is_file: bool,
    /// Whether nothing was in the file before.
    is_new: bool,
}

impl Output {
    pub(super) fn standard(separator: u8) -> Result<Self, Failure> {
        let stream = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(Failure::Output)?);
        let is_file = stream.metadata().map_err(Failure::Output)?.is_file();
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path: None, stream, separator, is_file, is_new: false })
    }

    /// A file to which keys are added at its end; it is created if it is not there.
    pub(super) fn appending(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| {
            let path = path.to_owned();
            move |source| Failure::File { path, op, source }
        };
        let stream = OpenOptions::new().append(true).create(true).open(path).map_err(failed("open"))?;
        let metadata = stream.metadata().map_err(failed("look at"))?;
        let (is_file, is_new) = (metadata.is_file(), metadata.len() == 0);
        if is_file {
            // The name must be durable before a commit counts on it.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or(Path::new(".")));
            folder.and_then(|folder| folder.sync_all()).map_err(failed("sync the folder of"))?;
        }
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path: Some(path.to_owned()), stream, separator, is_file, is_new })
    }

    /// `None` for standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn failed(&self) -> impl Fn(io::Error) -> Failure {
        let path = self.path.clone();
        move |source| match path.clone() {
            None => Failure::Output(source),
            Some(path) => Failure::File { path, op: "write", source },
        }
    }

    /// Fails if standard output was closed from the start, as what is printed would be lost.
    ///
    /// In the place of a closed standard output, Rust opens the null device for reading and writing. A shell's
    /// `> /dev/null` opens it for writing alone, and says that nobody wants the keys.
    pub(super) fn check_kept() -> Result<(), Failure> {
        let output = io::stdout();
        let flags = fcntl_getfl(&output).map_err(|error| Failure::Output(error.into()))?;
        let output = File::from(output.as_fd().try_clone_to_owned().map_err(Failure::Output)?);
        let output = output.metadata().map_err(Failure::Output)?;
        let null = Path::new("/dev/null").metadata();
        let is_null =
            output.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == output.rdev());
        let is_lost = is_null && flags & OFlags::RWMODE == OFlags::RDWR;
        if is_lost { Err(Failure::Lost) } else { Ok(()) }
    }

    /// Fails if standard output is a file of the filter itself.
    pub(super) fn check_beside(&self, filter: &Path) -> Result<(), Failure> {
        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = id(self.stream.get_ref().metadata().map_err(Failure::Output)?);
        match self::own(filter).into_iter().find(|path| path.metadata().is_ok_and(|found| id(found) == own)) {
            Some(file) => Err(Failure::OwnOutput { file }),
            None => Ok(()),
        }
    }

    pub(super) fn key(&mut self, key: &[u8]) -> Result<(), Failure> {
        let Self { stream, separator, .. } = self;
        let written = stream.write_all(key).and_then(|()| stream.write_all(&[*separator]));
        written.map_err(|source| self.failed()(source))
    }

    /// Writes the header of CSV, unless there was something in the file before.
    pub(super) fn header(&mut self, header: &[u8]) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_new) { self.key(header) } else { Ok(()) }
    }

    /// A number, a tab and the key.
    pub(super) fn counted(&mut self, count: u32, key: &[u8]) -> Result<(), Failure> {
        write!(self.stream, "{count}\t").map_err(Failure::Output)?;
        self.key(key)
    }

    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.stream, "{line}").map_err(Failure::Output)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(|source| self.failed()(source))
    }

    /// Flushes, and makes what was written survive a power cut if it goes to a file.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.is_file { self.stream.get_ref().sync_data().map_err(self.failed()) } else { Ok(()) }
    }
}

/// The filter's files. Journal and lock lie beside what the filter's name leads to.
pub(super) fn own(filter: &Path) -> [PathBuf; 3] {
    let filter = filter.canonicalize().unwrap_or_else(|_| filter.to_owned());
    ["", "-journal", "-lock"].map(|suffix| {
        let mut path = filter.clone().into_os_string();
        path.push(suffix);
        path.into()
    })
}

/// One line on standard error; control characters, which paths may hold, are escaped.
pub(super) fn note(message: impl Display) {
    let mut line = String::from("gowk: ");
    for c in message.to_string().chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    event(line);
}

/// One line on standard error, as it is.
pub(super) fn event(line: impl Display) {
    // There is nobody left to tell that standard error is gone.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
