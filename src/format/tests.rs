//! Invariants checked:
//!
//! 1. Every offset, length and magic number in the tables of `format-spec/README.md` is the one in the code: changing
//!    one without the other fails here. The journal's tables are compared in `file/journal/tests.rs`, the decision
//!    table in `file/recover/tests.rs`.
//! 2. Encoding and decoding agree, field by field, at the offsets of the tables.
//! 3. Any single wrong reserved byte, unknown feature bit or damaged byte of a slot is noticed.

use std::path::Path;

use zerocopy::FromBytes;

use super::layout::{
    FORGETTING, KNOWN_FEATURES, MAGIC, MAX_NUMBER, METADATA_AT, SLOT_BYTES, SLOT_CRC_AT, UNMARKED,
};
use super::superblock::RawSuperblock;
use super::*;
use crate::cuckoo::forgetting::most_epochs;
use crate::cuckoo::{
    AnyWidth, BUCKETS_PER_REGION, Bucket, Counts, EpochClock, FIRST_EPOCH, Forgetting, Four, HashKind,
    KeyHash, KeyHasher, KeyRules, Kind, MAX_REGIONS, OFFSET_T6, OFFSET_T10, Place, RegionId, Shard, Slot,
    SlotsPerBucket, TAIL_LENGTHS, Width, with_any_width, with_width,
};
use crate::error::{Error, Expected, Result};
use crate::file::LiveCopy;
use crate::file::live::Live;
use crate::system::{Disk, SystemDisk};

const SPEC: &str = include_str!("../../format-spec/README.md");
/// Appendix A.
const EXAMPLES: &str = include_str!("../../format-spec/examples.txt");

/// The cells of table `nth` (from 0) of a section of the specification, without the table's head.
pub(crate) fn table(section: &str, nth: usize) -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let (mut here, mut inside) = (false, false);
    for line in SPEC.lines().chain(EXAMPLES.lines()) {
        if let Some(heading) = line.strip_prefix('#') {
            here = heading.trim_start_matches('#').split_whitespace().next() == Some(section);
        }
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        match cells.filter(|_| here) {
            Some(cells) if inside => {
                let row = cells.split(" | ").map(|cell| cell.trim().to_owned()).collect();
                tables.last_mut().unwrap().push(row);
            }
            // Skips the head of a table; the line of dashes below it does not begin and end in this way.
            Some(_) => tables.push(Vec::new()),
            None => {}
        }
        inside = here && line.starts_with('|');
    }
    assert!(tables.len() > nth, "section {section} has {} tables", tables.len());
    let rows = tables.swap_remove(nth);
    assert!(!rows.is_empty(), "an empty table in section {section}");
    rows
}

/// Whether the specification contains this sentence, wherever its lines break.
pub(crate) fn says(words: &str) -> bool {
    SPEC.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
}

/// A formula of the specification: numbers and names, `+`, `*` (or nothing, as in `4R`) and `align(x, a)`.
pub(crate) fn value(formula: &str, names: &[(&str, u64)]) -> u64 {
    let mut rest = formula;
    let value = sum(&mut rest, names);
    assert_eq!(rest.trim(), "", "in {formula}");
    value
}

fn sum(rest: &mut &str, names: &[(&str, u64)]) -> u64 {
    let mut sum = product(rest, names);
    while take(rest, "+") {
        sum += product(rest, names);
    }
    sum
}

fn product(rest: &mut &str, names: &[(&str, u64)]) -> u64 {
    let mut product = factor(rest, names);
    while take(rest, "*") || rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        product *= factor(rest, names);
    }
    product
}

fn factor(rest: &mut &str, names: &[(&str, u64)]) -> u64 {
    if take(rest, "align(") {
        let number = sum(rest, names);
        assert!(take(rest, ","), "align takes two numbers: {rest}");
        let to = sum(rest, names);
        assert!(take(rest, ")"), "align ends: {rest}");
        return number.next_multiple_of(to);
    }
    *rest = rest.trim_start();
    let end = |inside: fn(char) -> bool| rest.find(|c| !inside(c)).unwrap_or(rest.len());
    let (word, after) = match end(|c| c.is_ascii_digit()) {
        0 => rest.split_at(end(|c| c.is_ascii_alphabetic() || c == '_')),
        digits => rest.split_at(digits),
    };
    *rest = after;
    let named = names.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
    named.or_else(|| word.parse().ok()).unwrap_or_else(|| panic!("no number: {word}{after}"))
}

fn take(rest: &mut &str, word: &str) -> bool {
    let after = rest.trim_start().strip_prefix(word);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

/// One row of a table of offsets.
pub(crate) struct Part {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) field: String,
}

/// How many bytes the type has that begins a field's description, `u32` or `u16[count]`; `None` without a type.
fn size_of_type(meaning: &str, names: &[(&str, u64)]) -> Option<usize> {
    let word = meaning.split([' ', ',', ';', ':']).next()?;
    let bits = word.strip_prefix(['u', 'f'])?;
    let (bits, items) = match bits.strip_suffix(']').and_then(|array| array.split_once('[')) {
        Some((bits, items)) => (bits, value(items, names)),
        None => (bits, 1),
    };
    let bits: usize = bits.parse().ok()?;
    assert!(bits.is_multiple_of(8), "{meaning}");
    Some(bits / 8 * items as usize)
}

/// The rows of a table of offsets. They must follow each other without a gap.
pub(crate) fn parts(section: &str, nth: usize, names: &[(&str, u64)]) -> Vec<Part> {
    let (mut end, mut spare) = (0, Vec::new());
    let rows = table(section, nth).into_iter().map(|row| {
        let size = value(&row[1], names) as usize;
        let offset = if row[0] == "after" { end } else { value(&row[0], names) as usize };
        assert_eq!(offset, end, "a gap before {} in section {section}", row[2]);
        if let Some(bytes) = size_of_type(&row[3], names) {
            // A padded field is padded to a multiple of 8.
            assert!(size == bytes || size == bytes.next_multiple_of(8), "{} in section {section}", row[2]);
        }
        end += size;
        if let Some((kind @ ("reserved" | "unused"), number)) = row[2].split_once('_') {
            let before = spare.iter().filter(|one| **one == kind).count();
            assert_eq!(number, before.to_string(), "{kind} in section {section}");
            spare.push(kind.to_owned());
        }
        Part { offset, size, field: row[2].clone() }
    });
    rows.collect()
}

/// Compares bytes with a table of offsets. `expected` gives each field's bytes; the rest of a field must be 0.
pub(crate) fn assert_parts(bytes: &[u8], parts: &[Part], expected: impl Fn(&str) -> Vec<u8>) {
    for Part { offset, size, field } in parts {
        let mut expected = expected(field);
        assert!(expected.len() <= *size, "{field} has {size} bytes");
        expected.resize(*size, 0);
        assert_eq!(bytes[*offset..offset + size], expected, "{field}");
    }
    assert_eq!(parts.last().map(|last| last.offset + last.size), Some(bytes.len()));
}

/// Counters of which no two are equal, and which fit a filter of four slots a bucket.
pub(crate) fn counts() -> Counts {
    let mut counts = Counts {
        inserted: 0x0101_0203,
        removed: 0x0201_0203,
        universal: 12,
        digits: 0x0401,
        saturated: 0x0151,
        ..Counts::default()
    };
    for (tail, count) in (1..).zip(&mut counts.by_tail[..10]) {
        *count = tail;
    }
    counts
}

/// Encodes by the table of 5.2, independently of `RawCounts`.
pub(crate) fn counts_by_table(counts: &Counts) -> Vec<u8> {
    let rows = parts("5.2", 1, &[]);
    let mut bytes = vec![0; 296];
    for Part { offset, size, field } in rows {
        let value: Vec<u64> = match field.as_str() {
            "inserted" => vec![counts.inserted],
            "removed" => vec![counts.removed],
            "digits" => vec![counts.digits],
            "saturated" => vec![counts.saturated],
            "universal" => vec![counts.universal],
            "by_tail" => counts.by_tail.to_vec(),
            "epoch" => vec![counts.epoch],
            "swept" => vec![counts.swept],
            "zero" => vec![0; 7],
            other => panic!("the table has a new field: {other}"),
        };
        let value: Vec<u8> = value.into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(value.len(), size, "{field}");
        bytes[offset..offset + size].copy_from_slice(&value);
    }
    bytes
}

/// A superblock of which no two fields are equal.
pub(crate) fn superblock() -> Superblock {
    let mut metadata = Metadata::default();
    metadata.set("cursor", *b"\x01\x02\x03");
    Superblock {
        id: 0x4001,
        identity: Identity {
            uuid: *b"sixteen bytes...",
            kind: Kind::Counting,
            hasher: KeyHasher::new(HashKind::Xxh3, 0x4002),
            geometry: Geometry::new(SlotsPerBucket::Four, 3, 2, Shard { of: 7, number: 5 }).unwrap(),
            forgetting: None,
        },
        policy: Policy {
            growth: Growth::Auto,
            max_file_size: 0x4003,
            requested_rate: 0.25,
            max_rate: 0.125,
            capacity: 0x4004,
        },
        commit: 0x4005,
        salt: 0x4006,
        counts: counts(),
        metadata,
    }
}

