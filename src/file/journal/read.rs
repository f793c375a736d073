//! Reading a file that may end anywhere.

use std::io;
use std::os::unix::fs::FileExt;

/// Reads until the buffer is full or the file ends.
pub(super) fn read_up_to(file: &impl FileExt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
