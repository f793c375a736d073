//! What the names of files lead to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gowk::Files;
use gowk_ingest::of_any_filter;

use super::failure::Failure;
use super::source::beginning;

/// The first bytes of every filter.
const MAGIC: &[u8] = b"\x89gowk\r\n\x1a";

/// Whether the path is a store.
pub(super) fn is_store(path: &Path) -> bool {
    gowk::store::Store::is_at(path)
}

/// Whether the path is a store, where it could also be a key: a URL is a key, unless it is an address of a bucket.
pub(super) fn is_store_and_no_key(path: &Path) -> bool {
    let is_of_bucket = |scheme: &&str| path.as_os_str().as_encoded_bytes().starts_with(scheme.as_bytes());
    let is_url = gowk::store::Store::is_address(path) && !["s3", "gs:", "az:"].iter().any(is_of_bucket);
    !is_url && is_store(path)
}

/// The filter's files. The journal and the lock lie beside the file that the filter's name leads to.
pub(super) fn own(filter: &Path) -> [PathBuf; 3] {
    let filter = filter.canonicalize().unwrap_or_else(|_| filter.to_owned());
    ["", "-journal", "-lock"].map(|suffix| {
        let mut path = filter.clone().into_os_string();
        path.push(suffix);
        path.into()
    })
}

/// The name for standard output among outputs.
pub(super) const STANDARD: &str = "standard output";

/// The file that an option `--output` names; `None` if it names standard output, as `-`, or is absent.
pub(super) fn output(given: Option<&PathBuf>) -> Option<&Path> {
    given.map(PathBuf::as_path).filter(|path| path.as_os_str() != "-")
}

/// An output of a run.
#[derive(Clone, Copy)]
pub(super) struct Sink<'a> {
    /// The option that names it, or [`STANDARD`].
    option: &'static str,
    path: &'a Path,
    /// Whether it replaces an older file at the end, when all inputs are read.
    replaces: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn standard() -> Self {
        Self { option: STANDARD, path: Path::new("/dev/stdout"), replaces: false }
    }

    pub(super) const fn file(option: &'static str, path: &'a Path) -> Self {
        Self { option, path, replaces: false }
    }

    pub(super) const fn replaced(option: &'static str, path: &'a Path) -> Self {
        Self { replaces: true, ..Self::file(option, path) }
    }
}

/// Fails if one of these outputs is a file of a filter or store, of this run or any other; if it is an input, which would
/// be read and written without end; or if two are one file. Device and inode identify a file. Devices and pipes may occur
/// more than once. `filters` are the filters of this run, which need not exist yet; the input `-` is standard input.
pub(super) fn check_outputs<'a>(
    outputs: &[Sink<'_>],
    inputs: impl Iterator<Item = &'a Path> + Clone,
    filters: impl Iterator<Item = &'a Path> + Clone,
) -> Result<(), Failure> {
    for (index, Sink { option, path, replaces }) in outputs.iter().enumerate() {
        if path.as_os_str() == "-" {
            let is = "the name of standard output, which gets keys alone".to_owned();
            return Err(Failure::RefusedOutput { path: (*path).to_owned(), is, option });
        }
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            continue;
        }
        let input = |input: &'a Path| is_same(path, stream_or_file(input)).then(|| described(input));
        let output = |other: &Sink<'_>| match other.option {
            _ if !is_same(path, other.path) => None,
            STANDARD => Some(STANDARD.to_owned()),
            option => Some(format!("the file given with {option}")),
        };
        let is = filters.clone().find_map(|filter| belongs_to(path, filter));
        let is = is.or_else(|| of_any_filter(path));
        let is = is.or_else(|| inputs.clone().filter(|_| !replaces).find_map(input));
        let is = is.or_else(|| outputs.get(..index).unwrap_or_default().iter().find_map(output));
        match is {
            Some(is) if *option == STANDARD => return Err(Failure::StandardOutputIs { is }),
            Some(is) => return Err(Failure::RefusedOutput { path: (*path).to_owned(), is, option }),
            None => {}
        }
    }
    Ok(())
}

fn stream_or_file(input: &Path) -> &Path {
    if input.as_os_str() == "-" { Path::new("/dev/stdin") } else { input }
}

fn described(input: &Path) -> String {
    if input.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        format!("the input {}", input.display())
    }
}

/// The reason not to write to a file: it belongs to this filter or store, or will. Otherwise `None`.
fn belongs_to(path: &Path, filter: &Path) -> Option<String> {
    if own(filter).iter().any(|file| is_same(path, file)) {
        return Some("a file of the filter itself".to_owned());
    }
    let is_inside = || filter.canonicalize().is_ok_and(|folder| Files::resolved(path).starts_with(folder));
    (is_store(filter) && is_inside()).then(|| format!("in {}, the folder of the store", filter.display()))
}

/// The store that a file with this canonical path belongs to.
pub(super) fn store_of(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|folder| is_store(folder))
}

/// The process that holds a filter's writer lock, if the system shows it.
pub(super) fn holder(filter: &Path) -> Option<u32> {
    let [_, _, lock] = own(filter);
    let inode = format!(":{} ", lock.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 fd:01:12345 0 EOF`
    let held = locks.lines().filter(|line| line.contains(&inode) && line.contains(" WRITE "));
    held.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).find(|process| *process > 0)
}

/// Whether a file is a filter, by its first bytes.
pub(super) fn is_filter(path: &Path) -> bool {
    beginning(path).starts_with(MAGIC)
}

/// Whether both names lead to one file. The file need not exist.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    if let Some(one) = id(one) {
        return id(other) == Some(one);
    }
    Files::resolved(one) == Files::resolved(other)
}