/// A width of forgetting filters, marked.
fn four_3() -> AnyWidth {
    AnyWidth::forgetting(SlotsPerBucket::Four, 3).unwrap().marked()
}

/// The entry in lane 0 of a bucket of a filter that had R = 3 when it was stored, after this many doublings.
fn aged<W: Width>(stored: Bucket<W>, hash: KeyHash, doublings: u32) -> Bucket<W> {
    (1..=doublings).fold(stored, |stored, doubling: u32| {
        let right = hash.region(3 << doubling).0.0 % 2 == 1;
        let (a, b) = if doubling == 1 {
            let (left, right) = stored.split();
            (left.0, right.0)
        } else {
            let (left, right) = Bucket::<W::Marked>::new(stored.0).split();
            (left.0, right.0)
        };
        Bucket::new(if right { b } else { a })
    })
}

/// The width with markers, if the filter has doubled.
fn after(width: AnyWidth, doublings: u32) -> AnyWidth {
    if doublings > 0 { width.marked() } else { width }
}

/// Like `superblock`, of a forgetting filter.
fn forgetting_superblock() -> Superblock {
    let mut superblock = superblock();
    superblock.identity.kind = Kind::Forgetting;
    superblock.identity.geometry.width = four_3();
    let clock = EpochClock::Time;
    superblock.identity.forgetting =
        Some(Forgetting { after: 0x5_0000, epoch: 0x1_0001, refresh: true, clock });
    let Counts { inserted, removed, .. } = counts();
    superblock.counts =
        Counts { inserted, removed, epoch: 0x4007, swept: 11, ..Counts::new(Kind::Forgetting) };
    superblock
}

fn path() -> &'static Path {
    Path::new("f.gowk")
}

