//! Writes to standard output, or to a file in its place, and to standard error.
//!
//! Verbs that commit keys append to the file: before a commit, its keys must be in the file, under the file's own name.
//! Verbs that only look up make a new file, which gets its name at the end, when it is whole. On Linux it has no name
//! before, where the file system can do that: a process that is killed leaves nothing.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, fcntl_getfl, linkat};
use tempfile::{Builder, NamedTempFile, TempPath};

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
    /// The name that the file gets at the end, if it is a new one.
    unpublished: Option<Unpublished>,
}

/// The name of a file that does not have it yet.
struct Unpublished {
    name: PathBuf,
    /// The name that the file has until then, if it needs one. It is removed unless the file is published.
    temporary: Option<TempPath>,
}

impl Unpublished {
    /// A new file in the folder of `name`.
    fn file(name: PathBuf) -> io::Result<(File, Self)> {
        if let Some(file) = nameless(folder(&name)) {
            return Ok((file, Self { name, temporary: None }));
        }
        let make = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (file, temporary) = Self::temporary(&name, make)?.into_parts();
        Ok((file, Self { name, temporary: Some(temporary) }))
    }

    /// Makes a file with a temporary name beside `name`.
    fn temporary<F>(name: &Path, make: impl FnMut(&Path) -> io::Result<F>) -> io::Result<NamedTempFile<F>> {
        let mut prefix = name.file_name().unwrap_or_default().to_owned();
        prefix.push("-gowk-output-");
        Builder::new().prefix(&prefix).make_in(folder(name), make)
    }

    /// Gives the synced file its name.
    fn publish(self, file: &File) -> io::Result<()> {
        let Self { name, temporary } = self;
        let temporary = match temporary {
            Some(temporary) => temporary,
            None => {
                // A link cannot take the place of another file, and a rename can.
                let opened = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
                let link = |path: &Path| linkat(CWD, &*opened, CWD, path, AtFlags::SYMLINK_FOLLOW);
                Self::temporary(&name, |path| Ok(link(path)?))?.into_temp_path()
            }
        };
        temporary.persist(&name)?;
        sync_folder(&name)
    }
}

const DESCRIPTORS: &str = "/proc/self/fd";

/// A file without a name; `None` if the system does not make such files, or could not name it later.
fn nameless(folder: &Path) -> Option<File> {
    #[cfg(target_os = "linux")]
    if Path::new(DESCRIPTORS).exists() {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        return rustix::fs::open(folder, flags, 0o666.into()).ok().map(File::from);
    }
    let _ = folder;
    None
}

impl Output {
    /// An output that is opened as `stream`, or standard output without a path.
    fn of(path: Option<&Path>, stream: File, separator: u8) -> io::Result<Self> {
        let (path, is_file) = (path.map(Path::to_owned), stream.metadata()?.is_file());
        let stream = BufWriter::with_capacity(BUFFER, stream);
        Ok(Self { path, stream, separator, is_file, is_new: true, unpublished: None })
    }

    pub(super) fn standard(separator: u8) -> Result<Self, Failure> {
        let stream = io::stdout().as_fd().try_clone_to_owned();
        stream.and_then(|stream| Self::of(None, stream.into(), separator)).map_err(Failure::Output)
    }

    /// A new file, which takes the place of one of this name, if any, in [`finish`](Self::finish). A pipe or device of
    /// this name is written to directly.
    pub(super) fn anew(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| Failure::of_file(path, op);
        // A symbolic link stays, and will lead to the new file.
        let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let before = name.metadata().ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            let stream = OpenOptions::new().write(true).open(&name);
            return stream.and_then(|stream| Self::of(Some(path), stream, separator)).map_err(failed("open"));
        }
        let (stream, unpublished) = Unpublished::file(name).map_err(failed("create"))?;
        if let Some(before) = before {
            stream.set_permissions(before.permissions()).map_err(failed("set the mode of"))?;
        }
        let output = Self::of(Some(path), stream, separator).map_err(failed("look at"))?;
        Ok(Self { unpublished: Some(unpublished), ..output })
    }

    /// Writes all buffered bytes. A new file is synced and gets its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        let Some(unpublished) = self.unpublished.take() else { return Ok(()) };
        let file = self.stream.get_ref();
        file.sync_all().and_then(|()| unpublished.publish(file)).map_err(|source| self.failed(source))
    }

    /// A file to append keys to; creates it if it does not exist. A crash may have left half a line at its end: such a
    /// line is ended first, with a note.
    pub(super) fn appending(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| Failure::of_file(path, op);
        let stream = OpenOptions::new().append(true).create(true).open(path).map_err(failed("open"))?;
        let is_new = stream.metadata().map_err(failed("look at"))?.len() == 0;
        let output = Self::of(Some(path), stream, separator).map_err(failed("look at"))?;
        if output.is_file {
            // The name must be durable before a commit counts on it.
            sync_folder(path).map_err(failed("sync the folder of"))?;
            if last_byte(path).is_some_and(|last| ![separator, b'\n', 0].contains(&last)) {
                output.stream.get_ref().write_all(&[separator]).map_err(failed("write"))?;
                let end = if separator == 0 { "NUL" } else { "a newline" };
                note(format_args!(
                    "{}: did not end with {end}, so its last line may be half of one; it was ended, and new ones follow",
                    path.display()
                ));
            }
        }
        Ok(Self { is_new, ..output })
    }

    /// `None` for standard output.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn failed(&self, source: io::Error) -> Failure {
        match &self.path {
            None => Failure::Output(source),
            Some(path) => Failure::of_file(path, "write")(source),
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
        written.map_err(|source| self.failed(source))
    }

    /// Writes the header of CSV if the file is new, once.
    pub(super) fn header(&mut self, header: &[u8]) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_new) { self.key(header) } else { Ok(()) }
    }

    /// Writes a number, a tab and the key.
    pub(super) fn counted(&mut self, count: u32, key: &[u8]) -> Result<(), Failure> {
        let counted = write!(self.stream, "{count}\t");
        counted.map_err(|source| self.failed(source))?;
        self.key(key)
    }

    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        let written = writeln!(self.stream, "{line}");
        written.map_err(|source| self.failed(source))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(|source| self.failed(source))
    }

    /// Flushes, and syncs a file, so that its keys survive a power cut.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.is_file {
            self.stream.get_ref().sync_data().map_err(|source| self.failed(source))
        } else {
            Ok(())
        }
    }
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Prints what `print` writes to standard output.
pub(super) fn print(print: impl FnOnce(&mut Output) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut output = Output::standard(b'\n')?;
    print(&mut output)?;
    output.flush()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path)).and_then(|folder| folder.sync_all())
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
