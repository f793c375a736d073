//! Groups: an entry, and the digits in the lanes directly above it, which count its copies.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 4.2. The digits d0, d1, ... of a group, the lowest
//! lane first, form a number in bijective base D: each digit is 1 to D, so each number has just one form.
//!
//! `copies = 1 + d0 + d1 D + d2 D^2 + ...`
//!
//! n = 4, D = 31: one lane is 1 copy, two are 2 to 32, three up to 993, and four, a whole bucket, up to 30,784. A group
//! at that highest count is *saturated*: it stands for as many copies or more, and is never changed again.

use super::bucket::{Bucket, BucketId, Slot};
use super::widths::{AnyLayout, Layout, Numbers, Width};

/// The place of a stored group: its bucket, and its index among the groups there.
pub(super) type Stored = (BucketId, usize);

/// The two buckets of a key.
pub(super) type Both<W> = [(BucketId, Bucket<W>); 2];

/// The most groups of a bucket, 7, and one more that is still without a place.
pub(super) const MOST: usize = 8;

/// An entry and the copies that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group<W> {
    pub(super) entry: Slot<W>,
    pub(super) copies: u32,
}

impl<W: Layout> Group<W> {
    /// The same group, for code that is compiled once.
    pub(super) fn erased(self) -> Group<AnyLayout> {
        Group { entry: self.entry.erased(), copies: self.copies }
    }

    pub(super) const fn width(self) -> W {
        self.entry.width()
    }

    fn numbers(self) -> &'static Numbers {
        self.width().numbers()
    }

    /// An empty bucket of the same width.
    const fn no_bucket(self) -> Bucket<W> {
        Bucket::in_width(self.width(), 0)
    }

    /// How many lanes the group takes; `None` if it does not fit into a bucket.
    ///
    /// n = 4: 1 copy takes 1, 32 take 2, 33 take 3, 30,784 take 4, and 30,785 take more than there are.
    pub(super) fn lanes(self) -> Option<u32> {
        let Numbers { slots, highest_digit, .. } = *self.numbers();
        let (mut lanes, mut rest) = (1, self.copies - 1);
        while rest > 0 {
            lanes += 1;
            rest = (rest - 1) / highest_digit;
        }
        if lanes <= slots { Some(lanes) } else { None }
    }

    /// The group with one more copy; `None` if that copy would saturate it.
    pub(super) fn grown(self) -> Option<Self> {
        let copies = self.copies + 1;
        if copies < self.numbers().most_copies { Some(Self { copies, ..self }) } else { None }
    }

    /// Unites two groups that match one key. The result has the entry with the shorter tail, which begins the other tail, so
    /// every query that matched either matches it.
    pub(super) fn and(self, other: Self) -> Self {
        let shorter =
            if other.entry.tail_length() < self.entry.tail_length() { other.entry } else { self.entry };
        let copies = self.copies.saturating_add(other.copies).min(self.numbers().most_copies);
        Self { entry: shorter, copies }
    }

    /// A bucket that holds only this group; an empty bucket if the group does not fit.
    pub(super) fn alone(self) -> Bucket<W> {
        Groups::none_in(self.width()).and(self).pack().unwrap_or(self.no_bucket())
    }

    fn matches(self, query: Slot<W>) -> bool {
        self.no_bucket().like(self.entry.0.into()).matches(query).has(0)
    }

    /// Removal takes a copy from the matching group that is lowest in this order: the longest tail, and of several, the
    /// fewest copies. So a saturated group comes last.
    pub(super) const fn order(self) -> (u32, u32) {
        (self.entry.0.trailing_zeros(), self.copies)
    }
}

/// The groups of a bucket, as a list. Slots that belong to no group are kept as groups of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups<W> {
    groups: [Group<W>; MOST],
    number: usize,
}

impl<W: Width> Groups<W> {
    #[cfg(test)]
    pub(super) const fn none() -> Self {
        Self::none_in(W::VALUE)
    }
}

impl<W: Layout> Groups<W> {
    pub(super) const fn none_in(width: W) -> Self {
        Self { groups: [Group { entry: Slot::in_width(width, 0), copies: 1 }; MOST], number: 0 }
    }