fn seal(slot: &mut [u8]) {
    let (body, crc) = slot.split_at_mut(SLOT_CRC_AT);
    crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

/// The slots of a file that begins with `head` and is of that length.
fn raw(head: Vec<u8>, length: u64) -> RawSuperblocks {
    RawSuperblocks::read(length, |into, offset| {
        let from = head.get(offset as usize..).unwrap_or_default();
        let from = from.get(..into.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    })
}

/// Checks a file with these slots and a valid length.
fn check(slots: [Vec<u8>; 2], length: u64) -> Result<Superblocks> {
    raw(slots.concat(), length).check(path())
}

/// Checks a file with the slot, changed and sealed; the other slot is empty.
fn check_changed(superblock: &Superblock, change: impl Fn(&mut [u8])) -> Result<Superblocks> {
    let mut slot = superblock.encode(path()).unwrap();
    change(&mut slot);
    seal(&mut slot);
    check([slot, vec![0; SLOT_BYTES]], superblock.identity.geometry.file_length())
}

fn field_of(outcome: Result<Superblocks>) -> String {
    match outcome {
        Err(Error::Field { field, .. }) => field.to_owned(),
        other => panic!("not refused for a field: {other:?}"),
    }
}

#[test]
fn the_constants_are_those_of_the_table() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let number = |number: u64| number.to_string();
    let hash_id = |kind| {
        let mut superblock = superblock();
        superblock.identity.hasher.kind = kind;
        let (raw, _) = RawSuperblock::read_from_prefix(&superblock.encode(path()).unwrap()).unwrap();
        number(raw.hash_id.get().into())
    };
    let growth = |growth| number(growth_id(growth).into());
    let ours = [
        ("page size", number(PAGE)),
        ("buckets per page", number(BUCKETS_PER_PAGE.into())),
        ("pages per region", number(PAGES_PER_REGION.into())),
        ("buckets per region", number(BUCKETS_PER_REGION.into())),
        ("region size", number(REGION)),
        ("max regions", number(MAX_REGIONS)),
        ("max id and commit", number(MAX_NUMBER)),
        ("superblock slot size", number(SUPERBLOCK)),
        ("metadata offset", number(METADATA_AT as u64)),
        ("metadata limit", number(METADATA_LIMIT as u64)),
        ("slot CRC offset", number(SLOT_CRC_AT as u64)),
        ("live offset", number(LIVE)),
        ("live now offset", number(LIVE_NOW)),
        ("live counters offset", number(LIVE_COUNTERS)),
        ("live metadata length offset", number(LIVE_METADATA_LENGTH)),
        ("live metadata offset", number(LIVE_METADATA)),
        ("live sequences offset", number(LIVE_SEQUENCES)),
        ("tail lengths", number(TAIL_LENGTHS as u64)),
        ("counts size", number(size_of::<RawCounts>() as u64)),
        ("journal header size", number(frame::HEADER)),
        ("journal header CRC offset", number(frame::HEADER_CRC_AT as u64)),
        ("frame alignment", number(frame::FRAME_ALIGN)),
        ("frame header size", number(frame::FRAME_HEADER as u64)),
        ("frame payload limit", number(frame::MAX_PAYLOAD as u64)),
        ("frame flag COMMIT", number(frame::COMMIT.into())),
        ("format major", number(VERSION.0.into())),
        ("format minor", number(VERSION.1.into())),
        ("hash id caller", hash_id(HashKind::Caller)),
        ("hash id XXH3-128", hash_id(HashKind::Xxh3)),
        ("kind set", number(kind_id(Kind::Set).into())),
        ("kind counting", number(kind_id(Kind::Counting).into())),
        ("kind forgetting", number(kind_id(Kind::Forgetting).into())),
        ("feature forgetting", number(FORGETTING)),
        ("feature unmarked", number(UNMARKED)),
        ("first epoch", number(FIRST_EPOCH)),
        (
            "max time",
            number(Forgetting { after: 1, epoch: 1, refresh: false, clock: EpochClock::Time }.last_epoch()),
        ),
        ("growth never", growth(Growth::Never)),
        ("growth auto", growth(Growth::Auto)),
        ("magic", hex(&MAGIC)),
        ("journal magic", hex(&frame::HEADER_MAGIC)),
        ("frame magic", hex(&frame::FRAME_MAGIC)),
        ("state idle", hex(&STATE_IDLE)),
        ("state in use", hex(&STATE_IN_USE)),
        ("canary key", hex(crate::cuckoo::CANARY_KEY)),
    ];
    let spec = table("2", 0);
    let spec: Vec<(&str, String)> = spec.iter().map(|row| (row[0].as_str(), row[1].clone())).collect();
    assert_eq!(spec, ours);
    assert_eq!(SLOT_BYTES as u64, SUPERBLOCK);
    assert!(says(&format!("# The gowk file format, version {}.{}", VERSION.0, VERSION.1)));
    assert_eq!(table("11", 0).last().unwrap()[0], format!("{}.{}", VERSION.0, VERSION.1));
}

#[test]
fn every_part_of_the_file_lies_where_the_table_says() {
    let rows = table("5.1", 0);
    let formula = |part: &str, column: usize| {
        let row = rows.iter().find(|row| row[0] == part).unwrap_or_else(|| panic!("no part {part}"));
        row[column].split_once(" = ").map_or(row[column].clone(), |(_, formula)| formula.to_owned())
    };
    for slots in SlotsPerBucket::ALL {
        for (base_regions, generation) in [
            (1, 0),
            (1, 1),
            (3, 0),
            (3, 2),
            (15, 0),
            (16, 0),
            (17, 0),
            (64, 0),
            (65, 0),
            (1000, 3),
            (1023, 0),
            (1024, 0),
            (1025, 0),
            (2816, 0),
            (2817, 0),
            (1_000_003, 0),
            (5, 12),
            (1, 32),
            (MAX_REGIONS, 0),
        ] {
            let geometry = Geometry::new(slots, base_regions, generation, Shard::WHOLE).unwrap();
            let regions = base_regions * (1 << generation);
            let sums = value(&formula("checksum table", 1), &[("R", regions)]);
            let names = [("R", regions), ("sums", sums)];
            let data = value(&formula("regions", 1), &names);
            assert_eq!((geometry.regions(), geometry.sums(), geometry.data()), (regions, sums, data));
            let live = value(&formula("live area", 1), &names);
            assert_eq!(live, LIVE);
            assert_eq!(live + value(&formula("live area", 2), &names), sums);
            assert_eq!(value(&formula("checksum table", 2), &names), 4 * geometry.pages());
            assert_eq!(value(&formula("padding", 1), &names), sums + 4 * geometry.pages());
            assert_eq!(data + value(&formula("regions", 2), &names), geometry.file_length());
            assert_eq!(geometry.slots_in_all(), 8192 * u64::from(slots.get()) * regions);
            let last = RegionId((regions - 1) as u32);
            assert_eq!(geometry.region_at(last) + REGION, geometry.file_length());
            let page = PageId::new(last, PAGES_PER_REGION - 1);
            assert_eq!((page.0 + 1, page.region(), page.in_region()), (geometry.pages(), last, 15));
            assert_eq!(geometry.doubled().is_some(), regions * 2 <= MAX_REGIONS);
        }
    }
    for (part, start) in [("superblock slot A", 0), ("superblock slot B", SUPERBLOCK)] {
        assert_eq!((value(&formula(part, 1), &[]), value(&formula(part, 2), &[])), (start, SUPERBLOCK));
    }
}

#[test]
fn a_superblock_is_encoded_as_the_table_says() {
    let superblock = superblock();
    let bytes = superblock.encode(path()).unwrap();
    let geometry = superblock.identity.geometry;
    let crc = crc32fast::hash(&bytes[..SLOT_CRC_AT]);
    let u64s = |number: u64| number.to_le_bytes().to_vec();
    let u32s = |number: u32| number.to_le_bytes().to_vec();
    assert_parts(&bytes, &parts("5.2", 0, &[]), |field| match field {
        "magic" => MAGIC.to_vec(),
        "major" => VERSION.0.to_le_bytes().to_vec(),
        "minor" => VERSION.1.to_le_bytes().to_vec(),
        "kind" => u32s(1),
        "id" => u64s(superblock.id),
        "uuid" => superblock.identity.uuid.to_vec(),
        "seed" => u64s(superblock.identity.hasher.seed),
        "hash_id" => u32s(1),
        "slots" => u32s(4),
        "canary" => superblock.identity.hasher.canary().to_le_bytes().to_vec(),
        "base_regions" => u64s(3),
        "generation" => u32s(2),
        "growth" => u32s(1),
        "live" => u64s(LIVE),
        "sums" => u64s(geometry.sums()),
        "data" => u64s(geometry.data()),
        "file_length" => u64s(geometry.file_length()),
        "max_file_size" => u64s(superblock.policy.max_file_size),
        "requested_rate" => superblock.policy.requested_rate.to_le_bytes().to_vec(),
        "max_rate" => superblock.policy.max_rate.to_le_bytes().to_vec(),
        "capacity" => u64s(superblock.policy.capacity),
        "shards" => u64s(7),
        "shard" => u64s(5),
        "commit" => u64s(superblock.commit),
        "salt" => u64s(superblock.salt),
        "counts" => counts_by_table(&superblock.counts),
        "metadata_length" => u32s(8 + 6 + 3),
        "metadata" => b"\x06\0\0\0\x03\0\0\0cursor\x01\x02\x03".to_vec(),
        "crc" => u32s(crc),
        "incompatible" | "read_only_compatible" | "compatible" => Vec::new(),
        "forget_after" | "epoch_length" | "expiry_bits" | "refresh" | "clock" => Vec::new(),
        reserved if reserved.starts_with("reserved_") => Vec::new(),
        other => panic!("the table has a new field: {other}"),
    });
    let found = check_changed(&superblock, |_| {}).unwrap();
    assert_eq!((found.newest, found.slot, found.other_damaged), (superblock, 0, true));
}

#[test]
fn the_fields_of_forgetting_are_encoded_as_the_table_says_and_belong_to_that_kind_alone() {
    let (forgetting, set) = (forgetting_superblock(), superblock());
    let found = check_changed(&forgetting, |_| {}).unwrap();
    assert_eq!(found.newest, forgetting);
    let bytes = forgetting.encode(path()).unwrap();
    let rows = parts("5.2", 0, &[]);
    let at = |field: &str| {
        let part = rows.iter().find(|part| part.field == field).unwrap();
        part.offset..part.offset + part.size
    };
    let number =
        |field: &str| bytes[at(field)].iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let fields = ["incompatible", "kind", "forget_after", "epoch_length", "expiry_bits", "refresh"];
    assert_eq!(fields.map(number), [2, 2, 0x5_0000, 0x1_0001, 3, 1]);
    assert_eq!(bytes[at("counts")], counts_by_table(&forgetting.counts));
    for field in fields {
        // A forgetting filter without the field.
        let lacks = check_changed(&forgetting, |slot| slot[at(field)].fill(0));
        assert_eq!(lacks.is_ok(), field == "refresh", "{field}: {lacks:?}");
        // Another kind of filter with the field.
        let has = check_changed(&set, |slot| slot[at(field)].copy_from_slice(&bytes[at(field)]));
        assert!(has.is_err(), "{field}");
    }
    for (field, value) in [
        ("expiry_bits", 4),
        ("refresh", 2),
        ("clock", 2),
        // Filters of the newest keys do not refresh.
        ("clock", 1),
        ("forget_after", 6 * 0x1_0001 + 1),
        ("epoch_length", 0x5_0000 / 6),
        ("epoch_length", (1 << 51) + 1),
        ("incompatible", 3),
    ] {
        let wrong = check_changed(&forgetting, |slot| {
            let at = at(field);
            let size = at.len();
            slot[at].copy_from_slice(&u64::to_le_bytes(value)[..size]);
        });
        assert!(wrong.is_err(), "{field} {value}");
    }
    let mut newest = forgetting.clone();
    let rule = newest.identity.forgetting.unwrap();
    newest.identity.forgetting = Some(Forgetting { refresh: false, clock: EpochClock::Keys, ..rule });
    assert_eq!(check_changed(&newest, |_| {}).unwrap().newest, newest);
    assert_eq!(newest.encode(path()).unwrap()[at("clock")], [1, 0, 0, 0]);
    let keys = &newest.encode(path()).unwrap()[at("clock")];
    assert!(check_changed(&set, |slot| slot[at("clock")].copy_from_slice(keys)).is_err());
    type Change = fn(&mut Counts);
    let changes: [(&str, Change); 5] = [
        ("epoch", |counts| counts.epoch = 0),
        ("epoch", |counts| counts.epoch = (1 << 53) / 0x1_0001 + 1),
        ("swept regions", |counts| counts.swept = 13),
        ("digits", |counts| counts.digits = 1),
        ("entries by tail length", |counts| counts.by_tail[7] = 1),
    ];
    for (field, change) in changes {
        let mut wrong = forgetting.clone();
        change(&mut wrong.counts);
        assert_eq!(field_of(check_changed(&wrong, |_| {})), field);
    }
    for (field, change) in [changes[2], ("epoch", |counts: &mut Counts| counts.epoch = 1)] {
        let mut wrong = set.clone();
        change(&mut wrong.counts);
        assert_eq!(field_of(check_changed(&wrong, |_| {})), field);
    }
}

#[test]
fn the_widths_of_forgetting_filters_are_those_of_the_table() {
    let rows = table("4.10", 0);
    assert_eq!(rows.len(), AnyWidth::FORGETTING.len());
    for (row, width) in rows.iter().zip(AnyWidth::FORGETTING) {
        let (a, most) = (width.expiry_bits(), most_epochs(width.expiry_bits()));
        let epoch = 8400 / Forgetting::epoch_for(8400, width);
        let found = [width.slots().get().into(), a.into(), most, width.fresh_tail_bits().into()];
        let found = found.map(|number: u64| number.to_string());
        assert_eq!((&row[..4], &row[5]), (&found[..], &format!("1/{epoch}")));
        let rate: f64 = row[4].parse().unwrap();
        assert!((rate / width.false_positive_rate() - 1.0).abs() < 0.005, "{row:?}");
    }
}

#[test]
fn the_worked_examples_of_forgetting_come_out() {
    let rows = table("A.3", 0);
    let hash = KeyHasher::new(HashKind::Xxh3, 1).hash(b"cuckoo").unwrap();
    for row in &rows {
        let width = AnyWidth::forgetting(slots_of(&row[0]), row[1].parse().unwrap()).unwrap();
        let generation: u32 = row[2].parse().unwrap();
        assert_eq!(row[3].parse(), Ok(3_u64 << generation));
        let stored = with_any_width!(width, W => {
            let place = Place::<W>::new(hash.local(), hash.region(3).1);
            aged(Bucket::<W>::new(0).with(0, place.at(3975).fingerprint), hash, generation).0
        });
        let found = with_any_width!(after(width, generation), W => {
            let place = Place::<W>::new(hash.local(), hash.region(3 << generation).1);
            let [live, expired] = [3974, 3975].map(|epoch| place.at(epoch).fingerprint);
            let stored = Bucket::<W>::new(stored);
            assert!(stored.matches(live).any() && !stored.matches(expired).any(), "{row:?}");
            [stored.slot(0).0, live.0, expired.0].map(u64::from)
        });
        assert_eq!([4, 5, 6].map(|column| hexadecimal(&row[column])), found, "{row:?}");
    }
    assert_eq!(rows.len(), 20);
    // The example of 4.10.
    const DAY: u64 = 86_400_000;
    let epoch = Forgetting::epoch_for(30 * DAY, four_3());
    let forgetting = Forgetting { after: 30 * DAY, epoch, refresh: false, clock: EpochClock::Time };
    assert!(says("so an epoch has 5 days") && epoch == 5 * DAY);
    assert!(says("in epoch 2, expires in epoch `ceil(43 / 5)` = 9") && forgetting.epoch_of(13 * DAY) == 2);
    assert_eq!((forgetting.expiry(13 * DAY), 9 % 8, 9 * epoch), (9, 1, 45 * DAY));
}

#[test]
fn metadata_is_encoded_as_the_table_says() {
    let bytes = superblock().metadata.encode(path()).unwrap();
    let names = [("name_length", 6), ("value_length", 3)];
    assert_parts(&bytes, &parts("5.3", 0, &names), |field| match field {
        "name_length" => vec![6],
        "zero" => vec![],
        "value_length" => vec![3],
        "name" => b"cursor".to_vec(),
        "value" => b"\x01\x02\x03".to_vec(),
        other => panic!("the table has a new field: {other}"),
    });
}

#[test]
fn the_live_area_is_written_as_the_table_says() {
    let geometry = superblock().identity.geometry;
    let regions = geometry.regions();
    let rows = parts("5.4", 0, &[("R", regions)]);
    let at = |field: &str| rows.iter().find(|row| row.field == field).unwrap().offset as u64;
    assert_eq!(
        [at("state"), at("superseded"), at("poisoned"), at("epoch"), at("copy"), at("now")],
        [LIVE_STATE, LIVE_FLAGS, LIVE_FLAGS + 4, LIVE_EPOCH, LIVE_COPY, LIVE_NOW]
    );
    assert_eq!([at("commit"), at("counts")], [LIVE_COUNTERS, LIVE_COUNTERS + 8]);
    assert_eq!([at("metadata_length"), at("metadata")], [LIVE_METADATA_LENGTH, LIVE_METADATA]);
    assert_eq!(at("sequences"), LIVE_SEQUENCES);
    assert_eq!(rows.last().unwrap().size as u64, 4 * regions);

    let file = tempfile::tempfile().unwrap();
    SystemDisk.allocate(&file, geometry.file_length()).unwrap();
    let live = Live::map(&file, path(), geometry).unwrap();
    let metadata = superblock().metadata.encode(path()).unwrap();
    let counts = || Counts { epoch: 3970, ..counts() };
    let copy = LiveCopy { commit: 0x5001, counts: counts(), metadata: metadata.clone() };
    live.set_superseded(&file, true).unwrap();
    live.apply([RegionId(2)], &copy, |_| Ok(())).unwrap();
    // The writer died in the middle of the region.
    live.apply([RegionId(11)], &copy, |_| Err(Error::Poisoned { path: path().into() })).unwrap_err();
    let read = || {
        let mut bytes = vec![0; geometry.file_length() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        bytes[LIVE as usize..LIVE as usize + rows.last().unwrap().offset + 4 * regions as usize].to_vec()
    };
    let expected = |field: &str, epoch: u8, superseded: bool, poisoned: bool| match field {
        "superseded" => {
            if superseded {
                u32::MAX.to_le_bytes().to_vec()
            } else {
                vec![]
            }
        }
        "poisoned" => {
            if poisoned {
                u32::MAX.to_le_bytes().to_vec()
            } else {
                vec![]
            }
        }
        "epoch" => vec![epoch],
        "copy" => vec![2],
        "now" => 0xFFFF_F07D_0000_0F82_u64.to_le_bytes().to_vec(),
        "commit" => vec![0x01, 0x50],
        "counts" => counts_by_table(&counts()),
        "metadata_length" => vec![metadata.len() as u8],
        "metadata" => metadata.clone(),
        "sequences" => (0..regions)
            .flat_map(|k| {
                [[0; 4], [2, 0, 0, 0], [1, 0, 0, 0]][match k {
                    2 => 1,
                    11 => 2,
                    _ => 0,
                }]
            })
            .collect(),
        // The state is written by an ordinary write, elsewhere.
        "state" => vec![],
        unused if unused.starts_with("unused_") => vec![],
        other => panic!("the table has a new field: {other}"),
    };
    assert_parts(&read(), &rows, |field| expected(field, 5, true, false));
    live.set_poisoned(&file).unwrap();
    assert_parts(&read(), &rows, |field| expected(field, 7, true, true));
    live.set_superseded(&file, false).unwrap();
    assert_parts(&read(), &rows, |field| expected(field, 9, false, true));
}

/// A lookup by the sequence of a region judges expiry by the epoch that it loads after that sequence. The epoch must not
/// be older than the region.
#[test]
fn the_epoch_of_a_forgetting_filter_is_stored_before_any_region_is_applied_or_redone() {
    let geometry = superblock().identity.geometry;
    let file = tempfile::tempfile().unwrap();
    SystemDisk.allocate(&file, geometry.file_length()).unwrap();
    let live = Live::map(&file, path(), geometry).unwrap();
    let now = || {
        let mut word = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut word, LIVE + LIVE_NOW).unwrap();
        u64::from(u32::from_le_bytes(word))
    };
    let copy =
        |epoch| LiveCopy { commit: epoch, counts: Counts { epoch, ..Counts::default() }, metadata: vec![] };
    let mut regions = 0;
    live.apply([RegionId(2), RegionId(3)], &copy(7), |_| {
        regions += 1;
        assert_eq!(now(), 7);
        Ok(())
    })
    .unwrap();
    live.recover(geometry.regions(), &copy(9), || {
        regions += 1;
        assert_eq!(now(), 9);
        Ok(())
    })
    .unwrap();
    assert_eq!(regions, 3);
}

#[test]
fn a_page_is_sealed_over_what_the_table_lists() {
    let identity = superblock().identity;
    let page = std::array::from_fn(|i| 0x0102_0304_0506_0708u64.wrapping_mul(i as u64));
    let id = PageId(0x1_0000_0023);
    let content: [Vec<u8>; 4] = [
        identity.uuid.to_vec(),
        identity.geometry.generation.to_le_bytes().to_vec(),
        id.0.to_le_bytes().to_vec(),
        page.iter().flat_map(|word: &u64| word.to_le_bytes()).collect(),
    ];
    let sizes: Vec<String> = content.iter().map(|part| part.len().to_string()).collect();
    let rows = table("5.5", 0);
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), sizes);
    assert_eq!((rows[1][1].as_str(), rows[2][1].as_str()), ("g, u32", "p, u64"));
    assert_eq!(Sealer::new(&identity).crc(id, &page), crc32fast::hash(&content.concat()));
    // The CRC of ISO-HDLC, by its known check value.
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
}

