//! Everything that changes a disk, behind one trait. Tests implement it to record calls, to make them fail, and to cut
//! the power.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::format::frame::MAX_PAYLOAD;

/// The most bytes in a frame's payload, far fewer than the format allows (16 MiB).
///
/// A frame stays in memory until it is written, and all frames use the same memory. If frames are short, that memory
/// stays in the cache. A commit of a million changes in 22 MB took 26 ms, and 31 ms with frames of 16 MiB.
const FRAME_LIMIT: usize = 1 << 20;
const _: () = assert!(FRAME_LIMIT <= MAX_PAYLOAD);

/// A journal with this many bytes of commits is checkpointed.
const CHECKPOINT_AT: u64 = 64 << 20;

/// The operations that gowk performs on files and folders, other than reading through maps.
///
/// Stores through a memory map are not among them. Such stores go to the live area, which recovery writes anew after a
/// crash, and to unpublished files, which nobody reads before they are synced and renamed.
///
/// The default of each method calls the operating system.
pub trait Disk: Debug + Send + Sync {
    /// Creates a file that must not exist, open for reading and writing, with permission bits `mode`.
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
    }
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
    /// Fills `bytes` from `offset` on. Verification, repair and copying read by this call. Lookups read through a map.
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(bytes, offset)
    }
    /// Cuts or extends a file.
    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }
    /// Makes a file `length` bytes long and reserves room for all of them on the disk. New bytes read as zeros.
    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        // `allocate` of fs2 reports wrong reasons: it reads them from `errno`, which `posix_fallocate` does not set.
        if supported(fallocate(file, FallocateFlags::empty(), 0, length))? {
            return Ok(());
        }
        // The file system has no such call. Writing zeros reserves the room now, so that no later write fails for lack of
        // it.
        fill(file, length)
    }
    /// Returns once the file's contents and length are on the medium.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
    /// Gives a file another name. If a file already has that name, it is replaced if `replace` is set; otherwise the call
    /// fails with `AlreadyExists`.
    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        if replace {
            return std::fs::rename(from, to);
        }
        let from = tempfile::TempPath::try_from_path(from)?;
        from.persist_noclobber(to).map_err(|failed| {
            // `TempPath` would remove the file when dropped, but the file belongs to the caller.
            let tempfile::PathPersistError { error, path } = failed;
            let _ = path.keep();
            error
        })
    }
    /// Gives a file one more name, in one step; fails with `AlreadyExists` if a file already has that name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }
    /// Creates a folder, which must not exist.
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir(dir)
    }
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    /// Returns once the names in a folder are on the medium.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
    /// How many bytes are free for files in a folder.
    fn available(&self, dir: &Path) -> io::Result<u64> {
        fs2::available_space(dir)
    }

    /// Reserves room on the disk for holes in the first `length` bytes of a file. If a copy of the file shares the bytes
    /// in `own`, reserves separate room for them. The contents do not change. Does nothing on a file system without such
    /// calls.
    fn reserve(&self, file: &File, length: u64, own: Range<u64>) -> io::Result<()> {
        let has_holes = file.metadata()?.blocks() < length.div_ceil(512);
        if has_holes {
            supported(fallocate(file, FallocateFlags::empty(), 0, length))?;
        }
        #[cfg(target_os = "linux")]
        supported(fallocate(file, FallocateFlags::UNSHARE_RANGE, own.start, own.end - own.start))?;
        Ok(())
    }

    /// The most bytes of page records in a journal frame; further records go into further frames.
    fn frame_limit(&self) -> usize {
        FRAME_LIMIT
    }

    /// A journal with this many bytes of commits is checkpointed.
    fn checkpoint_at(&self) -> u64 {
        CHECKPOINT_AT
    }
}

/// The files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {}

/// `fallocate`, repeated if a signal interrupts it.
fn fallocate(file: &File, flags: FallocateFlags, from: u64, length: u64) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, from, length))?)
}

/// Whether the file system supports the call with this outcome.
fn supported(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
            _ => Err(error),
        },
    }
}

fn fill(file: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 16];
    let mut offset = 0;
    while offset < length {
        let piece = zeros.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        file.write_all_at(&zeros[..piece], offset)?;
        offset += piece as u64;
    }
    Ok(())
}