    fn numbers(&self) -> &'static Numbers {
        self.width().numbers()
    }

    const fn width(&self) -> W {
        self.groups[0].width()
    }

    pub(super) fn of(bucket: Bucket<W>) -> Self {
        let Numbers { slots, highest_digit, .. } = *bucket.numbers();
        let mut all = Self::none_in(bucket.width());
        // The weight of the next digit; 0 if that digit would belong to no group.
        let mut weight = 0;
        for slot in (0..slots).map(|lane| bucket.slot(lane)) {
            match slot.digit() {
                Some(digit) if weight != 0 => {
                    all.groups[all.number - 1].copies += digit * weight;
                    weight = weight.saturating_mul(highest_digit);
                }
                _ => {
                    weight = u32::from(slot.tail_length().is_some());
                    if !slot.is_empty() {
                        all.push(Group { entry: slot, copies: 1 });
                    }
                }
            }
        }
        all
    }

    /// A bucket that holds these groups, from its lowest lane up; `None` if they do not fit.
    pub(super) fn pack(&self) -> Option<Bucket<W>> {
        let Numbers { slots, highest_digit, .. } = *self.numbers();
        let mut lanes = 0..slots;
        let mut bucket = Bucket::in_width(self.width(), 0);
        // A digit that belongs to no group must not end up above an entry.
        for stray in [true, false] {
            for group in self.iter().filter(|group| group.entry.digit().is_some() == stray) {
                bucket = bucket.with(lanes.next()?, group.entry);
                let mut rest = group.copies - 1;
                while rest > 0 {
                    let digit = (rest - 1) % highest_digit + 1;
                    bucket = bucket.with(lanes.next()?, group.entry.with_digit(digit));
                    rest = (rest - digit) / highest_digit;
                }
            }
        }
        Some(bucket)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Group<W>> {
        self.groups[..self.number].iter()
    }

    /// How many lanes all groups take together.
    pub(super) fn lanes(&self) -> u32 {
        self.iter().map(|group| group.lanes().unwrap_or(self.numbers().slots)).sum()
    }

    /// The index and value of the group with this entry; of several, the one with the fewest copies.
    pub(super) fn find(&self, entry: Slot<W>) -> Option<(usize, Group<W>)> {
        let equal = self.iter().copied().enumerate().filter(|(_, group)| group.entry == entry);
        equal.min_by_key(|(_, group)| group.copies)
    }

    /// The indices and values of the groups that match.
    pub(super) fn matching(&self, query: Slot<W>) -> impl Iterator<Item = (usize, Group<W>)> {
        let groups = self.iter().copied().enumerate();
        groups.filter(move |(_, group)| group.entry.tail_length().is_some() && group.matches(query))
    }

    /// The index and value of the matching group that a removal takes a copy from.
    pub(super) fn longest_match(&self, query: Slot<W>) -> Option<(usize, Group<W>)> {
        self.matching(query).min_by_key(|(_, group)| group.order())
    }

    /// The sum of the copies of the groups that match.
    fn copies(&self, query: Slot<W>) -> u32 {
        self.iter().filter(|group| group.matches(query)).map(|group| group.copies).sum()
    }

    /// The union of the groups that match; `None` if none matches.
    pub(super) fn union(&self, query: Slot<W>) -> Option<Group<W>> {
        self.matching(query).map(|(_, group)| group).reduce(Group::and)
    }

    /// The groups that do not match, and slots that belong to no group.
    pub(super) fn others(&self, query: Slot<W>) -> Self {
        self.filtered(|index| self.matching(query).all(|(matching, _)| matching != index))
    }

    pub(super) fn filtered(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::none_in(self.width());
        for (_, group) in self.iter().enumerate().filter(|(index, _)| keep(*index)) {
            kept.push(*group);
        }
        kept
    }

    /// The groups with `group` in place of the one at `index`.
    pub(super) fn with(mut self, index: usize, group: Group<W>) -> Self {
        self.set(index, group);
        self
    }

    /// Puts `group` in the place of the one at `index`.
    pub(super) fn set(&mut self, index: usize, group: Group<W>) {
        if let Some(place) = self.groups.get_mut(index) {
            *place = group;
        }
    }

    pub(super) fn without(mut self, index: usize) -> Self {
        if index < self.number {
            self.groups[index..self.number].rotate_left(1);
            self.number -= 1;
        }
        self
    }

    /// The groups and one more.
    pub(super) fn and(mut self, group: Group<W>) -> Self {
        self.push(group);
        self
    }

    fn push(&mut self, group: Group<W>) {
        if let Some(place) = self.groups.get_mut(self.number) {
            *place = group;
            self.number += 1;
        }
    }
}

impl<W: Width> Bucket<W> {
    /// The copies that the groups of both buckets that match `query` stand for; `None` if there may be more, because a
    /// bucket is quarantined or a matching group is saturated.
    #[inline(always)]
    pub(crate) fn copies_in_either(self, other: Self, query: Slot<W>) -> Option<u32> {
        match self.matches_of_plain(other, query) {
            Some(matches) => Some(matches),
            None => {
                let query = query.erased();
                Some(self.erased().copies(query)? + other.erased().copies(query)?)
            }
        }
    }
}

impl<W: Layout> Bucket<W> {
    #[inline(never)]
    fn copies(self, query: Slot<W>) -> Option<u32> {
        let matching = self.matches(query);
        if self.has_universal() || matching.any() && self.is_saturated() {
            return None;
        }
        if self.digit_lanes().any() && matching.any() {
            return Some(Groups::of(self).copies(query));
        }
        Some(matching.count())
    }
}

#[cfg(test)]
mod tests;
