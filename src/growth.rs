//! Whether a filter may double, and why not.
//!
//! A filter doubles when an insert finds no room, growth is automatic, and all of these hold:
//!
//! * `(entries + 16 * digits + universal) / slots` is at least 0.8 rho: keys chosen to collide must not inflate a file;
//! * the new file is not longer than `max_file_size`, and the file system has room for it;
//! * the expected rate of the doubled filter, once full again, is at most `max_rate`, unless that is 0;
//! * at most half of the entries are void, unless the user allows more;
//! * there are at most 2^32 regions in all shards.

use crate::cuckoo::{Counts, MAX_REGIONS, RegionId};
use crate::error::GrowthRefusal;
use crate::format::{Geometry, Policy};

/// A filter doubles only at or above this part of rho ([`SlotsPerBucket::headroom`](crate::SlotsPerBucket)). If an insert
/// finds no room at a lower load, many keys share one pair of buckets, as hostile keys do, and doubling would not
/// separate them.
pub(crate) const GROWTH_THRESHOLD: f64 = 0.8;
/// A digit counts as this many slots in the load. Groups of several lanes move less easily than single entries, so a
/// region runs out of room at a lower load. With digits in an eighth of the used slots, the first refusal came at 0.34 to
/// 0.59 with two slots a bucket, 0.87 to 0.90 with three, and 0.93 or more with others (real URLs, 64 regions, 20 seeds).
/// If every key has copies, a filter doubles from a load of 0.09 on.
const DIGIT_WEIGHT: f64 = 16.0;
/// If more than this part of the entries is void, growth is refused unless the user allows it.
const MOST_VOID: f64 = 0.5;

/// Why a filter in this state must not double; `None` if it may double. `crowded` is the region without room, or `None`
/// if the user requested the doubling.
pub(crate) fn refusal(
    geometry: Geometry,
    policy: &Policy,
    counts: &Counts,
    crowded: Option<RegionId>,
    void_allowed: bool,
) -> Option<GrowthRefusal> {
    let slots = geometry.slots_in_all();
    let (used, digits) = (counts.used() as f64, counts.digits as f64);
    let load = used / slots as f64;
    let share_of_digits = if used > 0.0 { digits / used } else { 0.0 };
    let weight = (DIGIT_WEIGHT - 1.0).mul_add(share_of_digits, 1.0);
    let threshold = GROWTH_THRESHOLD * geometry.slots().headroom() / weight;
    if let Some(region) = crowded
        && load < threshold
    {
        return Some(GrowthRefusal::Crowded { region: region.0.into(), load, threshold });
    }
    let Some(doubled) = geometry.doubled() else { return Some(GrowthRefusal::Regions(MAX_REGIONS)) };
    let (needed, limit) = (doubled.file_length(), policy.max_file_size);
    if limit != 0 && needed > limit {
        return Some(GrowthRefusal::FileSize { needed, limit });
    }
    let full = counts.doubled_and_full(geometry.width, 2 * slots);
    let expected = full.expected_false_positive_rate(geometry.slots(), 2 * slots);
    if policy.max_rate != 0.0 && expected > policy.max_rate {
        return Some(GrowthRefusal::Rate { expected, limit: policy.max_rate });
    }
    let (void, entries) = (counts.void(), counts.entries());
    if !void_allowed && void as f64 > MOST_VOID * entries as f64 {
        return Some(GrowthRefusal::Void { void, entries });
    }
    None
}