#[test]
fn widths_and_capacities_are_those_of_the_table() {
    let ours = SlotsPerBucket::ALL.into_iter().rev().map(|slots| {
        let regions = slots.regions_for(50_000_000).unwrap();
        let length = Geometry::new(slots, regions, 0, Shard::WHOLE).unwrap().file_length();
        let (bits, index_bits) = with_width!(slots, W => (W::BITS, W::INDEX_BITS));
        assert_eq!(1 << index_bits, BUCKETS_PER_REGION);
        [
            slots.get().to_string(),
            bits.to_string(),
            slots.tag_bits().to_string(),
            AnyWidth::of_new(slots, Kind::Set).fresh_tail_bits().to_string(),
            format!("{:.2e}", slots.false_positive_rate()),
            slots.headroom().to_string(),
            regions.to_string(),
            format!("{:.2}", length as f64 / 50e6),
        ]
    });
    let spec = table("3.3", 0).into_iter().map(|mut row| {
        // The table has three significant digits, with or without an exponent.
        row[4] = format!("{:.2e}", row[4].parse::<f64>().unwrap());
        row
    });
    assert_eq!(spec.collect::<Vec<_>>(), ours.collect::<Vec<_>>());
}

/// The numbers of the code are those in the tables.
#[test]
fn the_numbers_in_descriptions_are_those_of_the_code() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let (least, most) = (SlotsPerBucket::Two.get(), SlotsPerBucket::Seven.get());
    let head = frame::FRAME_CRC_AT;
    // The policy of a filter created without options, and the bounds of a rate.
    let none = 0;
    let rate = |rate: f64| {
        check_changed(&superblock(), |slot| slot[160..168].copy_from_slice(&rate.to_le_bytes())).is_ok()
    };
    let (zero, one) = (0, 1);
    assert!(rate(zero.into()) && rate(one.into()) && !rate(1.0 + f64::EPSILON) && !rate(-f64::MIN_POSITIVE));
    let descriptions = [
        ("5.2", 0, "magic", format!("`{}`", hex(&MAGIC))),
        ("5.2", 0, "major", format!("u16, {}", VERSION.0)),
        ("5.2", 0, "minor", format!("u16, {}", VERSION.1)),
        ("5.2", 0, "slots", format!("u32, n: slots per bucket, {least} to {most}")),
        ("5.2", 0, "base_regions", "u64, n0: regions at creation".to_owned()),
        ("5.2", 0, "live", format!("u64, {LIVE}")),
        ("5.2", 0, "max_file_size", format!("; {none} for no limit")),
        ("5.2", 0, "requested_rate", format!("f64, {zero} to {one}:")),
        ("5.2", 0, "requested_rate", format!("; {none} if n was given instead")),
        ("5.2", 0, "max_rate", format!("f64, {zero} to {one}:")),
        ("5.2", 0, "max_rate", format!("; {none} for no limit")),
        ("5.2", 0, "metadata_length", format!("u32, at most {METADATA_LIMIT}")),
        ("5.2", 0, "crc", format!("u32, CRC-32 of the bytes 0 to {} of the slot", SLOT_CRC_AT - 1)),
        ("5.2", 1, "by_tail", "; 0 beyond the fresh tail".to_owned()),
        ("5.3", 0, "zero", "0".to_owned()),
        ("5.4", 0, "superseded", "u32, not 0:".to_owned()),
        ("5.4", 0, "poisoned", "u32, not 0:".to_owned()),
        ("5.4", 0, "metadata_length", format!("u64, at most {METADATA_LIMIT}")),
        ("6.2", 0, "magic", format!("`{}` in ASCII", frame::HEADER_MAGIC.escape_ascii())),
        ("6.2", 0, "major", format!("u16, {}", VERSION.0)),
        ("6.2", 0, "minor", format!("u16, {}", VERSION.1)),
        ("6.2", 0, "crc", format!("u32, CRC-32 of the bytes 0 to {}", frame::HEADER_CRC_AT - 1)),
        ("6.3", 0, "magic", format!("`{}` in ASCII", frame::FRAME_MAGIC.escape_ascii())),
        ("6.3", 0, "order", "u32: 0, 1, 2, ... within the transaction".to_owned()),
        ("6.3", 0, "reserved", "0".to_owned()),
        ("6.3", 0, "flags", format!("u32: {} for COMMIT, else 0", frame::COMMIT)),
        ("6.3", 0, "payload", format!("a multiple of 8, at most {}", frame::MAX_PAYLOAD)),
        ("6.3", 0, "crc", format!("u32, CRC-32 of the bytes 0 to {} and of the payload", head - 1)),
        ("6.3", 2, "has_metadata", "u32: 1 if metadata follows, else 0: unchanged".to_owned()),
        ("6.3", 2, "metadata_length", "u32; 0 if has_metadata is 0".to_owned()),
        ("6.3", 1, "count", format!("u32, changed buckets: 1 to {BUCKETS_PER_PAGE}")),
        ("6.3", 1, "indices", format!("below {BUCKETS_PER_PAGE}, padded")),
        ("6.3", 1, "indices", format!("left out if count is {BUCKETS_PER_PAGE}")),
    ];
    for (section, nth, field, expected) in descriptions {
        let rows = table(section, nth);
        let row = rows.iter().find(|row| row[2] == field).unwrap();
        // The match must end where the cell or the number ends.
        let (_, rest) =
            row[3].split_once(&expected).unwrap_or_else(|| panic!("{section}, {field}: {}", row[3]));
        assert!(!rest.starts_with(|c: char| c.is_ascii_alphanumeric()), "{section}, {field}: {}", row[3]);
    }
    let growth = ["never doubles", "doubles when full"].into_iter().zip([Growth::Never, Growth::Auto]);
    let growth: Vec<String> =
        growth.map(|(words, growth)| format!("{} {words}", growth_id(growth))).collect();
    assert!(says(&format!("| growth | u32: {} |", growth.join(", "))));
    let kinds = ["a set", "a counting filter", "a forgetting filter"].into_iter().zip(Kind::ALL);
    let kinds: Vec<String> = kinds.map(|(words, kind)| format!("{} {words}", kind_id(kind))).collect();
    assert!(says(&format!("| kind | u32: {} (4.4) |", kinds.join(", "))));
    assert!(says(&format!("| bucket | one {}-bit number that holds n slots |", u64::BITS)));
    let empty = 0;
    assert!(with_width!(SlotsPerBucket::Four, W => Slot::<W>::new(empty).is_empty()));
    assert!(says(&format!("| slot | W bits that hold one fingerprint, or a digit, or {empty} |")));
    assert!(says(&format!("| page | {PAGE} bytes, {BUCKETS_PER_PAGE} buckets: ")));
    assert!(says(&format!(
        "| region | {REGION} bytes, {PAGES_PER_REGION} pages, {BUCKETS_PER_REGION} buckets: "
    )));
}

