//! Filters that must be refused: good ones with one fault each. If a checksum would hide the fault, the file is sealed
//! again.

use gowk::Kind;

use crate::Outcome;
use crate::accepted::{Unclean, closed, counting, fresh_dir, insert, options};
use crate::filter::{Filter, IDLE, frames, payload_of, seal_frame, seal_journal, seal_slot};

/// The good files from which the rejected ones are made.
pub(crate) struct Base {
    /// A set: one region of four slots a bucket, 20 keys, some metadata; closed.
    plain: Filter,
    /// The same set, marked: it was doubled and halved.
    marked: Filter,
    /// A counting filter, otherwise like it.
    counting: Filter,
    /// Three commits in the journal, none applied.
    unclean: Filter,
    /// Three commits to a set in the journal, none applied.
    unclean_set: Filter,
    /// The same three commits to a filter, all applied.
    applied: Filter,
    /// The same filter after its writer closed it.
    closed: Filter,
    /// Another filter with a journal.
    other: Filter,
    /// A filter doubled once, with commits in the journal since.
    doubled: Filter,
    /// That filter before it doubled.
    undoubled: Filter,
    /// A filter that forgets; closed.
    pub(crate) forgetting: Filter,
}

impl Base {
    pub(crate) fn new() -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let plain = |name: &str, options: gowk::Options| -> Outcome<Filter> {
            let path = dir.path().join(name);
            let mut writer = options.open(&path)?;
            insert(&mut writer, 0..20)?;
            writer.metadata_mut()?.set("a", *b"1");
            writer.metadata_mut()?.set("b", *b"2");
            writer.commit()?;
            Ok(closed(writer, &path, "")?.filter)
        };
        let counting = plain("counting", counting(4))?;
        let plain = plain("plain", options(4))?;
        let path = dir.path().join("plain");
        let mut writer = options(4).open_existing(&path)?;
        writer.grow()?;
        writer.shrink()?;
        writer.commit()?;
        let marked = closed(writer, &path, "")?.filter;
        let unclean_dir = fresh_dir(dir.path(), "unclean")?;
        let unclean = Unclean::new(&unclean_dir, Kind::Counting)?;
        let unclean_set = Unclean::new(&fresh_dir(dir.path(), "set")?, Kind::Set)?.unapplied();
        let closed = Filter { journal: None, ..Filter::read(&unclean_dir.join("f"))? };
        let other = Unclean::new(&fresh_dir(dir.path(), "other")?, Kind::Counting)?.after[2].clone();
        let path = dir.path().join("doubled");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..20)?;
        writer.commit()?;
        let undoubled = Filter { journal: None, ..Filter::read(&path)? };
        writer.grow()?;
        writer.commit()?;
        insert(&mut writer, 20..30)?;
        writer.commit()?;
        let doubled = Filter::read(&path)?;
        drop(writer);
        let applied = unclean.after[2].clone();
        let unclean = unclean.unapplied();
        let forgetting = crate::forgetting::plain(dir.path())?;
        Ok(Self {
            plain,
            marked,
            counting,
            unclean,
            unclean_set,
            applied,
            closed,
            other,
            doubled,
            undoubled,
            forgetting,
        })
    }

    /// The plain file with both slots changed and sealed again.
    fn slots(&self, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = self.plain.clone();
        filter.superblocks(change);
        filter
    }

    /// The plain file with its newer slot changed and sealed again, or its older one.
    fn slot(&self, newer: bool, change: impl Fn(&mut [u8])) -> Filter {
        Self::slot_of(&self.plain, newer, change)
    }

    /// A file with its newer slot changed and sealed again, or its older one.
    pub(crate) fn slot_of(plain: &Filter, newer: bool, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = plain.clone();
        let a_is_newer = filter.data[40] > filter.data[65_536 + 40];
        let (a, b) = filter.data[..131_072].split_at_mut(65_536);
        let slot = if a_is_newer == newer { a } else { b };
        change(slot);
        seal_slot(slot);
        filter
    }

    /// The plain file with a number of 8 bytes in both slots changed.
    fn u64(&self, at: usize, value: u64) -> Filter {
        self.slots(|slot| slot[at..at + 8].copy_from_slice(&value.to_le_bytes()))
    }

    /// The plain file, all of whose sizes claim `regions` regions and agree with each other.
    fn regions(&self, regions: u64) -> Filter {
        let align = |value: u64, to: u64| value.div_ceil(to) * to;
        let sums = 131_072 + align(53_248 + 4 * regions, 4096);
        let data = align(sums + align(64 * regions, 4096), 65_536);
        self.slots(|slot| {
            for (at, value) in [(96, regions), (120, sums), (128, data), (136, data + 65_536 * regions)] {
                slot[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        })
    }

    /// The marked file with its first page changed and sealed again.
    fn page(&self, change: impl Fn(&mut [u8])) -> Filter {
        Self::page_of(&self.marked, change)
    }

    pub(crate) fn page_of(plain: &Filter, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = plain.clone();
        let start = filter.data.len() - 65_536;
        let (head, pages) = filter.data.split_at_mut(start);
        change(&mut pages[..4096]);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head[48..64]);
        crc.update(&head[104..108]);
        crc.update(&[0; 8]);
        crc.update(&pages[..4096]);
        head[188_416..188_420].copy_from_slice(&crc.finalize().to_le_bytes());
        filter
    }

    /// The unclean file with one frame of its journal changed, and the journal sealed again.
    fn frame(&self, number: usize, change: impl Fn(&mut [u8])) -> Filter {
        Self::frame_of(&self.unclean, number, change)
    }

    fn frame_of(unclean: &Filter, number: usize, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = unclean.clone();
        let journal = filter.journal_mut();
        let (start, _) = frames(journal)[number];
        change(&mut journal[start..]);
        seal_journal(journal);
        filter
    }
}

