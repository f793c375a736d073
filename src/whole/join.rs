//! Joining shards into one filter, by putting their regions one after the other. No key is needed: S shards of R regions
//! hold exactly what one filter of S * R regions holds. `format-spec/README.md`, sections 3.5 and 8.6.

use std::fs::File;
use std::path::Path;

use crate::cuckoo::{
    Counts, Delta, HashKind, MAX_REGIONS, RegionId, Shard, each_descendant, forgetting, with_any_width,
};
use crate::error::{Difference, Error, GrowthRefusal, IoContext, Result};
use crate::file::{Flush, Region, UnpublishedFile};
use crate::format::{Geometry, Identity, Metadata, Policy};
use crate::options::Options;
use crate::read::{Reader, Snapshot};
use crate::system::{Files, Rights, new_uuid};
use crate::write::Writer;

impl Reader {
    /// Joins shards, passed in order, into one filter at `destination`, where no file may exist.
    ///
    /// Pass either all shards, for a filter that takes every key; or k of S shards from a multiple of k on, for shard
    /// `first / k` of `S / k`. The outcome answers for each key as its shard does, false positives included. The shards
    /// need the same kind, seed, hash and slots. The quotients of their numbers of regions must be powers of two; shards
    /// with fewer regions are doubled in the outcome. Each shard is read as of one commit of its own. The outcome has the
    /// metadata of all shards, which must not contradict each other. A forgetting filter advances to the time of the
    /// newest shard. Counters, capacities and size limits add up; the other limits come from the first shard.
    ///
    /// `progress` receives the number of regions written, and of all regions. Fails with [`Error::Unlike`], which names
    /// the difference, and as [`copy_to`](Self::copy_to) does.
    pub fn join_to(
        shards: &[Self],
        destination: impl AsRef<Path>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<()> {
        let (Some(first), destination) = (shards.first(), destination.as_ref()) else {
            return Err(Error::Option {
                option: "number of shards",
                found: "0".to_owned(),
                expected: "at least 1 to be joined",
            });
        };
        let mut writer = Self::each_at_one_commit(shards, "copied", |parts| {
            joined(parts, first.path(), destination, progress)
        })?;
        writer.commit()?;
        writer.close()
    }
}

/// The writer of the joined filter, which has no name yet.
fn joined(
    parts: &[Snapshot<'_>],
    first: &Path,
    destination: &Path,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Writer> {
    parts.iter().try_for_each(|part| part.identity().keeps_no_newest(part.reader().path(), "a join"))?;
    let (geometry, doublings) = joined_geometry(parts, first)?;
    let metadata = joined_metadata(parts)?;
    let (options, files) = (Options::new(), Files::new(destination)?);
    let model = File::open(first).and_then(|file| Rights::of(&file)).at(first, "look at")?;
    let model = Some(&model);
    let Some(like) = parts.first() else { return Err(Error::NotFound { path: first.to_owned() }) };
    let identity = Identity { uuid: new_uuid(destination)?, geometry, ..*like.identity() };
    let policy = joined_policy(parts, like.policy());
    let fill = |files: &Files| {
        // A forgetting filter advances to the time of its newest part, and drops expired entries of other parts.
        let epoch = parts.iter().map(|part| part.counts().epoch).max().unwrap_or(0);
        let (mut counts, mut forgotten) = (Counts { epoch, ..Counts::default() }, Delta::default());
        let disk = &options.disk;
        let file = UnpublishedFile::fill(files, disk, identity, model, Flush::Meanwhile, &mut |write| {
            let mut next = 0;
            parts.iter().zip(&doublings).try_for_each(|(part, doublings)| {
                let each = &mut |words: &Region| {
                    with_any_width!(geometry.width, W => counts.tally_all::<W>(words));
                    write(RegionId(next as u32), words)?;
                    next += 1;
                    progress(next, geometry.regions());
                    Ok(())
                };
                let of_part = part.counts().epoch;
                let of_this = part.identity().geometry;
                part.regions(0..of_this.regions(), &mut |_, words, _| {
                    with_any_width!(of_this.width, W => {
                        let swept = forgetting::brought::<W>(words, of_part..epoch, &mut forgotten);
                        let words = swept.as_deref().unwrap_or(words);
                        each_descendant::<W, _>(words, *doublings, geometry.width.is_marked, each)
                    })
                })
            })
        })?;
        for of_part in parts.iter().map(Snapshot::counts) {
            counts.inserted = counts.inserted.saturating_add(of_part.inserted);
            counts.removed = counts.removed.saturating_add(of_part.removed);
        }
        counts.removed = counts.removed.saturating_add(forgotten.removed_in_all());
        Ok((file, counts.in_a(identity.kind)))
    };
    Writer::create_filled(files, &options, policy, metadata, model, fill)
}

/// The shape of the joined filter, and how often each part must double to have as many regions as the others.
fn joined_geometry(parts: &[Snapshot<'_>], first: &Path) -> Result<(Geometry, Vec<u32>)> {
    let count = parts.len() as u64;
    let Some(Identity { kind, geometry, hasher, forgetting, .. }) =
        parts.first().map(|part| *part.identity())
    else {
        return Err(Error::NotFound { path: first.to_owned() });
    };
    let regions = parts.iter().map(|part| part.identity().geometry.regions()).max().unwrap_or(1);
    let generation = parts.iter().map(|part| part.identity().geometry.generation).max().unwrap_or(0);
    let mut all_doublings = Vec::with_capacity(parts.len());
    for (number, part) in (geometry.shard.number..).zip(parts) {
        let Identity { hasher: ours, geometry: found, kind: of_part, forgetting: retention, .. } =
            *part.identity();
        let difference = if of_part != kind {
            Some(Difference::Kind(of_part, kind))
        } else if ours.kind != hasher.kind {
            Some(Difference::Hash)
        } else if ours.seed != hasher.seed && ours.kind == HashKind::Xxh3 {
            Some(Difference::Seed)
        } else if found.slots() != geometry.slots() {
            Some(Difference::Slots(found.slots().get(), geometry.slots().get()))
        } else if retention != forgetting || found.width.shape != geometry.width.shape {
            Some(Difference::Retention)
        } else if found.shard.of != geometry.shard.of {
            Some(Difference::Shards(found.shard.of, geometry.shard.of))
        } else if found.shard.number != number {
            Some(Difference::Shard(found.shard.number, number))
        } else {
            let doublings = (regions / found.regions()).trailing_zeros();
            all_doublings.push(doublings);
            (found.regions() << doublings != regions).then_some(Difference::Regions(found.regions(), regions))
        };
        if let Some(difference) = difference {
            let path = part.reader().path().to_owned();
            return Err(Error::Unlike { path, other: first.to_owned(), difference });
        }
    }
    let Shard { of, number } = geometry.shard;
    if !of.is_multiple_of(count) || !number.is_multiple_of(count) {
        return Err(Error::Option {
            option: "number of shards",
            found: format!("{count} of {of}, from shard {number} on"),
            expected: "all of them, or a number that divides all, from a multiple of that number on",
        });
    }
    let shard = Shard { of: of / count, number: number / count };
    let too_many = || Error::Growth { path: first.to_owned(), reason: GrowthRefusal::Regions(MAX_REGIONS) };
    let all = regions * count;
    if all > shard.most_regions() {
        return Err(too_many());
    }
    // The highest generation of any part, but at most as often as the regions can be halved.
    let generation = generation.min(all.trailing_zeros());
    let joined =
        Geometry::new(geometry.width, all >> generation, generation, shard).map_err(|_| too_many())?;
    // Either all parts are marked, or none.
    let is_marked = |part: &Snapshot<'_>| part.identity().geometry.width.is_marked;
    let marks = parts.iter().any(is_marked) || all_doublings.iter().any(|doublings| *doublings > 0);
    Ok((joined.marked(marks), all_doublings))
}

/// The metadata of all parts. Fails if an entry has two different values.
fn joined_metadata(parts: &[Snapshot<'_>]) -> Result<Metadata> {
    let mut joined: Vec<(&str, &[u8], &Path)> = Vec::new();
    let mut metadata = Metadata::default();
    let rules = |part: &Snapshot<'_>| part.metadata().key_rules();
    for part in parts {
        let path = part.reader().path();
        if let Some(first) = parts.first().filter(|first| rules(first) != rules(part)) {
            let (path, other) = (path.to_owned(), first.reader().path().to_owned());
            return Err(Error::Unlike { path, other, difference: Difference::KeyRules });
        }
        for (name, value) in part.metadata().iter() {
            match joined.iter().find(|(found, ..)| *found == name) {
                Some((_, found, _)) if *found == value => {}
                Some((_, _, other)) => {
                    let (path, other) = (path.to_owned(), (*other).to_owned());
                    return Err(Error::Unlike {
                        path,
                        other,
                        difference: Difference::Metadata(name.to_owned()),
                    });
                }
                None => {
                    joined.push((name, value, path));
                    metadata.set(name, value);
                }
            }
        }
    }
    Ok(metadata)
}

/// The policy of the joined filter: capacities and size limits add up. If one part has no size limit, the joined filter
/// has none.
fn joined_policy(parts: &[Snapshot<'_>], first: Policy) -> Policy {
    let policies = || parts.iter().map(Snapshot::policy);
    let capacity = policies().fold(0, |sum, policy| policy.capacity.saturating_add(sum));
    let limits = policies().map(|policy| policy.max_file_size);
    let limit = if limits.clone().any(|limit| limit == 0) { 0 } else { limits.fold(0, u64::saturating_add) };
    Policy { capacity, max_file_size: limit, ..first }
}
