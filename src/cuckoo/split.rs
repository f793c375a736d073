//! Making two regions of one, as when a filter doubles.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 8.1: the first bit of an entry's tail says which of the
//! two regions it goes to, at the same bucket index. No entry moves to its other bucket, and no bucket can overflow.

use super::bucket::{BUCKETS_PER_REGION, Bucket};
use super::counts::Counts;
use super::widths::Width;

/// All buckets of a region.
type Words = [u64; BUCKETS_PER_REGION as usize];

/// Makes two regions of one. Not inlined: inlined into the closures that call it, it took more instructions for each
/// bucket.
#[inline(never)]
pub(crate) fn split<W: Width>(parent: &Words, [left, right]: &mut [Words; 2]) {
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let (a, b) = Bucket::<W>::new(*word).split();
        (*left, *right) = (a.0, b.0);
    }
}

/// Marks all entries of a region that are not marked yet.
pub(crate) fn mark<W: Width>(words: &mut [u64]) {
    if !W::IS_MARKED {
        words.iter_mut().for_each(|word| *word = Bucket::<W>::new(*word).marked().0);
    }
}

/// Calls `each`, in order, with the regions that one becomes by a number of doublings, in a filter that is marked or not.
pub(crate) fn each_descendant<W: Width, E>(
    region: &Words,
    doublings: u32,
    is_marked: bool,
    each: &mut dyn FnMut(&Words) -> Result<(), E>,
) -> Result<(), E> {
    if doublings == 0 && is_marked && !W::IS_MARKED {
        let mut marked = Box::new(*region);
        mark::<W>(&mut *marked);
        return each(&marked);
    }
    if doublings == 0 {
        return each(region);
    }
    let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
    split::<W>(region, &mut children);
    children.iter().try_for_each(|child| each_descendant::<W::Marked, E>(child, doublings - 1, true, each))
}

/// Corrects the counters of a doubled filter for what [`Counts::doubled`] does not count: digits and saturated groups of
/// void entries, which both children received; or, in an unmarked filter, fingerprints of 1, which lost a second bit.
#[inline(never)]
pub(crate) fn correct_counts<W: Width>(parent: &Words, [left, right]: &[Words; 2], counts: &mut Counts) {
    if !W::IS_MARKED {
        let of_one = |word: &u64| u64::from(Bucket::<W>::new(*word).lanes_of_one().count());
        let shorter: u64 = parent.iter().map(of_one).sum();
        let (from, to) = (W::TAIL_BITS as usize - 1, W::TAIL_BITS as usize - 2);
        counts.by_tail[from] = counts.by_tail[from].saturating_sub(shorter);
        counts.by_tail[to] = counts.by_tail[to].saturating_add(shorter);
        return;
    }
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let parent = Bucket::<W>::new(*word);
        let digits = parent.digit_lanes().count();
        if digits > 0 {
            let (left, right) = (Bucket::<W>::new(*left), Bucket::<W>::new(*right));
            let copied = (left.digit_lanes().count() + right.digit_lanes().count()).saturating_sub(digits);
            counts.digits = counts.digits.saturating_add(copied.into());
            counts.saturated += u64::from(left.is_saturated() && right.is_saturated());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::bucket::Slot;
    use crate::cuckoo::group::{Group, Groups};
    use crate::cuckoo::{SlotsPerBucket, with_width};

    /// Entries with and without a tail, with few copies, and with as many as a group counts.
    #[test]
    fn what_is_counted_as_copied_is_what_the_children_have_more_than_the_parent() {
        for slots in SlotsPerBucket::ALL {
            with_width!(slots, W => {
                let marker = 1 << W::TAIL_BITS;
                let mut parent = Box::new([0; BUCKETS_PER_REGION as usize]);
                let groups = [marker, marker >> 1, marker >> 1 | marker]
                    .into_iter()
                    .flat_map(|entry| [1, 2, W::MOST_COPIES - 1, W::MOST_COPIES].map(|copies| (entry, copies)));
                for (word, (entry, copies)) in parent.iter_mut().step_by(37).zip(groups) {
                    let group = Group { entry: Slot::<W>::new(entry), copies };
                    *word = Groups::none().and(group).pack().unwrap().0;
                }
                let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
                split::<W>(&parent, &mut children);
                let found = |words: &[u64]| {
                    let mut counts = Counts::default();
                    assert!(words.iter().all(|word| counts.tally(Bucket::<W>::new(*word))));
                    counts
                };
                let (before, after) = (found(&*parent), found(children.as_flattened()));
                assert!(before.digits > 0 && before.saturated == 3);
                let mut counts = Counts { digits: 1000, saturated: 10, ..Counts::default() };
                correct_counts::<W>(&parent, &children, &mut counts);
                assert_eq!(counts.digits - 1000, after.digits - before.digits, "{slots:?}");
                assert_eq!((counts.saturated - 10, after.saturated), (1, 4), "{slots:?}");
            });
        }
    }
}
