//! Hostile files with right checksums: superblock fields, pages, live areas, journal headers and frames are changed and
//! sealed again, so that no CRC refuses them. The file is also read from bytes, without its journal.
//!
//! Invariants checked: those of `open`. Memory and maps stay within what the file's real length justifies, whatever the file
//! claims: run with `-malloc_limit_mb`.
//!
//! Input: a byte that chooses a golden file, then changes; see `Change`.

#![no_main]

use gowk_fuzz::{Filter, Input, folder, golden, read, read_bytes, write};
use libfuzzer_sys::fuzz_target;

const SLOT: usize = 65_536;
const LIVE: usize = 131_072;
const LONGEST_JOURNAL: usize = 1 << 20;

/// Numbers near some limit.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    255,
    511,
    512,
    4096,
    65_535,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 60,
    i64::MAX as u64,
    u64::MAX,
];

/// A number near a limit, a little off it, or any other.
fn number(input: &mut Input<'_>) -> [u8; 8] {
    let choice = input.u8();
    let base = NUMBERS[usize::from(choice % 16)];
    let number = match choice / 16 {
        0..=7 => base,
        8..=9 => base.wrapping_add(1),
        10..=11 => base.wrapping_sub(1),
        12 => u64::from(input.u8()),
        13 => u64::from(input.u32()),
        _ => input.u64(),
    };
    number.to_le_bytes()
}

fn put(bytes: &mut [u8], at: usize, number: [u8; 8], size: usize) {
    for (to, from) in bytes.iter_mut().skip(at).zip(&number[..size]) {
        *to = *from;
    }
}

