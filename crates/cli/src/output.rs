//! Writes to standard output, or to a file in its place, and to standard error.
//!
//! Verbs that commit keys append to the file. Before a commit, its keys must be in the file, under the file's own name. A
//! file whose name ends in `.zst` is compressed, in frames that end with each commit.
//!
//! Verbs that only look up make a new file, which gets its name at the end, when it is whole. Until then it has no name
//! on Linux, if the file system allows that: a process that is killed leaves nothing.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::iter;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gowk::Files;
use gowk_ingest::{Claim, Owner};
use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::{Builder, NamedTempFile, TempPath};
use xxhash_rust::xxh3::xxh3_64;

use super::failure::Failure;
use super::paths::{Sink, check_outputs};

/// How many bytes of keys are gathered before they are written.
const BUFFER: usize = 64 * 1024;

/// Standard output or a file, buffered even if it is a terminal. Callers flush it before anything depends on the bytes.
pub(super) struct Output {
    /// `None` for standard output.
    path: Option<PathBuf>,
    stream: BufWriter<Stream>,
    separator: u8,
    is_file: bool,
    /// Whether the file was empty before; always true for standard output.
    is_new: bool,
    /// The name that the file gets at the end, if it is a new one.
    unpublished: Option<Unpublished>,
}

/// Where the bytes go.
enum Stream {
    Plain(File),
    /// Compressed. A frame begins with the first byte after the last frame.
    Zstd {
        file: File,
        frame: Option<zstd::Encoder<'static, File>>,
    },
}

/// The level of compression.
const LEVEL: i32 = 3;

impl Stream {
    const fn file(&self) -> &File {
        match self {
            Self::Plain(file) | Self::Zstd { file, .. } => file,
        }
    }

    /// Ends a frame, if one has begun.
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd { frame, .. } => frame.take().map_or(Ok(()), |frame| frame.finish().map(drop)),
            Self::Plain(_) => Ok(()),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Zstd { file, frame } => match frame {
                Some(frame) => frame.write(bytes),
                none => none.insert(zstd::Encoder::new(file.try_clone()?, LEVEL)?).write(bytes),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Zstd { frame, .. } => frame.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

/// The final name of a file that does not have it yet.
struct Unpublished {
    name: PathBuf,
    /// The file's name until then, if it needs one. It is removed unless the file is published.
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
                // A rename can replace another file, and a link cannot.
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

/// A file without a name; `None` if the system does not support such files, or could not name it later.
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
        let is_file = stream.metadata()?.is_file();
        let is_zstd = path.is_some_and(|path| path.extension().is_some_and(|extension| extension == "zst"));
        let stream = if is_zstd { Stream::Zstd { file: stream, frame: None } } else { Stream::Plain(stream) };
        let (path, stream) = (path.map(Path::to_owned), BufWriter::with_capacity(BUFFER, stream));
        Ok(Self { path, stream, separator, is_file, is_new: true, unpublished: None })
    }

    /// Fails if standard output is a file of a filter or store.
    pub(super) fn standard(separator: u8) -> Result<Self, Failure> {
        check_outputs(&[Sink::standard()], iter::empty(), iter::empty())?;
        let stream = io::stdout().as_fd().try_clone_to_owned();
        stream.and_then(|stream| Self::of(None, stream.into(), separator)).map_err(Failure::Output)
    }

    /// A new file, which replaces any file of this name in [`finish`](Self::finish). If the name is a pipe or device, it
    /// is written to directly.
    pub(super) fn anew(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| Failure::of_file(path, op);
        // A symbolic link stays, and will lead to the new file.
        let (before, name) = (path.metadata().ok(), Files::resolved(path));
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            let stream = OpenOptions::new().write(true).open(path);
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
        self.end()?;
        let Some(unpublished) = self.unpublished.take() else { return Ok(()) };
        let file = self.stream.get_ref().file();
        file.sync_all().and_then(|()| unpublished.publish(file)).map_err(|source| self.failed(source))
    }

    /// A file to append keys to; creates it if it does not exist. Call [`go_on`](Self::go_on) before writing to it.
    pub(super) fn appending(path: &Path, separator: u8) -> Result<Self, Failure> {
        let failed = |op| Failure::of_file(path, op);
        let stream = OpenOptions::new().append(true).create(true).open(path).map_err(failed("open"))?;
        let is_new = stream.metadata().map_err(failed("look at"))?.len() == 0;
        let output = Self::of(Some(path), stream, separator).map_err(failed("look at"))?;
        if output.is_file {
            // The name must be durable before a commit relies on it.
            sync_folder(path).map_err(failed("sync the folder of"))?;
        }
        Ok(Self { is_new, ..output })
    }

    /// Locks out other runs. Cuts off what a run of `owner` that did not end well had written after its last commit, up
    /// to the length and the hash in `from`, unless the file has changed since, or another owner's run has appended to
    /// it. If it cuts nothing off, ends a line that a crash may have cut.
    pub(super) fn go_on(&mut self, owner: Owner, from: Option<Written>) -> Result<(), Failure> {
        let Some(path) = self.path.as_deref().filter(|_| self.is_file) else { return Ok(()) };
        let (file, failed) = (self.stream.get_ref().file(), |op| Failure::of_file(path, op));
        let from = match owner.claim(file) {
            Claim::Own => from,
            Claim::Others => None,
            Claim::Busy => return Err(Failure::BusyOutput { path: path.to_owned() }),
        };
        owner.mark(file);
        let length = file.metadata().map_err(failed("look at"))?.len();
        let is_known =
            |from: &Written| from.length <= length && Written::of(path, from.length).ok() == Some(*from);
        if let Some(from) = from.filter(is_known) {
            if from.length < length {
                file.set_len(from.length).and_then(|()| file.sync_all()).map_err(failed("cut"))?;
                note(format_args!(
                    "{}: its last {} bytes were cut off: a run that did not end had written them after its last commit",
                    path.display(),
                    length - from.length
                ));
            }
            self.is_new = from.length == 0;
            return Ok(());
        }
        let is_plain = matches!(self.stream.get_ref(), Stream::Plain(_));
        if is_plain && last_byte(path).is_some_and(|last| ![self.separator, b'\n', 0].contains(&last)) {
            self.stream.get_mut().write_all(&[self.separator]).map_err(failed("write"))?;
            let end = if self.separator == 0 { "NUL" } else { "a newline" };
            note(format_args!(
                "{}: did not end with {end}, so its last line may be half of one; it was ended, and new ones follow",
                path.display()
            ));
        }
        Ok(())
    }

    /// The hash of the file's path, which identifies it in a filter's metadata; `None` if it is not a file.
    pub(super) fn place(&self) -> Option<u64> {
        let path = self.path.as_deref().filter(|_| self.is_file)?;
        Some(xxh3_64(path.canonicalize().ok()?.as_os_str().as_bytes()))
    }

    /// The length of the file after [`sync`](Self::sync); `None` if it is not a file.
    pub(super) fn written(&self) -> Result<Option<Written>, Failure> {
        let Some(path) = self.path.as_deref().filter(|_| self.is_file) else { return Ok(None) };
        let file = self.stream.get_ref().file();
        let written = file.metadata().and_then(|metadata| Written::of(path, metadata.len()));
        written.map(Some).map_err(Failure::of_file(path, "look at"))
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

    pub(super) fn key(&mut self, key: &[u8]) -> Result<(), Failure> {
        let Self { stream, separator, .. } = self;
        let written = stream.write_all(key).and_then(|()| stream.write_all(&[*separator]));
        written.map_err(|source| self.failed(source))
    }

    /// Writes the header of CSV once, if the file is new.
    pub(super) fn header(&mut self, header: &[u8]) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_new) { self.key(header) } else { Ok(()) }
    }