fn kind_id(kind: Kind) -> u32 {
    let mut superblock = superblock();
    superblock.identity.kind = kind;
    RawSuperblock::read_from_prefix(&superblock.encode(path()).unwrap()).unwrap().0.kind.get()
}

fn growth_id(growth: Growth) -> u32 {
    let mut superblock = superblock();
    superblock.policy.growth = growth;
    RawSuperblock::read_from_prefix(&superblock.encode(path()).unwrap()).unwrap().0.growth.get()
}

/// Evaluates `W - T - 1` and similar formulas.
fn difference(formula: &str, names: &[(&str, u32)]) -> u32 {
    let term = |word: &str| {
        let named = names.iter().find(|(name, _)| *name == word.trim()).map(|(_, number)| *number);
        named.unwrap_or_else(|| word.trim().parse().unwrap())
    };
    let mut terms = formula.split('-').map(term);
    let first = terms.next().unwrap();
    terms.fold(first, |rest, term| rest - term)
}

#[test]
fn slots_are_called_as_the_table_says() {
    let rows = table("4.1", 0);
    let [empty, fresh, shorter, void, universal, digit, malformed] = &rows[..] else { panic!("{rows:?}") };
    let within = |cell: &str, before: &str, after: &str| {
        cell.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).unwrap().to_owned()
    };
    for slots in SlotsPerBucket::ALL {
        with_width!(slots, W => {
            let (bits, tag_bits) = (W::BITS, W::TAG_BITS);
            let number = |formula: &str| difference(formula, &[("W", bits), ("T", tag_bits)]);
            // All bits from this one on, so that the slot is never universal.
            let ending_at = |bit: u32| Slot::<W>::new((u32::MAX >> (32 - bits)) >> bit << bit);
            assert!(Slot::<W>::new(number(&empty[0])).is_empty());
            let bit = number(&within(&fresh[0], "lowest set bit is bit ", ""));
            assert_eq!(Slot::<W>::fresh(u64::MAX, 0).0.trailing_zeros(), bit);
            let tail = number(&within(&fresh[1], "fresh: a tail of ", " bits"));
            assert_eq!((ending_at(bit).tail_length(), slots.fresh_tail_bits()), (Some(tail), tail));
            let last = number(&within(&shorter[0], "lowest set bit is bit b, b <= ", ""));
            let above = within(&malformed[0], "any other whose lowest set bit is above bit ", "");
            assert_eq!(number(&above), last);
            for bit in 0..bits {
                let tail = within(&shorter[1], "a tail of ", " bits");
                let tail = (bit <= last).then(|| {
                    difference(&tail, &[("W", bits), ("T", tag_bits), ("b", bit)])
                });
                assert_eq!(ending_at(bit).tail_length(), tail);
            }
            let bit = number(&within(&void[0], "lowest set bit is bit ", ""));
            assert_eq!(ending_at(bit).tail_length(), Some(0));
            let bit = number(&within(&universal[0], "exactly 2^(", ")"));
            assert!(Slot::<W>::new(1 << bit).is_universal());
            let shift = number(&within(&digit[0], "d * 2^(", "), d from 1 to D"));
            let highest = (1..1 << tag_bits).take_while(|d| Slot::<W>::new(d << shift).digit() == Some(*d)).last();
            assert_eq!(highest, Some(W::HIGHEST_DIGIT));
            assert!(says("`D = 2^(T-1) - 1` is the highest digit: 31 for T = 6, 511 for T = 10."));
            assert_eq!(W::HIGHEST_DIGIT, if tag_bits == 6 { 31 } else { 511 });
        });
    }
}

#[test]
fn slots_are_split_as_the_table_says() {
    let rows = table("8.1", 0);
    for slots in SlotsPerBucket::ALL {
        with_width!(slots, W => {
            for row in &rows {
                let (tail, tag) = (W::TAIL_BITS, 1 << (W::BITS - 1));
                let parent = match (row[0].as_str(), row[0].strip_prefix("first tail bit ")) {
                    (_, Some(bit)) => tag | bit.parse::<u32>().unwrap() << tail | 1 << (tail - 1),
                    ("empty", _) => 0,
                    ("void", _) => tag | 1 << tail,
                    ("universal", _) => Slot::<W>::UNIVERSAL.0,
                    ("digit", _) => {
                        check_split_digits::<W>(&row[1], &row[2]);
                        continue;
                    }
                    other => panic!("the table has a new row: {other:?}"),
                };
                let (left, right) = Bucket::<W>::new(0).with(0, Slot::new(parent)).split();
                for (child, says) in [(left, &row[1]), (right, &row[2])] {
                    let expected = match says.as_str() {
                        "empty" => 0,
                        "the same" => parent,
                        "the same tag, the tail without that bit" => tag | 1 << tail,
                        other => panic!("the table says something new: {other}"),
                    };
                    assert_eq!(child.slot(0).0, expected, "n = {slots:?}, {row:?}");
                }
            }
        });
    }
}

fn check_split_digits<W: Width<Marked = W>>(left: &str, right: &str) {
    assert_eq!([left, right], ["as the slot below it"; 2]);
    let digit = Slot::new(1 << (W::BITS - W::TAG_BITS));
    let tail = 1 << W::TAIL_BITS;
    for (entry, sides) in [(tail >> 1, [true, false]), (tail | 1, [false, true]), (tail, [true, true])] {
        let (left, right) = Bucket::<W>::new(0).with(0, Slot::new(entry)).with(1, digit).split();
        assert_eq!([left, right].map(|child| child.slot(1) == digit), sides);
        assert_eq!([left, right].map(|child| child.slot(0).is_empty()), sides.map(|kept| !kept));
    }
}

