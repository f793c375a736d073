//! Temporary files: new filters that are not published yet, and their removal after a writer died.
//!
//! The name of a temporary file and its first bytes hold the same random number. So gowk never mistakes another file for
//! a temporary file and removes it (`format-spec/README.md`, sections 7.2 and 8.4).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::files::{Files, Inode, names};
use super::lock::Presence;
use super::random::random;
use super::rights::{self, Rights};
use super::side::open_regular;
use crate::cuckoo::Kind;
use crate::error::{Error, IoContext, Result};
use crate::format::{MAGIC, VERSION, kind_code};

/// The part of a temporary file's name between FILE's name and the number.
const TEMPORARY: &str = "-gowk-new-";
/// The first 8 bytes of a temporary file until its superblock is written; its number follows.
const TEMPORARY_MAGIC: [u8; 8] = *b"gowkmake";

fn temporary_head(number: u64) -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&TEMPORARY_MAGIC);
    head[8..].copy_from_slice(&number.to_le_bytes());
    head
}

/// The first 16 bytes of a temporary file of this kind, once its superblock is written.
fn superblock_head(kind: Kind) -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&MAGIC);
    head[8..10].copy_from_slice(&VERSION.0.to_le_bytes());
    head[10..12].copy_from_slice(&VERSION.1.to_le_bytes());
    head[12..].copy_from_slice(&kind_code(kind).to_le_bytes());
    head
}

/// Whether a file with a temporary name is a temporary file, and its writer is dead.
fn is_stale(number: u64, path: &Path) -> bool {
    let Ok(Some(file)) = open_regular(path, false) else { return false };
    if Presence::is_claimed(&file) {
        return false;
    }
    let mut found = [0; 16];
    let Ok(length) = file.read_at(&mut found, 0) else { return false };
    let head = temporary_head(number);
    // A writer writes the temporary head, and later the superblock over it. After a power cut, each byte may be 0, from
    // the head, or from the superblock. A file that was never synced may be empty.
    Kind::ALL.map(superblock_head).iter().any(|sealed| {
        let mut bytes = found.iter().zip(head.iter().zip(sealed)).take(length);
        bytes.all(|(byte, (head, sealed))| [0, *head, *sealed].contains(byte))
    })
}

impl Files {
    /// A new file beside the filter, to be renamed over it; removed when dropped.
    pub(crate) fn temporary(
        &self,
        disk: &dyn Disk,
        model: Option<&Rights>,
    ) -> Result<tempfile::NamedTempFile> {
        let number = random(&self.dir)?;
        let refused = "create a temporary file in";
        let file = tempfile::Builder::new()
            .prefix(&self.temporary_prefix())
            .suffix(&format!("{number:016x}"))
            .rand_bytes(0)
            .make_in(&self.dir, |path| rights::create(disk, path, model))
            .at(&self.dir, refused)?;
        self.check_created(file.path(), file.as_file())?;
        // A private filter has no next writer.
        if !self.private {
            let head = temporary_head(number);
            disk.write_at(file.as_file(), &head, 0).at(&self.data, "write the new file for")?;
            // Protects: the head. If this writer dies, the next one recognizes the file by its head and removes it.
            disk.sync(file.as_file()).at(&self.data, "sync the new file for")?;
        }
        Ok(file)
    }

    /// Whether a temporary file of this filter may have this path, in which all links must be resolved.
    pub(super) fn is_temporary(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(self.temporary_prefix().as_encoded_bytes()) && path.parent() == Some(&self.dir)
    }

    fn temporary_prefix(&self) -> OsString {
        let mut prefix = self.data.file_name().unwrap_or_default().to_owned();
        prefix.push(TEMPORARY);
        prefix
    }

    /// The number and the path of each file that has the name of a temporary file of this filter.
    fn temporary_names(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let prefix = self.temporary_prefix();
        let prefix = prefix.as_encoded_bytes();
        let number = |name: &[u8]| {
            let digits = str::from_utf8(name.strip_prefix(prefix)?).ok()?;
            let number = u64::from_str_radix(digits, 16).ok()?;
            (digits == format!("{number:016x}")).then_some(number)
        };
        let named = |name: OsString| Some((number(name.as_encoded_bytes())?, self.dir.join(name)));
        Ok(names(&self.dir)?.into_iter().filter_map(named).collect())
    }

    /// Removes the temporary files of writers that died. The caller must hold the writer lock.
    ///
    /// Keeps files that are not certainly gowk's, and files that cannot be read or removed: they take room, but do no
    /// harm.
    pub(crate) fn remove_stale(&self, disk: &dyn Disk) {
        for (number, path) in self.temporary_names().unwrap_or_default() {
            if is_stale(number, &path) {
                let _ = disk.remove(&path);
            }
        }
    }

    /// [`Error::HardLinks`] if the file has several names. Publishing replaces one name, and the others would still lead
    /// to the old file.
    ///
    /// A temporary name is not counted, and is removed if this process may remove it. It can remain: if a system cannot
    /// rename without replacing, publishing gives the new file its second name and then removes the temporary one, and a
    /// writer that dies in between leaves both.
    pub(crate) fn check_single_name(&self, disk: &dyn Disk, file: &File) -> Result<()> {
        let metadata = file.metadata().at(&self.data, "look at")?;
        if metadata.nlink() <= 1 {
            return Ok(());
        }
        let mut links = metadata.nlink();
        for (_, path) in self.temporary_names().unwrap_or_default() {
            if path.symlink_metadata().is_ok_and(|other| Inode::of(&other) == Inode::of(&metadata)) {
                let _ = disk.remove(&path);
                links = links.saturating_sub(1);
            }
        }
        if links <= 1 { Ok(()) } else { Err(Error::HardLinks { path: self.data.clone(), links }) }
    }
}

#[cfg(test)]
mod tests;
