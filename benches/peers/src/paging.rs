//! Lookups in a filter that does not fit into memory, against random reads of the disk.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use gowk::{Lookup, Reader};

use crate::keys::{absent, key};
use crate::measure::seconds;
use crate::{Outcome, filters};

const PAGE: u64 = 4096;
const SINGLE: usize = 20_000;
const BATCH: usize = 200_000;
/// Reads under way at once.
const DEPTH: u64 = 64;

/// `group`: the folder of a control group with a limit of memory, which this process may enter.
pub fn run(mebibytes: u64, group: Option<String>) -> Outcome<()> {
    let group = group.ok_or("name the folder of a control group that has a limit of memory")?;
    let dir = tempfile::tempdir_in(".")?;
    let path = dir.path().join("filter");
    filters::create(&path, mebibytes, 0.9)?;
    println!("filter of {mebibytes} MiB, absent keys:");
    let device = [Reads { depth: 1 }, Reads { depth: DEPTH }].map(|reads| reads.rate(&path));
    let [one, many] = device;
    let (one, many) = (one?, many?);
    println!(
        "  the disk: {one:.0} random reads of a page a second one by one, {many:.0} with {DEPTH} at once"
    );
    for _ in 0..3 {
        let status =
            Command::new(std::env::current_exe()?).arg("child-paging").arg(&path).arg(&group).status()?;
        if !status.success() {
            return Err("the child failed".into());
        }
    }
    Ok(())
}

/// Enters the group, and looks keys up.
pub fn child(path: &Path) -> Outcome<()> {
    let group = std::env::args().nth(3).ok_or("no group")?;
    std::fs::write(Path::new(&group).join("cgroup.procs"), std::process::id().to_string())?;
    evict(path)?;
    let reader = Reader::open(path)?;
    let keys = absent(SINGLE + BATCH);
    let (few, many) = keys.split_at(SINGLE);
    let measure = |count: usize, work: &mut dyn FnMut() -> gowk::Result<()>| -> Outcome<f64> {
        let before = bytes_read()?;
        let mut outcome = Ok(());
        let seconds = seconds(|| outcome = work());
        outcome?;
        let (rate, pages) =
            (count as f64 / seconds, (bytes_read()? - before) as f64 / PAGE as f64 / count as f64);
        print!("  {rate:.0} lookups a second, {pages:.3} pages read a lookup;");
        Ok(rate)
    };
    print!("  contains:");
    let single = measure(SINGLE, &mut || few.iter().try_for_each(|key| reader.contains(key).map(drop)))?;
    print!("\n  contains_batch:");
    let batch = measure(BATCH, &mut || reader.contains_batch(many).map(drop))?;
    println!(" {:.1} times as many", batch / single);
    Ok(())
}

/// Lets the kernel drop the cached pages of a file, which must have been synced.
fn evict(path: &Path) -> Outcome<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    // SAFETY: advice on an open file.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error).into()),
    }
}

/// Bytes that this process had read from disks.
fn bytes_read() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).ok_or("no read_bytes")?;
    Ok(line.trim().parse()?)
}

/// Reads single random pages, past the page cache.
struct Reads {
    depth: u64,
}

impl Reads {
    /// Reads a second.
    fn rate(&self, path: &Path) -> Outcome<f64> {
        let pages = std::fs::metadata(path)?.len() / PAGE;
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
        let each = 10_000 / self.depth.min(4);
        let seconds = seconds(|| {
            std::thread::scope(|scope| {
                for thread in 0..self.depth {
                    let file = &file;
                    scope.spawn(move || {
                        let layout = Layout::from_size_align(PAGE as usize, PAGE as usize).expect("a page");
                        // SAFETY: not empty; freed below, with the same layout, after the last use.
                        let memory = unsafe { alloc_zeroed(layout) };
                        // SAFETY: as many bytes as were allocated, and initialized.
                        let buffer = unsafe { std::slice::from_raw_parts_mut(memory, PAGE as usize) };
                        for number in 0..each {
                            let page = u64::from_le_bytes(key(thread << 32 | number)) % pages;
                            file.read_exact_at(buffer, page * PAGE).expect("a page of the file");
                        }
                        // SAFETY: see above.
                        unsafe { dealloc(memory, layout) };
                    });
                }
            });
        });
        Ok((self.depth * each) as f64 / seconds)
    }
}
