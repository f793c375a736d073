//! Looks for orphans: commits after the last frame that counts. They show that the journal was damaged, rather than cut
//! short by a crash (`format-spec/README.md`, section 6.4).
//!
//! A frame of up to 16 MiB may begin at each multiple of 512. Reading each candidate separately would read every byte up
//! to 32,768 times. So the bytes are read once, in order, under one running CRC. The CRC of a frame's payload follows
//! from two values of the running CRC: for bytes `a` followed by `b`, `crc(ab) = shift(crc(a), |b|) ^ crc(b)`, where
//! `shift` appends zero bytes. Memory is bounded: each frame is judged at most 16 MiB after its beginning was read.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use zerocopy::FromBytes;

use super::read_up_to;
use crate::format::frame::{FRAME_ALIGN, FRAME_HEADER, RawFrame};

const ALIGN: usize = FRAME_ALIGN as usize;
/// Bytes read at a time.
const CHUNK: u64 = 1 << 16;
const _: () = assert!(CHUNK.is_multiple_of(FRAME_ALIGN) && FRAME_HEADER <= ALIGN);

/// A header with the right magic number and salt. It begins a frame if its CRC is right.
struct Candidate {
    offset: u64,
    /// The length of the frame in bytes, with padding.
    length: u64,
    payload: u64,
    commit: u64,
    claimed: u32,
    /// The CRC of its header up to the CRC field.
    head: u32,
    /// The running CRC before its payload.
    before: u32,
    is_right: Option<bool>,
}

impl Candidate {
    /// Decides whether the candidate is a frame; `after` is the running CRC at the end of the payload.
    fn judge(&mut self, after: u32) {
        // Both the header's CRC and the running CRC before the payload need shifting. Shifting is linear, so their
        // exclusive or is shifted once.
        let crc = shift(self.head ^ self.before, self.payload) ^ after;
        self.is_right = Some(crc == self.claimed);
    }
}

/// The part that `crc` contributes to the CRC of the same bytes with `zeros` zero bytes after them.
fn shift(crc: u32, zeros: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial_len(crc, 0);
    hasher.combine(&Hasher::new_with_initial_len(0, zeros));
    hasher.finalize()
}

/// The candidates, and the position of the reading.
struct Search {
    salt: u64,
    /// The length of the file.
    end: u64,
    /// Ascending by offset; some are already judged.
    candidates: VecDeque<Candidate>,
    /// How many candidates were removed at the front.
    gone: u64,
    /// For each candidate not yet judged: the end of its payload, and its number.
    open: BinaryHeap<Reverse<(u64, u64)>>,
    /// The end of the last intact frame. Candidates that begin before it are bytes of that frame's payload, and do not
    /// count.
    covered: u64,
    running: Hasher,
    highest: Option<u64>,
}

/// The highest commit of all frames from `offset` on whose magic, salt and CRC are right.
pub(super) fn highest_commit(
    source: &impl FileExt,
    offset: u64,
    end: u64,
    salt: u64,
) -> io::Result<Option<u64>> {
    let mut search = Search {
        salt,
        end,
        candidates: VecDeque::new(),
        gone: 0,
        open: BinaryHeap::new(),
        covered: offset,
        running: Hasher::new(),
        highest: None,
    };
    let mut chunk = vec![0; end.saturating_sub(offset).next_multiple_of(FRAME_ALIGN).min(CHUNK) as usize];
    let mut at = offset;
    while at < end {
        let read = read_up_to(source, &mut chunk, at)?;
        for (block, offset) in chunk.get(..read).unwrap_or_default().chunks(ALIGN).zip((at..).step_by(ALIGN))
        {
            search.block(block, offset);
        }
        if read < chunk.len() {
            break;
        }
        at += read as u64;
    }
    search.settle(true);
    Ok(search.highest)
}

impl Search {
    fn block(&mut self, block: &[u8], offset: u64) {
        let candidate = self.candidate(block, offset);
        if candidate.is_none() && self.open.is_empty() {
            return;
        }
        let (mut at, mut rest) = (offset, block);
        if let Some((mut candidate, payload)) = candidate {
            self.run_to(payload, &mut at, &mut rest);
            candidate.before = self.running.clone().finalize();
            let number = self.gone + self.candidates.len() as u64;
            self.open.push(Reverse((payload.saturating_add(candidate.payload), number)));
            self.candidates.push_back(candidate);
        }
        self.run_to(offset + block.len() as u64, &mut at, &mut rest);
        self.settle(false);
    }

    /// The candidate that begins with this block, if one does, and the offset of its payload.
    fn candidate(&self, block: &[u8], offset: u64) -> Option<(Candidate, u64)> {
        let (raw, _) = RawFrame::read_from_prefix(block).ok()?;
        let length = raw.length(self.salt, self.end - offset)?;
        let candidate = Candidate {
            offset,
            length,
            payload: raw.payload() as u64,
            commit: raw.commit(),
            claimed: raw.crc(),
            head: raw.crc_of_head(),
            before: 0,
            is_right: None,
        };
        Some((candidate, offset + FRAME_HEADER as u64))
    }

    /// Adds the bytes up to `to` to the running CRC, and judges the frames whose payloads end there or before.
    fn run_to(&mut self, to: u64, at: &mut u64, rest: &mut &[u8]) {
        while let Some(Reverse((end, number))) = self.open.peek().copied().filter(|next| next.0.0 <= to) {
            self.open.pop();
            self.take(end, at, rest);
            let after = self.running.clone().finalize();
            if let Some(candidate) = self.candidates.get_mut((number - self.gone) as usize) {
                candidate.judge(after);
            }
        }
        self.take(to, at, rest);
    }

    fn take(&mut self, to: u64, at: &mut u64, rest: &mut &[u8]) {
        let (bytes, behind) = rest.split_at(rest.len().min((to - *at) as usize));
        self.running.update(bytes);
        (*at, *rest) = (to, behind);
    }

    /// Removes the candidates in order, up to the first not yet judged; at the end of the file, all of them.
    fn settle(&mut self, is_end: bool) {
        while let Some(Candidate { offset, length, commit, is_right, .. }) = self.candidates.front() {
            if is_right.is_none() && !is_end {
                return;
            }
            if *is_right == Some(true) && *offset >= self.covered {
                self.covered = *offset + *length;
                self.highest = self.highest.max(Some(*commit));
            }
            self.candidates.pop_front();
            self.gone += 1;
        }
    }
}