    /// Writes a number, a tab and the key.
    pub(super) fn counted(&mut self, count: u32, key: &[u8]) -> Result<(), Failure> {
        let counted = write!(self.stream, "{count}\t");
        counted.map_err(|source| self.failed(source))?;
        self.key(key)
    }

    /// Writes a line of a message. Escapes control characters, which paths and names of metadata may hold.
    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        self.text(escaped(line))
    }

    /// Writes lines unchanged.
    pub(super) fn text(&mut self, lines: impl Display) -> Result<(), Failure> {
        let written = writeln!(self.stream, "{lines}");
        written.map_err(|source| self.failed(source))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.stream.flush().map_err(|source| self.failed(source))
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.flush()?;
        self.stream.get_mut().end().map_err(|source| self.failed(source))
    }

    /// Flushes, and syncs a file, so that its keys survive a power cut.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.end()?;
        if self.is_file {
            self.stream.get_ref().file().sync_data().map_err(|source| self.failed(source))
        } else {
            Ok(())
        }
    }
}

/// The length of a file that a filter remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    /// The hash of its canonical path.
    pub(super) path: u64,
    pub(super) length: u64,
    /// The hash of its last [`TAIL`] bytes.
    pub(super) tail: u64,
}

/// How many bytes show whether a file is still the same.
const TAIL: u64 = 4096;

impl Written {
    /// Describes a file's first `length` bytes.
    fn of(path: &Path, length: u64) -> io::Result<Self> {
        let mut tail = vec![0; length.min(TAIL) as usize];
        File::open(path)?.read_exact_at(&mut tail, length - length.min(TAIL))?;
        let path = xxh3_64(path.canonicalize()?.as_os_str().as_bytes());
        Ok(Self { path, length, tail: xxh3_64(&tail) })
    }
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Lets `print` write to standard output.
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

/// Writes one line to standard error. Escapes control characters, which paths may hold.
pub(super) fn note(message: impl Display) {
    event(format_args!("gowk: {}", escaped(message)));
}

/// A text without control characters: a terminal would obey them, and a newline would split a line.
fn escaped(text: impl Display) -> String {
    let mut line = String::new();
    for c in text.to_string().chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// Writes one line to standard error, unchanged.
pub(super) fn event(line: impl Display) {
    // If standard error is closed, the failure cannot be reported anywhere.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