/// The number of keys in a pair of buckets is nearly Poisson-distributed: each offset makes 4096 pairs.
fn chance_of_a_crowded_pair(slots: SlotsPerBucket) -> f64 {
    let offsets = if slots.tag_bits() == 6 { &OFFSET_T6[..] } else { &OFFSET_T10 };
    let mut tags = std::collections::HashMap::new();
    offsets.iter().for_each(|offset| *tags.entry(*offset).or_insert(0u32) += 1);
    let regions = slots.regions_for(50_000_000).unwrap() as f64;
    let of_region = |tags: u32| {
        let mean = 50e6 / regions / 4096.0 * f64::from(tags) / offsets.len() as f64;
        let (mut term, mut more) = ((-mean).exp(), 0.0);
        for keys in 1..40 {
            term *= mean / f64::from(keys);
            more += if keys > 2 * slots.get() { term } else { 0.0 };
        }
        4096.0 * more
    };
    tags.into_values().map(of_region).sum::<f64>() * regions
}

#[test]
fn the_chance_of_an_early_overflow_is_the_one_that_is_told() {
    let [two, three, four, five, six, seven] = SlotsPerBucket::ALL.map(chance_of_a_crowded_pair);
    assert!([three, five, six, seven].into_iter().all(|chance| chance < 1e-6));
    let told = format!(
        "the chance of that is {two:.0e} for n = 2, {four:.0e} for n = 4, and below 1e-6 for the others"
    );
    assert!(says(&told), "{told}");
    let documentation = include_str!("../cuckoo/sizing.rs").split_whitespace().filter(|word| *word != "///");
    assert!(documentation.collect::<Vec<_>>().join(" ").contains(&told), "{told}");
}

#[test]
fn the_offset_tables_are_those_of_the_specification() {
    let t6 = include_str!("../../format-spec/offset-t6.txt");
    let t10 = include_str!("../../format-spec/offset-t10.txt");
    let asked = table("3.2", 0);
    // Buckets in a line and in a page.
    let (line, page) = (8u16, BUCKETS_PER_PAGE as u16);
    for (column, text, ours) in [(1, t6, &OFFSET_T6[..]), (2, t10, &OFFSET_T10)] {
        let theirs: Vec<u16> = text.split_whitespace().map(|v| u16::from_str_radix(v, 16).unwrap()).collect();
        assert_eq!(theirs, ours);
        let near: Vec<u16> = ours.iter().copied().filter(|value| (line..page).contains(value)).collect();
        let different: std::collections::HashSet<u16> = near.iter().copied().collect();
        let mut reached = std::collections::HashSet::from([0]);
        for value in ours {
            reached.extend(reached.clone().into_iter().map(|page| page ^ value >> 9));
        }
        let found = [
            ours.iter().filter(|value| **value == 0).count(),
            ours.iter().filter(|value| **value < line).count(),
            near.len(),
            different.len(),
            ours.iter().filter(|value| **value >= page).count(),
            reached.len(),
        ];
        let labels = [
            "values that are 0 (an entry would have one bucket)".to_owned(),
            format!("values below {line} (both buckets in one line of {} bytes)", 8 * line),
            format!("values from {line} to {} (both buckets in one page)", page - 1),
            "different values among those".to_owned(),
            format!("values from {page} on (the other bucket in another page)"),
            "pages of a region that are reached from any other".to_owned(),
        ];
        assert_eq!(asked.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), labels);
        assert!(ours.iter().all(|value| *value < 1 << 13));
        let wanted: Vec<String> = asked.iter().map(|row| row[column].clone()).collect();
        assert_eq!(found.map(|count| count.to_string()).to_vec(), wanted);
    }
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

fn slots_of(cell: &str) -> SlotsPerBucket {
    SlotsPerBucket::new(cell.parse().unwrap()).unwrap()
}

#[test]
fn the_worked_examples_of_placing_a_key_come_out() {
    let rows = table("A.1", 0);
    for row in &rows {
        let seed = hexadecimal(&row[1]);
        let key: Vec<u8> = if row[2] == "-" { "" } else { &row[2] }
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let hash = KeyHasher::new(HashKind::Xxh3, seed).hash(&key).unwrap();
        let (region, rem) = hash.region(row[3].parse().unwrap());
        let width = AnyWidth::of_new(slots_of(&row[0]), Kind::Set);
        let found = with_any_width!(width, W => {
            let place = Place::<W>::new(hash.local(), rem);
            assert_eq!(place.fingerprint.marked(), Slot::fresh(hash.local(), rem));
            let word = Bucket::<W>::new(0).with(0, place.fingerprint).0;
            [
                hash.position(), hash.local(), region.0.into(), rem, place.first.0.into(),
                place.fingerprint.tag().into(), place.second().0.into(), place.fingerprint.0.into(), word,
            ]
        });
        let number =
            |cell: &String| if cell.starts_with("0x") { hexadecimal(cell) } else { cell.parse().unwrap() };
        assert_eq!(row[4..].iter().map(number).collect::<Vec<_>>(), found, "{row:?}");
    }
    assert_eq!(rows.len(), 42);
    // One of them stands in section 3.4.
    let row = rows.iter().find(|row| row[0] == "4" && row[2] == "6375636b6f6f" && row[3] == "3").unwrap();
    let names = ["pos", "loc", "region", "rem", "i1", "tag", "i2", "slot"];
    let told: Vec<String> =
        names.iter().zip(&row[4..]).map(|(name, cell)| format!("{name} = {cell}")).collect();
    assert!(says(&told.join(" ")), "{told:?}");
    let (tail, tag) = (hexadecimal(&row[7]) >> 54, &row[9]);
    assert!(says(&format!("`rem >> 54` is `{tail:#x}`, so the slot is `{tag} * 2^10 + {tail:#x}`")));
}

#[test]
fn the_worked_examples_of_doubling_come_out() {
    let rows = table("A.2", 0);
    let hash = KeyHasher::new(HashKind::Xxh3, 1).hash(b"cuckoo").unwrap();
    for row in &rows {
        let regions: u64 = row[2].parse().unwrap();
        let generation: u32 = row[1].parse().unwrap();
        assert_eq!(regions, 3 << generation);
        let width = AnyWidth::of_new(slots_of(&row[0]), Kind::Set);
        let stored = with_any_width!(width, W => {
            let place = Place::<W>::new(hash.local(), hash.region(3).1);
            aged(Bucket::<W>::new(0).with(0, place.fingerprint), hash, generation).0
        });
        let found = with_any_width!(after(width, generation), W => {
            let (region, rem) = hash.region(regions);
            let fresh = Place::<W>::new(hash.local(), rem).fingerprint;
            let stored = Bucket::<W>::new(stored);
            assert!(stored.matches(fresh).any(), "{row:?}");
            let stored = stored.slot(0);
            [region.0.into(), stored.tail_length().unwrap().into(), u64::from(stored.0), fresh.0.into()]
        });
        let spec =
            [row[3].parse().unwrap(), row[4].parse().unwrap(), hexadecimal(&row[5]), hexadecimal(&row[6])];
        assert_eq!(spec, found, "{row:?}");
    }
    assert_eq!(rows.len(), 30);
}

#[test]
fn every_reserved_byte_is_refused_unless_the_minor_version_is_newer() {
    let superblock = superblock();
    let length = superblock.identity.geometry.file_length();
    let metadata = METADATA_AT + superblock.metadata.encoded_length();
    let mut reserved: Vec<usize> = (metadata..METADATA_AT + METADATA_LIMIT).collect();
    for Part { offset, size, field } in parts("5.2", 0, &[]) {
        if field.starts_with("reserved_") {
            reserved.extend(offset..offset + size);
        }
    }
    let mut slot = superblock.encode(path()).unwrap();
    let empty = vec![0; SLOT_BYTES];
    // All reserved bytes of the head, and a sample of the long empty stretches.
    for at in reserved.into_iter().filter(|at| *at < 1024 || at % 61 == 0 || at % 4096 > 4090) {
        slot[at] = 0x80;
        seal(&mut slot);
        let refused = check([slot.clone(), empty.clone()], length);
        assert!(matches!(refused, Err(Error::Field { field: "reserved", found: 0x80, .. })), "byte {at}");
        slot[10] = 1;
        seal(&mut slot);
        assert_eq!(check([slot.clone(), empty.clone()], length).unwrap().newest, superblock, "byte {at}");
        (slot[at], slot[10]) = (0, 0);
    }
}