/// A field of both slots, sealed again: name, what is wrong, error, a part of its message; offset, size, value.
type Field = (&'static str, &'static str, &'static str, &'static str, usize, usize, u64);

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("incompatible-feature", "an unknown feature", "Features", "0x8000000000000001 needed for reading", 16, 8, 1 << 63 | 1),
    ("regions-2-60", "2^60 regions", "Field", "field `n0` is 1152921504606846976, not 1 to 4294967296", 96, 8, 1 << 60),
    ("regions-all", "as many regions as a number can say", "Field", "field `n0` is 18446744073709551615", 96, 8, u64::MAX),
    ("regions-0", "no region", "Field", "field `n0` is 0, not 1 to 4294967296", 96, 8, 0),
    ("regions-2", "twice the regions, nothing else", "Field", "field `file length` is 262144, not 327680", 96, 8, 2),
    ("generation-64", "64 doublings", "Field", "field `g` is 64, not 0 to 32", 104, 4, 64),
    ("generation-33", "33 doublings", "Field", "field `g` is 33, not 0 to 32", 104, 4, 33),
    ("generation-all", "2^32 - 1 doublings", "Field", "field `g` is 4294967295, not 0 to 32", 104, 4, u32::MAX as u64),
    ("shards-0", "no shard", "Field", "field `shards` is 0, not 1 to 4294967296", 176, 8, 0),
    ("shards-too-many", "more shards than have regions", "Field", "field `shards` is 4294967297, not 1 to 4294967296", 176, 8, (1 << 32) + 1),
    ("shard-1-of-1", "shard 1 of 1", "Field", "field `shard` is 1, not 0 to 0", 184, 8, 1),
    ("n-0", "no slots in a bucket", "Field", "field `n` is 0, not 2 to 7", 76, 4, 0),
    ("n-1", "one slot in a bucket", "Field", "field `n` is 1, not 2 to 7", 76, 4, 1),
    ("n-8", "eight slots in a bucket", "Field", "field `n` is 8, not 2 to 7", 76, 4, 8),
    ("n-255", "255 slots in a bucket", "Field", "field `n` is 255, not 2 to 7", 76, 4, 255),
    ("id-too-high", "an id that leaves no room for the next", "Field", "field `id` is 18446744073709551615, not 0 to 9223372036854775807", 40, 8, u64::MAX),
    ("commit-too-high", "a commit number that no filter reaches", "Field", "field `commit` is 9223372036854775808, not 0 to 9223372036854775807", 192, 8, 1 << 63),
    ("live-overlaps", "the live area over the second superblock", "Field", "field `live` is 65536, not 131072", 112, 8, 65_536),
    ("live-unaligned", "the live area not at a page", "Field", "field `live` is 131073, not 131072", 112, 8, 131_073),
    ("sums-overlap", "the checksums over the live area", "Field", "field `sums` is 131072, not 188416", 120, 8, 131_072),
    ("sums-past-end", "the checksums past the end", "Field", "field `sums` is 9223372036854775808, not", 120, 8, 1 << 63),
    ("sums-unaligned", "the checksums not at a page", "Field", "field `sums` is 188420, not 188416", 120, 8, 188_420),
    ("data-overlaps", "the regions over the checksums", "Field", "field `data` is 188416, not 196608", 128, 8, 188_416),
    ("data-past-end", "the regions past the end", "Field", "field `data` is 262144, not 196608", 128, 8, 262_144),
    ("data-unaligned", "the regions not at a region's size", "Field", "field `data` is 200704, not", 128, 8, 200_704),
    ("file-length", "another length than the regions make", "Field", "field `file length` is 327680, not", 136, 8, 327_680),
    ("file-length-all", "the longest length", "Field", "field `file length` is 18446744073709551615, not", 136, 8, u64::MAX),
    ("hash-id-2", "an unknown hash", "Field", "field `hash id` is 2, not 0 to 1", 72, 4, 2),
    ("canary", "another hash function's canary", "HashMismatch", "hash check value does not match", 80, 8, 1),
    ("seed", "a seed that is not the canary's", "HashMismatch", "hash check value", 64, 8, 77),
    ("growth-2", "an unknown policy", "Field", "field `growth` is 2, not 0 to 1", 108, 4, 2),
    ("entries-too-many", "more entries than slots", "Field", "field `entries` is 32788, not 0 to 32768", 248 + 80, 8, 32_788),
    ("tails-too-long", "entries with longer tails than slots have", "Field", "field `entries by tail length` is 1", 248 + 88, 8, 1),
    ("unmarked-tails", "an entry without a full tail in an unmarked filter", "Field", "field `entries by tail length` is 1", 248 + 72, 8, 1),
    ("unmarked-universal", "universal slots in an unmarked filter", "Field", "field `universal slots` is 4, not 0 in an unmarked filter", 224, 8, 4),
    ("unmarked-counting", "a counting filter that is unmarked", "Field", "field `incompatible` is 4, not the feature of unmarked filters", 12, 4, 1),
    ("universal-too-many", "more universal slots than slots", "Field", "field `entries` is 32788", 224, 8, 32_768),
    ("metadata-too-long", "too much metadata", "Field", "field `metadata length` is 49153, not 0 to 49152", 504, 4, 49_153),
    ("metadata-cut", "metadata cut in an entry", "Field", "field `metadata` is 10, not the end of", 504, 4, 19),
    ("digits-too-many", "more digits than slots", "Field", "field `entries` is 32788", 232, 8, 32_768),
    ("saturated-too-many", "a saturated group without digits", "Field", "field `saturated groups` is 1, not 0 to 0", 240, 8, 1),
    ("kind-2", "an unknown kind", "Field", "field `kind` is 2, not 0 to 1", 12, 4, 2),
    ("kind-all", "the highest kind that a number can say", "Field", "field `kind` is 4294967295, not 0 to 1", 12, 4, u32::MAX as u64),
    ("set-digits", "digits in the counts of a set", "Field", "field `digits` is 1, not 0 in a set", 232, 8, 1),
    ("set-removed", "copies removed from a set", "Field", "field `removed` is 1, not 0 in a set", 216, 8, 1),
];