fn get(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The size of the superblock's field at an offset.
const FIELDS: [(usize, usize); 45] = [
    (8, 2),
    (10, 2),
    (12, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 8),
    (96, 8),
    (104, 4),
    (108, 4),
    (112, 8),
    (120, 8),
    (128, 8),
    (136, 8),
    (144, 8),
    (152, 8),
    (160, 8),
    (168, 8),
    (176, 8),
    (192, 8),
    (200, 8),
    (208, 8),
    (216, 8),
    (224, 8),
    (232, 8),
    (240, 8),
    (248, 8),
    (256, 8),
    (320, 8),
    (328, 8),
    (496, 8),
    (504, 4),
    (184, 8),
    (432, 8),
    (440, 8),
    (512, 8),
    (520, 8),
    (528, 4),
    (532, 4),
    (536, 4),
];

struct Hostile {
    filter: Filter,
    /// Whether the frames are chained again after the changes.
    chained: bool,
}

impl Hostile {
    /// Makes one change, which the first byte chooses.
    fn change(&mut self, input: &mut Input<'_>) {
        let data = &mut self.filter.data;
        match input.u8() % 14 {
            // A field of the superblock, in both slots or in one.
            which @ 0..=2 => {
                let (at, size) = FIELDS[usize::from(input.u8()) % FIELDS.len()];
                let number = number(input);
                if which != 1 {
                    put(&mut data[..SLOT], at, number, size);
                }
                if which != 2 {
                    put(&mut data[SLOT..], at, number, size);
                }
            }
            // The metadata of both slots.
            3 => {
                let at = 4096 + usize::from(input.u16());
                let bytes = input.bytes(8);
                for slot in [0, SLOT] {
                    data[slot..slot + SLOT].iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
                }
            }
            // Buckets of a page.
            4 => {
                let pages = data.len() - data.len() % SLOT - SLOT;
                let at = pages + usize::from(input.u16()) / 8 * 8;
                put(data, at, number(input), 8);
            }
            // The live area.
            5 => {
                let at = LIVE + usize::from(input.u16());
                put(data, at, number(input), 8);
            }
            6 => data[LIVE..LIVE + 8].copy_from_slice(if input.u8().is_multiple_of(2) {
                b"gowkidle"
            } else {
                b"gowkbusy"
            }),
            // Another geometry, in which all fields agree; if it is small, with the real length too.
            7 => {
                let (base, generation) = (u64::from(input.u8() % 9), u32::from(input.u8() % 4));
                self.set_geometry(base, generation);
            }
            // The journal's header.
            8 => {
                let at = [8, 10, 12, 16, 24, 32, 40][usize::from(input.u8()) % 7];
                let size =
                    [2, 2, 4, 8, 8, 8, 8][usize::from(at != 8) + usize::from(at > 10) + usize::from(at > 12)];
                put(&mut self.filter.journal, at, number(input), size);
            }
            // A frame's header.
            9 => {
                let Some((start, _)) = self.frame(input) else { return };
                let (at, size) = [(8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (44, 8)]
                    [usize::from(input.u8()) % 8];
                put(&mut self.filter.journal, start + at, number(input), size);
            }
            // A frame's payload.
            10 => {
                let Some((start, length)) = self.frame(input) else { return };
                let at = usize::from(input.u16()) % length.max(1);
                let size = 1 + usize::from(input.u8() % 8);
                put(&mut self.filter.journal, start + at, number(input), size);
            }
            // The end of a frame's payload: counts and metadata.
            11 => {
                let Some((start, _)) = self.frame(input) else { return };
                let payload = get(&self.filter.journal, start + 32) as u32 as usize;
                let back = usize::from(input.u16()) % 400 / 4 * 4;
                let at = (start + 64).saturating_add(payload).saturating_sub(back);
                put(&mut self.filter.journal, at, number(input), 8);
            }
            // Frames in another order, or twice.
            12 => {
                let (Some(from), Some(to)) = (self.frame(input), self.frame(input)) else { return };
                // Copies of copies would soon fill the memory.
                if self.filter.journal.len() > LONGEST_JOURNAL {
                    return;
                }
                let frame =
                    self.filter.journal[from.0..(from.0 + from.1).min(self.filter.journal.len())].to_vec();
                self.filter.journal.splice(to.0..to.0, frame);
            }
            _ => self.chained = !self.chained,
        }
    }

    fn set_geometry(&mut self, base: u64, generation: u32) {
        let align = |number: u64, to: u64| number.div_ceil(to) * to;
        let regions = base << generation;
        let sums = LIVE as u64 + align(53_248 + 4 * regions, 4096);
        let start = align(sums + align(64 * regions, 4096), 65_536);
        let length = start + 65_536 * regions;
        let data = &mut self.filter.data;
        for slot in [0, SLOT] {
            let fields = [(96, base), (120, sums), (128, start), (136, length)];
            fields.into_iter().for_each(|(at, number)| put(&mut data[slot..], at, number.to_le_bytes(), 8));
            put(&mut data[slot..], 104, u64::from(generation).to_le_bytes(), 4);
        }
        data.resize((length as usize).max(2 * SLOT + 65_536), 0);
    }

    /// The offset of a frame, and its length with padding.
    fn frame(&self, input: &mut Input<'_>) -> Option<(usize, usize)> {
        let frames = self.frames();
        let number = usize::from(input.u8()) % frames.len().max(1);
        frames.get(number).copied()
    }

    fn frames(&self) -> Vec<(usize, usize)> {
        let journal = &self.filter.journal;
        let mut frames = Vec::new();
        let mut at = 512;
        while at + 64 <= journal.len() && frames.len() < 64 {
            let payload = get(journal, at + 32) as u32 as usize;
            let length = (64 + payload).next_multiple_of(512);
            frames.push((at, length.min(journal.len() - at)));
            at += length;
        }
        frames
    }

    /// Recomputes every checksum.
    fn seal(&mut self) {
        let data = &mut self.filter.data;
        let Some(head) = data.get(..LIVE) else { return };
        let newest = if get(head, 40) >= get(head, SLOT + 40) { 0 } else { SLOT };
        let (uuid, generation) =
            (head[newest + 48..newest + 64].to_vec(), head[newest + 104..newest + 108].to_vec());
        let (sums, start) = (get(head, newest + 120) as usize, get(head, newest + 128) as usize);
        for slot in data[..LIVE].chunks_mut(SLOT) {
            let crc = crc32fast::hash(&slot[..SLOT - 4]);
            slot[SLOT - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        let length = data.len();
        if sums < start && start < length && start.is_multiple_of(8) {
            for (number, at) in (0u64..).zip((start..length - length % 4096).step_by(4096)) {
                let mut crc = crc32fast::Hasher::new();
                [&uuid[..], &generation, &number.to_le_bytes()].iter().for_each(|bytes| crc.update(bytes));
                crc.update(&data[at..(at + 4096).min(length)]);
                put(
                    data,
                    sums.saturating_add(4 * number as usize),
                    u64::from(crc.finalize()).to_le_bytes(),
                    4,
                );
            }
        }
        self.seal_journal();
    }

    fn seal_journal(&mut self) {
        let frames = self.frames();
        let journal = &mut self.filter.journal;
        if journal.len() < 512 {
            return;
        }
        let crc = crc32fast::hash(&journal[..508]);
        journal[508..512].copy_from_slice(&crc.to_le_bytes());
        let mut previous = crc;
        for (start, _) in frames {
            if self.chained {
                put(journal, start + 40, u64::from(previous).to_le_bytes(), 4);
            }
            let payload = get(journal, start + 32) as u32 as usize;
            let end = (start + 64).saturating_add(payload).min(journal.len());
            let crc = crc32fast::hash(&[&journal[start..start + 60], &journal[start + 64..end]].concat());
            put(journal, start + 60, u64::from(crc).to_le_bytes(), 4);
            previous = crc;
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let filter = golden()[usize::from(input.u8()) % golden().len()].clone();
    let mut hostile = Hostile { filter, chained: true };
    for _ in 0..32 {
        if !input.is_empty() {
            hostile.change(&mut input);
        }
    }
    hostile.seal();
    let _ = read_bytes(&hostile.filter.data);
    let dir = folder();
    let path = hostile.filter.write(dir.path());
    let _ = read(&path, Some(&dir.path().join("copy")));
    let dir = folder();
    let _ = write(&hostile.filter.write(dir.path()));
});
