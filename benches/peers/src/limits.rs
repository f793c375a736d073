//! What the machine can do: loads of random cache lines.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Lines prefetched before one is loaded.
const AHEAD: usize = 32;

/// Memory to load from: a buffer, or a mapped file.
pub struct Lines<'a>(pub &'a [u64]);

const PAGE: usize = 512;
const LINE: usize = 8;

impl Lines<'_> {
    fn prefetch(&self, index: usize) {
        // SAFETY: a prefetch has no effect that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(&self.0[index]).cast()) }
    }

    /// Millions of lookups a second of two loads each, at random lines of one random page, 32 lookups ahead:
    /// what a lookup in a cuckoo filter costs the memory when everything else is free.
    pub fn two_in_a_page(&self, lookups: usize) -> f64 {
        let pages = (self.0.len() / PAGE) as u64;
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let page = ((u128::from(state) * u128::from(pages)) >> 64) as usize * PAGE;
            let (first, second) = ((state >> 8) as usize % 64, (state >> 16) as usize % 64);
            [page + first * LINE, page + second * LINE]
        };
        let mut ring = [[0; 2]; AHEAD];
        for place in &mut ring {
            *place = next();
            place.iter().for_each(|index| self.prefetch(*index));
        }
        let mut sum = 0u64;
        let seconds = crate::measure::seconds(|| {
            for index in 0..lookups {
                let place = &mut ring[index % AHEAD];
                let [first, second] = *place;
                *place = next();
                place.iter().for_each(|index| self.prefetch(*index));
                sum = sum.wrapping_add(self.0[first] ^ self.0[second]);
            }
        });
        std::hint::black_box(sum);
        lookups as f64 / seconds / 1e6
    }
}

/// Nanoseconds that a load takes which waits for the one before, at random lines of a buffer of that many bytes.
fn latency(bytes: u64) -> f64 {
    const LOADS: usize = 5_000_000;
    // All lines in one cycle (Sattolo's algorithm).
    let mut next: Vec<usize> = (0..bytes as usize / (8 * LINE)).collect();
    let mut state = 1u64;
    for last in (1..next.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        next.swap(last, ((u128::from(state) * last as u128) >> 64) as usize);
    }
    let mut lines = buffer(bytes);
    for (line, next) in next.iter().enumerate() {
        lines[line * LINE] = (next * LINE) as u64;
    }
    let mut at = 0;
    let mut follow = |loads| (0..loads).for_each(|_| at = lines[at] as usize);
    follow(LOADS.min(2 * next.len()));
    let seconds = crate::measure::seconds(|| follow(LOADS));
    std::hint::black_box(at);
    seconds / LOADS as f64 * 1e9
}

/// How much of the cache that the system names there is: on a virtual machine others may fill it.
pub fn latencies(mib: u64) {
    println!("| buffer, MiB | ns a load that waits for the one before |");
    println!("|---|---|");
    for mib in (0..).map(|power| 1 << power).take_while(|size| *size <= mib) {
        println!("| {mib} | {:.0} |", latency(mib << 20));
    }
}

/// A buffer of that many bytes, with every page touched.
pub fn buffer(bytes: u64) -> Vec<u64> {
    (0..bytes / 8).collect()
}