pub(crate) type Reject =
    (&'static str, &'static str, &'static str, &'static str, &'static str, Box<dyn Fn(&Base) -> Filter>);

/// Name, what is wrong, who refuses it, the error's variant, a part of its message.
pub(crate) fn rejected() -> Vec<Reject> {
    let mut all: Vec<Reject> = Vec::new();
    let mut add = |name, what, refused, error, message, make: Box<dyn Fn(&Base) -> Filter>| {
        all.push((name, what, refused, error, message, make));
    };
    macro_rules! open {
        ($name:literal, $what:literal, $error:literal, $message:literal, $make:expr) => {
            add($name, $what, "open", $error, $message, Box::new($make))
        };
    }
    for &(name, what, error, message, at, size, value) in FIELDS {
        let change = move |slot: &mut [u8]| slot[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        add(name, what, "open", error, message, Box::new(move |b| b.slots(change)));
    }
    // Other files, and parts of gowk files.
    open!("nothing", "an empty file", "Empty", "not a gowk filter", |_| Filter {
        data: vec![],
        journal: None
    });
    open!("zeros", "a file of zeros", "NotGowk", "not a gowk filter", |b| Filter {
        data: vec![0; b.plain.data.len()],
        journal: None
    });
    open!("text", "some text", "NotGowk", "not a gowk filter", |_| Filter {
        data: b"gowk: a cuckoo, in Scots\n".repeat(10),
        journal: None
    });
    open!("magic-newline", "line ends converted on the way", "NotGowk", "not a gowk filter", |b| b
        .slots(|slot| { slot[5..8].copy_from_slice(b"\n\x1a\0") }));
    open!("magic-alone", "nothing but the magic number", "Length", "8 bytes long, and not 131072", |b| {
        Filter { data: b.plain.data[..8].to_vec(), journal: None }
    });
    open!("half-a-slot", "cut in the first superblock", "Length", "30000 bytes long, and not 131072", |b| {
        Filter { data: b.plain.data[..30_000].to_vec(), journal: None }
    });
    open!("one-slot", "cut after the first superblock", "Length", "65536 bytes long, and not 262144", |b| {
        Filter { data: b.plain.data[..65_536].to_vec(), journal: None }
    });
    open!("cut-page", "a page cut off", "Length", "258048 bytes long, and not 262144", |b| {
        Filter { data: b.plain.data[..258_048].to_vec(), journal: None }
    });
    open!("byte-too-long", "a byte too long", "Length", "262145 bytes long, and not 262144", |b| {
        Filter { data: [&b.plain.data[..], &[0]].concat(), journal: None }
    });
    // Versions and features.
    open!(
        "major-2",
        "major version 2, sealed as ours",
        "Version",
        "format version 2.3, but this build reads 1.x",
        |b| { b.slots(|slot| slot[8..12].copy_from_slice(&[2, 0, 3, 0])) }
    );
    open!("major-2-other-seal", "major version 2, sealed otherwise", "Version", "format version 2.0", |b| {
        let mut filter = b.slots(|slot| slot[8] = 2);
        filter.data[65_535] ^= 1;
        filter.data[131_071] ^= 1;
        filter
    });
    open!("major-0", "major version 0", "Version", "format version 0.9, but this build reads 1.x", |b| {
        b.slots(|slot| slot[8..12].copy_from_slice(&[0, 0, 9, 0]))
    });
    open!(
        "majors-differ",
        "two damaged slots, of different major versions",
        "Superblocks",
        "both superblocks",
        |b| {
            let mut filter = b.plain.clone();
            filter.data[8] = 2;
            filter.data[65_536 + 100] ^= 1;
            filter
        }
    );
    add(
        "read-only-feature",
        "an unknown feature that only readers may ignore",
        "write",
        "Features",
        "0x2 needed for writing",
        Box::new(|b| b.u64(24, 2)),
    );
    open!(
        "both-slots-damaged",
        "both superblocks damaged",
        "Superblocks",
        "both superblocks are damaged",
        |b| {
            let mut filter = b.plain.clone();
            filter.data[200] ^= 1;
            filter.data[65_536 + 200] ^= 1;
            filter
        }
    );
    // Sizes.
    open!("regions-2-32", "2^32 regions, all offsets fitting", "Length", "262144 bytes long, and not", |b| {
        b.regions(1 << 32)
    });
    open!(
        "regions-two-fitting",
        "two regions, all offsets fitting",
        "Length",
        "bytes long, and not 327680",
        |b| { b.regions(2) }
    );
    open!(
        "generation-too-high",
        "too many doublings of so many regions",
        "Field",
        "field `g` is 2, not 0 to 1",
        |b| {
            b.slots(|slot| {
                slot[96..104].copy_from_slice(&(1u64 << 31).to_le_bytes());
                slot[104] = 2;
            })
        }
    );
    open!("data-at-0", "the regions over everything", "Field", "field `data` is 0, not 196608", |b| b
        .u64(128, 0));
    open!(
        "unmarked-grown",
        "an unmarked filter that has doubled",
        "Field",
        "field `incompatible` is 4, not the feature of unmarked filters",
        |b| {
            let mut filter = b.doubled.clone();
            filter.superblocks(|slot| slot[16] = 4);
            filter
        }
    );
    // Two slots.
    open!("uuids-differ", "two uuids", "Field", "field `uuid` is", |b| b.slot(false, |slot| slot[50] ^= 1));
    open!("seeds-differ", "two seeds, each with its canary", "Field", "field `seed` is", |b| {
        b.slot(true, |slot| {
            slot[64..72].copy_from_slice(&99u64.to_le_bytes());
            let canary = xxhash_rust::xxh3::xxh3_128_with_seed(b"gowk", 99);
            slot[80..96].copy_from_slice(&canary.to_le_bytes());
        })
    });
    open!(
        "hash-ids-differ",
        "keys hashed by the filter and by the caller",
        "Field",
        "field `hash id` is",
        |b| {
            b.slot(true, |slot| {
                slot[72] = 0;
                slot[80..96].fill(0);
            })
        }
    );
    open!(
        "kinds-differ",
        "a set in one slot, a counting filter in the other",
        "Field",
        "field `kind` is",
        |b| { Base::slot_of(&b.marked, true, |slot| slot[12] = 1) }
    );
    open!("generations-differ", "two numbers of base regions, each fitting", "Field", "field `n0` is", |b| {
        let doubled = b.regions(2);
        let mut filter = b.slot(true, |_| {});
        let older = usize::from(filter.data[40] > filter.data[65_536 + 40]) * 65_536;
        filter.data[older..older + 65_536].copy_from_slice(&doubled.data[older..older + 65_536]);
        filter
    });
    open!("ids-equal", "two slots of one id", "Field", "field `id` is 5, not another in each", |b| b
        .u64(40, 5));
    open!("older-slot-hostile", "nonsense in the older slot", "Field", "field `n` is 9, not 2 to 7", |b| {
        b.slot(false, |slot| slot[76] = 9)
    });
    // Other fields.
    open!("canary-of-caller", "a canary where the caller hashes", "HashMismatch", "hash check value", |b| b
        .slots(|slot| slot[72] = 0));
    open!(
        "rate-above-1",
        "a rate above 1",
        "Field",
        "field `requested rate` is 4609434218613702656, not a number from 0 to 1",
        |b| b.u64(152, 1.5f64.to_bits())
    );
    open!(
        "rate-nan",
        "a rate that is no number",
        "Field",
        "field `requested rate` is 9221120237041090560, not a number from 0 to 1",
        |b| b.u64(152, f64::NAN.to_bits())
    );
    open!(
        "max-rate-negative",
        "a negative rate",
        "Field",
        "field `maximal rate` is 13826050856027422720, not a number from 0 to 1",
        |b| b.u64(160, (-0.5f64).to_bits())
    );
    open!(
        "entries-wrap",
        "entries whose sum wraps",
        "Field",
        "field `entries` is 18446744073709551615",
        |b| {
            let mut filter = b.marked.clone();
            filter.superblocks(|slot| slot[248..328].fill(0xff));
            filter
        }
    );
    open!(
        "metadata-unordered",
        "names out of order",
        "Field",
        "field `metadata` is 10, not the end of",
        |b| { b.slots(|slot| slot[4096 + 8] = b'c') }
    );
    open!("metadata-twice", "one name twice", "Field", "field `metadata` is 10", |b| b
        .slots(|slot| slot[4096 + 8] = b'b'));
    open!("metadata-not-text", "a name that is not UTF-8", "Field", "field `metadata` is 0", |b| {
        b.slots(|slot| slot[4096 + 8] = 0xff)
    });
    open!("metadata-zero", "bytes that are 0 in metadata", "Field", "field `metadata` is 0", |b| {
        b.slots(|slot| slot[4096 + 2] = 1)
    });
    for (name, what, at) in [
        ("reserved-0", "reserved byte 508", 508usize),
        ("reserved-1", "reserved byte 512", 512),
        ("reserved-1-end", "reserved byte 4095", 4095),
        ("reserved-metadata", "a byte behind the metadata", 4096 + 20),
        ("reserved-2", "reserved byte 65531", 65_531),
    ] {
        add(
            name,
            what,
            "open",
            "Field",
            "field `reserved` is 1, not 0",
            Box::new(move |b| b.slots(|slot| slot[at] = 1)),
        );
    }
    // Pages.
    add(
        "page-damaged",
        "a flipped bit in a page",
        "damaged",
        "Damaged",
        "page 5 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            let page = filter.data.len() - 65_536 + 5 * 4096;
            filter.data[page + 17] ^= 0x20;
            filter
        }),
    );
    add(
        "checksum-damaged",
        "a flipped bit in the checksum table",
        "damaged",
        "Damaged",
        "page 15 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            filter.data[188_416 + 60] ^= 1;
            filter
        }),
    );
    add(
        "page-misplaced",
        "two pages exchanged, with their checksums",
        "damaged",
        "Damaged",
        "page 0 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            let pages = filter.data.len() - 65_536;
            let (first, second) = filter.data[pages..].split_at_mut(4096);
            first.swap_with_slice(&mut second[..4096]);
            (188_416..188_420).for_each(|at| filter.data.swap(at, at + 4));
            filter
        }),
    );
    add(
        "slot-malformed",
        "a tag with nothing behind it",
        "malformed",
        "-",
        "-",
        Box::new(|b| b.page(|page| page[7] = 0x44)),
    );
    add(
        "quarantine-partial",
        "a universal slot beside others",
        "malformed",
        "-",
        "-",
        Box::new(|b| b.page(|page| page[8..16].copy_from_slice(&[0, 0x80, 0, 0, 0, 0, 0, 0]))),
    );
    for (name, what, word) in [
        ("digit-lowest", "a digit in the lowest lane", 0x0400_u64),
        ("digit-above-nothing", "a digit above an empty lane", 0x0400_0000_74f9),
        ("digit-malformed", "a digit with the highest bit set", 0x8400_74f9),
    ] {
        let change = move |page: &mut [u8]| page[8..16].copy_from_slice(&word.to_le_bytes());
        add(name, what, "malformed", "-", "-", Box::new(move |b| b.page(change)));
    }
    add(
        "digits-differ",
        "a digit that is not counted",
        "counts",
        "-",
        "-",
        Box::new(|b| {
            Base::page_of(&b.counting, |page| page[0..8].copy_from_slice(&0x0400_74f9_u64.to_le_bytes()))
        }),
    );
    add(
        "set-digit",
        "a digit in a bucket of a set",
        "malformed",
        "-",
        "-",
        Box::new(|b| b.page(|page| page[0..8].copy_from_slice(&0x0400_74f9_u64.to_le_bytes()))),
    );
    add(
        "counts-differ",
        "counts that differ from what is there",
        "counts",
        "-",
        "-",
        Box::new(|b| b.slots(|slot| slot[248 + 80] += 1)),
    );
    // Journals.
    macro_rules! journal {
        ($name:literal, $what:literal, $message:literal, $make:expr) => {
            add($name, $what, "open", "Journal", $message, Box::new($make))
        };
    }
    journal!(
        "journal-foreign",
        "the journal of another filter, with commits",
        "the journal of another filter",
        |b| { Filter { journal: b.other.journal.clone(), ..b.unclean.clone() } }
    );
    journal!(
        "journal-foreign-idle",
        "the same beside a file at rest",
        "the journal of another filter",
        |b| Filter { journal: b.other.journal.clone(), ..b.plain.clone() }
    );
    journal!(
        "journal-other-history",
        "commits behind a checkpoint that the file never had",
        "holds commits up to 5",
        |b| {
            let mut filter = b.closed.clone();
            let mut journal = b.unclean.journal.clone().unwrap_or_default();
            let base = 2u64;
            journal[40..48].copy_from_slice(&base.to_le_bytes());
            for (number, (start, _)) in (base + 1..).zip(frames(&journal)) {
                journal[start + 16..start + 24].copy_from_slice(&number.to_le_bytes());
            }
            seal_journal(&mut journal);
            filter.journal = Some(journal);
            filter
        }
    );
    journal!("journal-of-backup", "an older file restored beside its journal", "of another history", |b| {
        // The journal continues the checkpoint at which the file was closed; the file is from before that.
        let mut filter = b.unclean.clone();
        let closed_salt = b.closed.data[200..208].to_vec();
        let mut journal = b.unclean.journal.clone().unwrap_or_default();
        journal[32..40].copy_from_slice(&closed_salt);
        journal[40] = 4;
        for (number, (start, _)) in (5..).zip(frames(&journal)) {
            journal[start + 8..start + 16].copy_from_slice(&closed_salt);
            journal[start + 16] = number;
        }
        seal_journal(&mut journal);
        filter.journal = Some(journal);
        filter
    });
    journal!("journal-newer", "the journal of a later generation", "of another history", |b| Filter {
        journal: b.doubled.journal.clone(),
        ..b.undoubled.clone()
    });
    journal!("journal-major-2", "a journal of major version 2", "journal format version 2.5 is newer", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        journal[8..12].copy_from_slice(&[2, 0, 5, 0]);
        seal_journal(journal);
        filter
    });
    journal!(
        "journal-broken-first",
        "a flipped bit in the first of three commits",
        "commits 2 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone();
            filter.journal_mut()[512 + 100] ^= 1;
            filter
        }
    );
    journal!(
        "journal-broken-middle",
        "a flipped bit in the second of three commits",
        "commits 3 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone();
            let journal = filter.journal_mut();
            let (second, _) = frames(journal)[1];
            journal[second + 100] ^= 1;
            filter
        }
    );
    journal!("journal-broken-applied", "the same with all three applied", "commits 3 to 4 after it", |b| {
        let mut filter = b.applied.clone();
        let journal = filter.journal_mut();
        let (second, _) = frames(journal)[1];
        journal[second + 100] ^= 1;
        filter
    });
    journal!(
        "journal-broken-idle",
        "the same beside a file that says it is at rest",
        "commits 3 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone().with_state(IDLE);
            let journal = filter.journal_mut();
            let (second, _) = frames(journal)[1];
            journal[second + 100] ^= 1;
            filter
        }
    );
    journal!("journal-sector-lost", "a sector of the second commit zeroed", "commits 3 to 4 after it", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        let (second, _) = frames(journal)[1];
        journal[second..second + 512].fill(0);
        filter
    });
    journal!(
        "journal-headerless",
        "header and first commit damaged",
        "damaged at byte 512: commits 2 to 4",
        |b| {
            let mut filter = b.unclean.clone();
            filter.journal_mut()[0] ^= 1;
            filter.journal_mut()[512] ^= 1;
            filter
        }
    );
    for (name, what, at, value) in [
        ("frame-order", "a frame's order in its transaction", 24usize, 1u8),
        ("frame-flags", "an unknown flag", 28, 3),
        ("frame-not-commit", "a transaction that never ends", 28, 0),
        ("frame-records", "a record too many", 36, 0xff),
        ("frame-previous", "a frame that follows on another", 40, 0x5a),
        ("frame-reserved", "a reserved byte", 50, 1),
        ("frame-payload", "a longer payload than is there", 35, 0xff),
        ("frame-count", "a page without words", 64 + 12, 0),
        ("frame-index", "an index beyond the page", 64 + 17, 0xff),
    ] {
        let make = move |b: &Base| {
            let mut filter = b.unclean.clone();
            let journal = filter.journal_mut();
            let (start, _) = frames(journal)[1];
            let payload = payload_of(journal, start);
            // Another value if the field has this one already.
            journal[start + at] = if journal[start + at] == value { value ^ 0x11 } else { value };
            if payload_of(journal, start) == payload {
                seal_frame(journal, start);
            }
            filter
        };
        add(name, what, "open", "Journal", "commits 3 to 4 after it", Box::new(make));
    }
    journal!("commit-skipped", "a commit number left out", "commits 3 to 6 after it", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        for (start, _) in frames(journal).into_iter().skip(1) {
            journal[start + 16] += 2;
        }
        seal_journal(journal);
        filter
    });
    journal!("replay-page-beyond", "a page that the file has not", "commits 2 to 4 after it", |b| {
        b.frame(0, |frame| frame[64 + 4] = 1)
    });
    journal!("replay-counts", "counts that do not fit", "commits 4 to 4 after it", |b| {
        b.frame(2, |frame| {
            // The counts follow the records. This is the one of the longest tails.
            let payload = u32::from_le_bytes([frame[32], frame[33], frame[34], frame[35]]) as usize;
            frame[64 + payload - 8 - 8] = 1;
        })
    });
    journal!(
        "replay-set-digits",
        "digits in the counts of a commit to a set",
        "commits 4 to 4 after it",
        |b| {
            Base::frame_of(&b.unclean_set, 2, |frame| {
                let payload = u32::from_le_bytes([frame[32], frame[33], frame[34], frame[35]]) as usize;
                frame[64 + payload - 8 - 296 + 24] = 1;
            })
        }
    );
    journal!("replay-metadata", "metadata that is not well formed", "commits 3 to 4 after it", |b| {
        b.frame(1, |frame| {
            let payload = u32::from_le_bytes([frame[32], frame[33], frame[34], frame[35]]) as usize;
            frame[64 + payload - 24 + 2] = 1;
        })
    });
    all
}
