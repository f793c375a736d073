//! A hash table from bucket numbers to words: changed buckets of a file that stays as it is.

use std::hint::select_unpredictable;

/// A hash table from bucket numbers to words. A change after a lookup of the same bucket meets the same cache line.
///
/// The place of a number in its line is found without a branch. The processor could not predict one, and a wrong
/// prediction would throw away the work on later keys.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Their number is 0 or a power of two. A number lies in the line that its hash gives or, if that line is full, in
    /// the next one that is not.
    lines: Vec<Line>,
    used: usize,
}

/// Places for four numbers and their words, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line {
    /// Bucket numbers plus 1, from the first place on; 0 is free.
    keys: [u64; PLACES],
    words: [u64; PLACES],
}

const PLACES: usize = 4;

/// The number of lines at first.
const FIRST_LINES: usize = 16;

impl Line {
    /// The first place with this key, or with 0 if that comes before it; `PLACES` if there is neither.
    #[inline]
    fn place_for(&self, key: u64) -> usize {
        (0..PLACES).rev().fold(PLACES, |later, place| {
            let here = self.keys[place];
            select_unpredictable((here == 0) | (here == key), place, later)
        })
    }

    fn get(&self, key: u64) -> Option<u64> {
        let place = self.keys.iter().position(|here| *here == key)?;
        self.words.get(place).copied()
    }

    const fn is_full(&self) -> bool {
        self.keys[PLACES - 1] != 0
    }
}

impl Table {
    #[inline]
    fn line_of(&self, number: u64) -> usize {
        // Fibonacci hashing: the multiplier is 2^64 over the golden ratio. The lowest bits of the product depend on
        // few bits of the number, and are left out.
        (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as usize & (self.lines.len() - 1)
    }

    /// The word of a number, or else the one given.
    #[inline]
    pub(super) fn get_or(&self, number: u64, mut word: u64) -> u64 {
        if self.used == 0 {
            return word;
        }
        let mut index = self.line_of(number);
        loop {
            let line = &self.lines[index];
            for place in 0..PLACES {
                word = select_unpredictable(line.keys[place] == number + 1, line.words[place], word);
            }
            // Full lines are rare. The number may lie in a later line then, unless it was found here.
            if !line.is_full() || line.get(number + 1).is_some() {
                return word;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<u64> {
        let mut index = if self.used == 0 { return None } else { self.line_of(number) };
        loop {
            let line = &self.lines[index];
            let word = line.get(number + 1);
            if word.is_some() || !line.is_full() {
                return word;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, number: u64, word: u64) {
        // With lines 3/8 full on average, 1 line in 15 is full.
        if self.used * 8 >= self.lines.len() * PLACES * 3 {
            self.enlarge();
        }
        let mut index = self.line_of(number);
        loop {
            let line = &mut self.lines[index];
            let place = line.place_for(number + 1);
            if let (Some(key), Some(place)) = (line.keys.get_mut(place), line.words.get_mut(place)) {
                self.used += usize::from(*key == 0);
                (*key, *place) = (number + 1, word);
                return;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn enlarge(&mut self) {
        let lines = vec![Line::default(); (self.lines.len() * 2).max(FIRST_LINES)];
        let before = std::mem::replace(self, Self { lines, used: 0 });
        before.all().for_each(|(number, word)| self.insert(number, word));
    }

    /// Empties the table. Its memory is kept for the next changes, unless less than a sixteenth of it was used.
    pub(super) fn empty(&mut self) {
        if self.used * 16 < self.lines.len() * PLACES {
            self.lines = Vec::new();
        } else {
            self.lines.fill(Line::default());
        }
        self.used = 0;
    }

    /// The number of entries.
    pub(super) const fn len(&self) -> usize {
        self.used
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// All numbers and words.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.lines.iter().flat_map(|line| line.keys.into_iter().zip(line.words));
        pairs.filter(|(key, _)| *key != 0).map(|(key, word)| (key - 1, word))
    }

    /// All numbers and words, ascending by number.
    pub(super) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.all().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_finds_what_lies_in_its_line_and_behind_full_ones() {
        let mut table = Table::default();
        let mut model = BTreeMap::new();
        // Numbers in a row spread over the lines; every fourth power of two less 1 makes many meet.
        let numbers = (0..5_000).chain((0..44).map(|bits| (1 << bits) - 1)).chain((0..300).map(|n| n << 40));
        for (word, number) in (1_u64..).zip(numbers.clone().chain(numbers.clone().step_by(3))) {
            assert_eq!(table.get(number), model.get(&number).copied());
            table.insert(number, word);
            model.insert(number, word);
            assert_eq!(table.used, model.len());
        }
        let full = table.lines.iter().filter(|line| line.is_full()).count();
        assert!(full > 20, "{full} of {} lines are full", table.lines.len());
        for number in numbers.flat_map(|number| [number, number + (1 << 44)]) {
            let expected = model.get(&number).copied();
            assert_eq!(table.get(number), expected);
            assert_eq!(table.get_or(number, 0), expected.unwrap_or(0));
        }
        assert!(table.sorted().into_iter().eq(model));
    }
}
