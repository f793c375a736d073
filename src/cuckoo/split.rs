//! Making two regions of one, as when a filter doubles.
//!
//! No I/O. The rules are those of `format-spec/README.md`, section 8.1: the first bit of an entry's tail says which of the
//! two regions it goes to, at the same bucket index. No entry moves to its other bucket, and no bucket can overflow.

use super::bucket::{BUCKETS_PER_REGION, Bucket};
use super::counts::Counts;
use super::widths::Width;

/// All buckets of a region.
type Words = [u64; BUCKETS_PER_REGION as usize];

/// Makes two regions of one.
pub(crate) fn split<W: Width>(parent: &Words, [left, right]: &mut [Words; 2]) {
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let (a, b) = Bucket::<W>::new(*word).split();
        (*left, *right) = (a.0, b.0);
    }
}

/// Calls `each`, in order, with the regions that one becomes by a number of doublings.
pub(crate) fn each_descendant<W: Width, E>(
    region: &Words,
    doublings: u32,
    each: &mut dyn FnMut(&Words) -> Result<(), E>,
) -> Result<(), E> {
    if doublings == 0 {
        return each(region);
    }
    let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
    split::<W>(region, &mut children);
    children.iter().try_for_each(|child| each_descendant::<W, E>(child, doublings - 1, each))
}

/// Adds to `counts` the digits and the saturated groups of void entries, which both children got.
pub(crate) fn count_copied<W: Width>(parent: &Words, [left, right]: &[Words; 2], counts: &mut Counts) {
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