#[test]
fn an_unknown_feature_means_what_its_mask_says() {
    assert!(says(
        "Format 1.0 defines two feature bits of `incompatible`. Bit 1: the filter forgets (4.10). Bit 2:"
    ));
    assert_eq!(KNOWN_FEATURES, 1 << 1 | 1 << 2);
    let masks: Vec<Part> = parts("5.2", 0, &[]);
    let at = |mask: &str| masks.iter().find(|part| part.field == mask).unwrap().offset;
    let rows = table("2.1", 0);
    assert_eq!(
        rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
        ["incompatible", "read_only_compatible", "compatible"]
    );
    for bit in 0..64 {
        let set = |mask: &str| {
            let at = at(mask);
            check_changed(&superblock(), |slot| {
                slot[at..at + 8].copy_from_slice(&(1u64 << bit).to_le_bytes())
            })
        };
        let refused = set("incompatible");
        if 1 << bit & KNOWN_FEATURES != 0 {
            // A marked counting filter has neither feature.
            assert_eq!(field_of(refused), "incompatible");
        } else {
            assert!(
                matches!(refused, Err(Error::Features { bits, access: "reading", .. }) if bits == 1 << bit)
            );
        }
        assert_eq!(set("read_only_compatible").unwrap().read_only_features, 1 << bit);
        assert_eq!(set("compatible").unwrap().read_only_features, 0);
    }
}

