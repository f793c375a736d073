//! Writes to standard output, or to a file in its place, and to standard error.
//!
//! Verbs that commit keys append to the file: before a commit, its keys must be in the file, under the file's own name.
//! Verbs that only look up make a new file, which gets its name at the end, when it is whole.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl};

use super::failure::Failure;
use super::paths::own;

/// Bytes of keys gathered before they are written.
const BUFFER: usize = 64 * 1024;

/// Standard output or a file, buffered even if it is a terminal. Callers flush it before something depends on the
/// bytes.
pub(super) struct Output {
    /// `None` for standard output.
    path: Option<PathBuf>,
    stream: BufWriter<File>,
    separator: u8,
    is_file: bool,
    /// Whether the file was empty before; always true for standard output.
    is_new: bool,
    /// The temporary file that gets its name at the end, if there is one.
    unpublished: Option<Unpublished>,
}

/// A file that has no name of its own yet. It is removed unless it gets one.
struct Unpublished {
    temporary: PathBuf,
    name: PathBuf,
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        // Fails harmlessly if the file has got its name.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Output {
    pub(super) fn standard(separator: u8) -> Result<Self, Failure> {
        let stream = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(Failure::Output)?);
        let is_file = stream.metadata().map_err(Failure::Output)?.is_file();
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path: None, stream, separator, is_file, is_new: true, unpublished: None })
    }

    /// Standard output, or a file in its place, which [`finish`](Self::finish) gives its name. Fails if standard output is
    /// a file of one of these filters.
    pub(super) fn of_lookups<'a>(
        path: Option<&Path>,
        separator: u8,
        filters: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Failure> {
        let Some(path) = path else {
            let output = Self::standard(separator)?;
            return filters.into_iter().try_for_each(|filter| output.check_beside(filter)).map(|()| output);
        };
        Self::anew(path, separator)
    }

    /// A new file, which takes the place of one of this name, if any. A pipe or device of this name is written to
    /// directly.
    fn anew(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| {
            let path = path.to_owned();
            move |source| Failure::File { path, op, source }
        };
        // A symbolic link stays, and will lead to the new file.
        let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let before = name.metadata().ok();
        let is_file = before.as_ref().is_none_or(fs::Metadata::is_file);
        if !is_file {
            let stream = OpenOptions::new().write(true).open(&name).map_err(failed("open"))?;
            let stream = BufWriter::with_capacity(BUFFER, stream);
            return Ok(Self {
                path: Some(path.to_owned()),
                stream,
                separator,
                is_file,
                is_new: true,
                unpublished: None,
            });
        }
        let mut temporary = name.clone().into_os_string();
        temporary.push(format!("-gowk-output-{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let stream = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let stream = stream.map_err(failed("create"))?;
        let unpublished = Some(Unpublished { temporary, name });
        if let Some(before) = before {
            stream.set_permissions(before.permissions()).map_err(failed("set the mode of"))?;
        }
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path: Some(path.to_owned()), stream, separator, is_file, is_new: true, unpublished })
    }

    /// Writes all buffered bytes. A new file is synced and gets its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        if let Some(Unpublished { temporary, name }) = &self.unpublished {
            self.stream.get_ref().sync_all().map_err(self.failed())?;
            fs::rename(temporary, name).and_then(|()| sync_folder(name)).map_err(self.failed())?;
        }
        Ok(())
    }

    /// A file to append keys to; creates it if it does not exist. A crash may have left half a line at its end: such a
    /// line is ended first, with a note.
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
            sync_folder(path).map_err(failed("sync the folder of"))?;
            if last_byte(path).is_some_and(|last| ![separator, b'\n', 0].contains(&last)) {
                (&stream).write_all(&[separator]).map_err(failed("write"))?;
                let end = if separator == 0 { "NUL" } else { "a newline" };
                note(format_args!(
                    "{}: did not end with {end}, so its last line may be half of one; it was ended, and new ones follow",
                    path.display()
                ));
            }
        }
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path: Some(path.to_owned()), stream, separator, is_file, is_new, unpublished: None })
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

    /// Fails if standard output was closed from the start: all keys printed would be lost.
    ///
    /// In place of a closed standard output, Rust opens the null device for reading and writing. A shell's `>
    /// /dev/null` opens it for writing alone; then the user throws the keys away on purpose.
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
        let this = id(self.stream.get_ref().metadata().map_err(Failure::Output)?);
        match own(filter).into_iter().find(|path| path.metadata().is_ok_and(|found| id(found) == this)) {
            Some(file) => Err(Failure::OwnOutput { file }),
            None => Ok(()),
        }
    }

    pub(super) fn key(&mut self, key: &[u8]) -> Result<(), Failure> {
        let Self { stream, separator, .. } = self;
        let written = stream.write_all(key).and_then(|()| stream.write_all(&[*separator]));
        written.map_err(|source| self.failed()(source))
    }

    /// Writes the header of CSV if the file is new, once.
    pub(super) fn header(&mut self, header: &[u8]) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_new) { self.key(header) } else { Ok(()) }
    }

    /// Writes a number, a tab and the key.
    pub(super) fn counted(&mut self, count: u32, key: &[u8]) -> Result<(), Failure> {
        let counted = write!(self.stream, "{count}\t");
        counted.map_err(|source| self.failed()(source))?;
        self.key(key)
    }

    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        let written = writeln!(self.stream, "{line}");
        written.map_err(|source| self.failed()(source))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(|source| self.failed()(source))
    }

    /// Flushes, and syncs a file, so that its keys survive a power cut.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.is_file { self.stream.get_ref().sync_data().map_err(self.failed()) } else { Ok(()) }
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
}

/// The last byte of a file; `None` if the file is empty or cannot be read.
fn last_byte(path: &Path) -> Option<u8> {
    let file = File::open(path).ok()?;
    let mut last = [0];
    file.read_exact_at(&mut last, file.metadata().ok()?.len().checked_sub(1)?).ok()?;
    Some(last[0])
}

/// Writes one line to standard error; escapes control characters, which paths may hold.
pub(super) fn note(message: impl Display) {
    let mut line = String::from("gowk: ");
    for c in message.to_string().chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    event(line);
}

/// Writes one line to standard error, unchanged.
pub(super) fn event(line: impl Display) {
    // If standard error is gone, there is nowhere to report it.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