#[test]
fn a_slot_with_any_bit_flipped_is_not_believed() {
    let superblock = superblock();
    let length = superblock.identity.geometry.file_length();
    let mut slot = superblock.encode(path()).unwrap();
    let newer = Superblock { id: superblock.id + 1, ..superblock.clone() };
    for bit in (0..8 * 1024)
        .chain((8 * 1024..8 * SLOT_BYTES).step_by(1009))
        .chain(8 * SLOT_BYTES - 64..8 * SLOT_BYTES)
    {
        slot[bit / 8] ^= 1 << (bit % 8);
        let both = check([newer.encode(path()).unwrap(), slot.clone()], length).unwrap();
        assert_eq!((&both.newest, both.other_damaged), (&newer, true), "bit {bit}");
        assert!(check([slot.clone(), slot.clone()], length).is_err(), "bit {bit}");
        slot[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_filter_doubles_up_to_the_last_region_there_may_be() {
    let doubled = |base_regions, generation| {
        Geometry::new(SlotsPerBucket::Four, base_regions, generation, Shard::WHOLE)
            .unwrap()
            .doubled()
            .map(Geometry::regions)
    };
    assert_eq!(doubled(1, 31), Some(MAX_REGIONS));
    assert_eq!(doubled(MAX_REGIONS / 2, 0), Some(MAX_REGIONS));
    assert_eq!(doubled(MAX_REGIONS / 2 + 1, 0), None);
    assert_eq!(doubled(1, 32), None);
}

#[test]
fn what_follows_the_slots_does_not_matter_to_them() {
    let superblock = superblock();
    let slot = superblock.encode(path()).unwrap();
    let older = Superblock { id: superblock.id - 1, ..superblock.clone() }.encode(path()).unwrap();
    let head = [slot, older, vec![7; SLOT_BYTES]].concat();
    let found = raw(head, superblock.identity.geometry.file_length()).check(path()).unwrap();
    assert_eq!((found.newest, found.other_damaged), (superblock, false));
}

#[test]
fn a_slot_that_cannot_be_read_is_a_damaged_one() {
    let superblock = superblock();
    let older = Superblock { id: superblock.id - 1, ..superblock.clone() };
    let slots = [&superblock, &older].map(|slot| slot.encode(path()).unwrap());
    let length = superblock.identity.geometry.file_length();
    let check = |unreadable: &[u64]| {
        RawSuperblocks::read(length, |into, offset| {
            if unreadable.contains(&offset) {
                return Err(std::io::Error::from_raw_os_error(5));
            }
            into.copy_from_slice(&slots[(offset / SUPERBLOCK) as usize]);
            Ok(())
        })
        .check(path())
    };
    for (unreadable, expected) in [(SUPERBLOCK, &superblock), (0, &older)] {
        let found = check(&[unreadable]).unwrap();
        assert_eq!((&found.newest, found.other_damaged), (expected, true));
    }
    let error = check(&[0, SUPERBLOCK]).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(5)), "{error}");
}

#[test]
fn two_damaged_slots_are_told_from_a_file_that_was_cut_in_them() {
    let damaged = || [MAGIC.to_vec(), vec![0; SLOT_BYTES - MAGIC.len()]].concat();
    let refused = |length: u64| {
        let mut head = [damaged(), damaged()].concat();
        head.truncate(length as usize);
        raw(head, length).check(path()).unwrap_err()
    };
    assert!(matches!(refused(2 * SUPERBLOCK), Error::Superblocks { .. }));
    for length in [2 * SUPERBLOCK - 1, SUPERBLOCK - 1, 4096] {
        let error = refused(length);
        let told = error.to_string();
        assert!(
            matches!(error, Error::Length { expected: Expected::AtLeast(least), .. } if least == 2 * SUPERBLOCK)
        );
        // The original length is unknown.
        assert!(told.contains(&format!("{length} bytes long, and not 131072 or more")), "{told}");
    }
}

/// A later version may compute its checksums in another way. Damage may look like a later version, but not equally in
/// both slots.
#[test]
fn slots_without_a_right_checksum_are_of_a_later_version_if_all_of_them_say_so() {
    let refused = |majors: [Option<u16>; 2]| {
        let slots = majors.map(|major| {
            let mut slot = vec![0; SLOT_BYTES];
            if let Some(major) = major {
                slot[..8].copy_from_slice(&MAGIC);
                slot[8..10].copy_from_slice(&major.to_le_bytes());
            }
            slot
        });
        check(slots, 2 * SUPERBLOCK).unwrap_err()
    };
    let (this, later) = (VERSION.0, VERSION.0 + 1);
    for majors in [[Some(later); 2], [Some(later), None], [None, Some(later)]] {
        let error = refused(majors);
        assert!(matches!(error, Error::Version { found, .. } if found == (later, 0)), "{majors:?}: {error}");
    }
    for majors in [[Some(this); 2], [Some(later), Some(this)], [Some(later), Some(later + 1)]] {
        let error = refused(majors);
        assert!(matches!(error, Error::Superblocks { .. }), "{majors:?}: {error}");
    }
}

/// The numbers of a superblock up to their bounds, and one above.
#[test]
fn ids_commits_metadata_and_counts_are_taken_up_to_their_bounds() {
    type Change = fn(&mut Superblock);
    let bounds: [(&str, Change, Change); 4] = [
        ("id", |most| most.id = MAX_NUMBER, |beyond| beyond.id = MAX_NUMBER + 1),
        ("commit", |most| most.commit = MAX_NUMBER, |beyond| beyond.commit = MAX_NUMBER + 1),
        ("entries", fill, |beyond| {
            fill(beyond);
            beyond.counts.by_tail[3] += 1;
        }),
        (
            "saturated groups",
            |most| most.counts.saturated = most.counts.digits / 3,
            |beyond| beyond.counts.saturated = beyond.counts.digits / 3 + 1,
        ),
    ];
    for (name, most, beyond) in bounds {
        let mut changed = superblock();
        most(&mut changed);
        assert_eq!(check_changed(&changed, |_| {}).unwrap().newest, changed);
        beyond(&mut changed);
        assert_eq!(field_of(check_changed(&changed, |_| {})), name);
    }
    let mut longest = superblock();
    longest.metadata.set("more", []);
    longest.metadata.set("more", vec![7; METADATA_LIMIT - longest.metadata.encoded_length()]);
    assert_eq!(longest.metadata.encoded_length(), METADATA_LIMIT);
    assert_eq!(check_changed(&longest, |_| {}).unwrap().newest, longest);
    let longer = (METADATA_LIMIT as u32 + 1).to_le_bytes();
    let refused = check_changed(&longest, |slot| slot[504..508].copy_from_slice(&longer));
    assert_eq!(field_of(refused), "metadata length");
}

/// Gives the superblock as many entries as the filter has slots.
fn fill(superblock: &mut Superblock) {
    superblock.counts.by_tail[3] += superblock.identity.geometry.slots_in_all() - superblock.counts.used();
}

#[test]
fn counters_that_have_no_meaning_are_0() {
    let counters = parts("5.2", 0, &[]).into_iter().find(|part| part.field == "counts").unwrap().offset;
    let zero = parts("5.2", 1, &[]).into_iter().find(|part| part.field == "zero").unwrap();
    let last = counters + zero.offset + zero.size - 8;
    for words in [vec![counters + zero.offset], vec![last], vec![last - 8, last]] {
        let refused = check_changed(&superblock(), |slot| words.iter().for_each(|at| slot[*at] = 1));
        assert_eq!(field_of(refused), "entries by tail length", "{words:?}");
    }
}

#[test]
fn the_newest_slot_counts_and_the_other_must_agree() {
    let superblock = superblock();
    let length = superblock.identity.geometry.file_length();
    let bytes = |superblock: &Superblock| superblock.encode(path()).unwrap();
    let next = Superblock { id: superblock.id + 1, commit: superblock.commit + 1, ..superblock.clone() };
    for (slots, slot) in [([&superblock, &next], 1), ([&next, &superblock], 0)] {
        let found = check(slots.map(bytes), length).unwrap();
        assert_eq!((found.newest, found.slot, found.other_damaged), (next.clone(), slot, false));
    }
    type Change = fn(&mut Superblock);
    let others: [(&str, Change); 10] = [
        ("uuid", |other| other.identity.uuid[15] ^= 1),
        ("seed", |other| other.identity.hasher = KeyHasher::new(HashKind::Xxh3, 1)),
        ("hash id", |other| other.identity.hasher.kind = HashKind::Caller),
        ("kind", |other| {
            other.identity.kind = Kind::Set;
            (other.counts.removed, other.counts.digits, other.counts.saturated) = (0, 0, 0);
        }),
        ("n", |other| other.identity.geometry.width = SlotsPerBucket::Three.into()),
        ("n0", |other| other.identity.geometry.base_regions = 4),
        ("g", |other| other.identity.geometry.generation = 1),
        ("shards", |other| other.identity.geometry.shard.of = 8),
        ("shard", |other| other.identity.geometry.shard.number = 6),
        ("id", |other| other.id += 1),
    ];
    for (name, change) in others {
        let mut other = superblock.clone();
        change(&mut other);
        assert_eq!(field_of(check([&other, &next].map(bytes), length)), name);
        assert_eq!(field_of(check([&next, &other].map(bytes), length)), name);
    }
}

#[test]
fn the_slots_of_a_forgetting_filter_agree_in_its_rule_and_other_filters_have_none() {
    let base = forgetting_superblock();
    let rule = Forgetting { after: 0x1_0000, refresh: false, ..base.identity.forgetting.unwrap() };
    let with = |id, width, rule| {
        let mut slot = Superblock { id, ..base.clone() };
        (slot.identity.geometry.width, slot.identity.forgetting) = (width, Some(rule));
        slot
    };
    let newest = with(2, four_3(), rule);
    let check = |other: &Superblock| {
        let slots = [&newest, other].map(|slot| slot.encode(path()).unwrap());
        check(slots, newest.identity.geometry.file_length())
    };
    assert_eq!(check(&with(1, four_3(), rule)).unwrap().newest, newest);
    for (name, other) in [
        ("incompatible", with(1, AnyWidth { is_marked: false, ..four_3() }, rule)),
        ("expiry bits", with(1, AnyWidth::forgetting(SlotsPerBucket::Four, 2).unwrap().marked(), rule)),
        ("forget after", with(1, four_3(), Forgetting { after: rule.after - 1, ..rule })),
        ("epoch length", with(1, four_3(), Forgetting { epoch: rule.epoch + 1, ..rule })),
        ("refresh", with(1, four_3(), Forgetting { refresh: true, ..rule })),
        ("clock", with(1, four_3(), Forgetting { clock: EpochClock::Keys, ..rule })),
    ] {
        assert_eq!(field_of(check(&other)), name);
    }
}

/// A later minor version may use these bytes, and need not use them equally in both slots.
#[test]
fn the_fields_of_forgetting_do_not_matter_to_other_filters_of_a_later_minor_version() {
    let newest = superblock();
    let older = Superblock { id: newest.id - 1, ..newest.clone() };
    let rows = parts("5.2", 0, &[]);
    let at = |field: &str| rows.iter().find(|part| part.field == field).unwrap().offset;
    let length = newest.identity.geometry.file_length();
    for field in ["forget_after", "epoch_length", "expiry_bits", "refresh", "clock"] {
        let [mut changed, mut other] = [&newest, &older].map(|slot| slot.encode(path()).unwrap());
        changed[at(field)] = 3;
        for slot in [&mut changed, &mut other] {
            slot[10] = 1;
            seal(slot);
        }
        assert_eq!(check([changed, other], length).unwrap().newest, newest, "{field}");
    }
}

#[test]
fn a_kind_that_is_not_known_is_refused_and_a_set_holds_no_copies() {
    let with = |kind: u32, change: &dyn Fn(&mut Counts)| {
        let mut superblock = superblock();
        change(&mut superblock.counts);
        check_changed(&superblock, |slot| slot[12..16].copy_from_slice(&kind.to_le_bytes()))
    };
    let no_copies = |counts: &mut Counts| (counts.removed, counts.digits, counts.saturated) = (0, 0, 0);
    assert_eq!(with(0, &no_copies).unwrap().newest.identity.kind, Kind::Set);
    assert_eq!(with(1, &|_| {}).unwrap().newest.identity.kind, Kind::Counting);
    assert_eq!(with(1, &no_copies).unwrap().newest.identity.kind, Kind::Counting);
    // 2 needs the feature of forgetting filters.
    for kind in [2, 3, 256, 1 << 31, u32::MAX] {
        assert_eq!(field_of(with(kind, &no_copies)), "kind");
    }
    assert_eq!(field_of(with(0, &|counts| (counts.removed, counts.saturated) = (0, 0))), "digits");
    assert_eq!(field_of(with(0, &|counts| (counts.digits, counts.saturated) = (0, 0))), "removed");
    assert!(says("in a set, `removed`, `digits` and `saturated` are 0"));
}

/// All shards together have at most as many regions as the format allows, at opening and when a filter doubles.
#[test]
fn a_shard_is_one_of_those_there_are_and_all_of_them_fit() {
    let superblock = superblock();
    let regions = superblock.identity.geometry.regions();
    let with = |shards: u64, shard: u64| {
        check_changed(&superblock, |slot| {
            slot[176..184].copy_from_slice(&shards.to_le_bytes());
            slot[184..192].copy_from_slice(&shard.to_le_bytes());
        })
    };
    let most = MAX_REGIONS / regions;
    for (shards, shard) in [(1, 0), (7, 6), (most, most - 1)] {
        let found = with(shards, shard).unwrap().newest.identity.geometry;
        assert_eq!(found.shard, Shard { of: shards, number: shard });
        assert_eq!(found.doubled().is_some(), 2 * shards * regions <= MAX_REGIONS);
    }
    for (shards, shard, name) in [
        (0, 0, "shards"),
        (most + 1, 0, "shards"),
        (u64::MAX, 0, "shards"),
        (1, 1, "shard"),
        (7, 7, "shard"),
        (7, u64::MAX, "shard"),
    ] {
        assert_eq!(field_of(with(shards, shard)), name);
    }
    assert!(says(&format!("`S * R <= {MAX_REGIONS}`.")));
}

#[test]
fn fifty_million_keys_take_the_bytes_that_the_table_promises() {
    let bytes_a_key = [5.01, 2.97, 2.16, 1.70, 1.40, 1.20];
    for (slots, expected) in SlotsPerBucket::ALL.into_iter().zip(bytes_a_key) {
        let regions = slots.regions_for(50_000_000).unwrap_or(0);
        let bytes = Geometry::new(slots, regions, 0, Shard::WHOLE).unwrap().file_length();
        let actual = bytes as f64 / 50e6;
        assert!((actual / expected - 1.0).abs() < 0.005, "{slots:?}: {actual}");
    }
}

#[test]
fn what_is_removed_from_metadata_is_returned_once() {
    let mut metadata = Metadata::default();
    metadata.set("a", [7, 8]);
    metadata.set("b", []);
    assert_eq!(metadata.remove("a"), Some(vec![7, 8]));
    assert_eq!(metadata.remove("a"), None);
    assert_eq!(metadata.get("a"), None);
    assert_eq!(metadata.remove("b"), Some(Vec::new()));
    assert_eq!(metadata, Metadata::default());
}

#[test]
fn rules_for_keys_are_those_that_were_set_and_plain_ones_take_no_entry() {
    let mut metadata = Metadata::default();
    metadata.set_key_rules(KeyRules::default());
    assert_eq!((metadata.encoded_length(), metadata.key_rules()), (0, Some(KeyRules::default())));
    let rules = KeyRules { trim: true, ..KeyRules::default() };
    metadata.set_key_rules(rules);
    assert_eq!(metadata.key_rules(), Some(rules));
}

/// Repair quarantines a page if anything else is on it.
#[test]
fn a_page_is_sound_if_each_of_its_buckets_is_one_that_its_kind_stores() {
    let sound = |kind, words: &[u64]| {
        let mut page = [0; BUCKETS_PER_PAGE as usize];
        page[..words.len()].copy_from_slice(words);
        page::tally::<Four>(&page, kind, &mut Counts::default())
    };
    let digit = Slot::<Four>::new(0x7400);
    assert_eq!(digit.digit(), Some(29));
    let counted = Bucket::new(0).with(0, Slot::<Four>::fresh(12_345, 6_789)).with(1, digit).0;
    let alone = Bucket::new(0).with(1, digit).0;
    assert!(sound(Kind::Set, &[]) && sound(Kind::Counting, &[]));
    assert!(sound(Kind::Counting, &[counted]));
    assert!(!sound(Kind::Set, &[counted]) && !sound(Kind::Set, &[counted, 0]));
    assert!(!sound(Kind::Counting, &[alone, 0]));
}

#[test]
fn only_filters_of_the_newest_keys_refuse_what_is_not_for_them() {
    let mut identity = forgetting_superblock().identity;
    identity.keeps_no_newest(path(), "joined").unwrap();
    identity.forgetting = identity.forgetting.map(|rule| Forgetting { clock: EpochClock::Keys, ..rule });
    assert!(matches!(identity.keeps_no_newest(path(), "joined"), Err(Error::Newest { op: "joined", .. })));
    superblock().identity.keeps_no_newest(path(), "joined").unwrap();
}
