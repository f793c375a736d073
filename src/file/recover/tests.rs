//! Invariants checked:
//!
//! 1. The decision about a journal follows the table in `format-spec/README.md` 6.7, for every kin and all possible
//!    contents; each row of the table decides some case.
//! 2. The kin of a journal follows the table there, for every way in which a header can differ.
//! 3. A refusal names the commits in the journal, and a transaction that counts but holds impossible values is refused.

use super::*;
use crate::cuckoo::Kind;
use crate::error::Expected;
use crate::file::journal::scan::Broken;
use crate::file::overlay::changed_pages;
use crate::format::frame::Header;
use crate::format::tests::{superblock, table};
use crate::format::{Identity, PageId};
use crate::system::{Files, SystemDisk};

const KINS: [(Kin, &str); 6] = [
    (Kin::NoHeader, "none"),
    (Kin::Foreign, "foreign"),
    (Kin::Older, "older"),
    (Kin::Newer, "newer"),
    (Kin::OtherCheckpoint, "other checkpoint"),
    (Kin::Continues, "continues"),
];
const HOLDS: [(Holds, &str); 3] =
    [(Holds::Nothing, "nothing"), (Holds::Known, "known"), (Holds::Beyond, "beyond")];

fn outcome(text: &str) -> Decision {
    let starts = |words| text.starts_with(words);
    match text {
        _ if starts("retire") => Decision::Retire,
        _ if starts("replay") => Decision::Replay,
        _ if starts("refuse: foreign") => Decision::Refuse(Refusal::Foreign),
        _ if starts("refuse: broken") => Decision::Refuse(Refusal::Broken),
        _ if starts("refuse: other history") => Decision::Refuse(Refusal::OtherHistory),
        _ => panic!("an outcome that the code does not know: {text}"),
    }
}

/// The row of the specification that decides: its number and its outcome.
fn by_table(kin: &str, counted: &str, lost: &str) -> (usize, Decision) {
    let allows =
        |cell: &str, value: &str| cell.starts_with("any") || cell.split(", ").any(|one| one == value);
    let rows = table("6.7", 1);
    let row =
        rows.iter().find(|row| allows(&row[1], kin) && allows(&row[2], counted) && allows(&row[3], lost));
    let row = row.unwrap_or_else(|| panic!("no row for {kin}, {counted}, {lost}"));
    (row[0].parse().unwrap(), outcome(&row[4]))
}

#[test]
fn every_journal_is_decided_as_the_table_says() {
    let kins: Vec<String> = table("6.7", 0).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(kins, KINS.map(|(_, name)| name));
    let mut used = std::collections::BTreeSet::new();
    for (kin, kin_name) in KINS {
        for (counted, counted_name) in HOLDS {
            for (lost, lost_name) in HOLDS {
                let (row, expected) = by_table(kin_name, counted_name, lost_name);
                used.insert(row);
                assert_eq!(decide(kin, counted, lost), expected, "{kin:?}, {counted:?}, {lost:?}: row {row}");
            }
        }
    }
    assert_eq!(used, (1..=table("6.7", 1).len()).collect(), "a row that decides nothing");
}

/// The kin by the table of the specification, in its order.
fn kin_by_table(header: Option<Header>, superblock: &Superblock) -> &'static str {
    let Some(header) = header else { return "none" };
    let generation = superblock.identity.geometry.generation;
    let same = header.uuid == superblock.identity.uuid;
    let own = (header.salt, header.base) == (superblock.salt, superblock.commit);
    match (same, header.generation.cmp(&generation), own) {
        (false, ..) => "foreign",
        (true, std::cmp::Ordering::Less, _) => "older",
        (true, std::cmp::Ordering::Greater, _) => "newer",
        (true, std::cmp::Ordering::Equal, false) => "other checkpoint",
        (true, std::cmp::Ordering::Equal, true) => "continues",
    }
}

#[test]
fn every_header_and_every_content_is_judged_as_the_tables_say() {
    let superblock = superblock();
    let Superblock { commit, salt, identity, .. } = superblock.clone();
    let mut headers = vec![None];
    for uuid in [identity.uuid, [7; 16]] {
        for generation in 1..=3 {
            for salt in [salt, salt + 1] {
                for base in [commit - 1, commit, commit + 1] {
                    headers.push(Some(Header { uuid, generation, salt, base }));
                }
            }
        }
    }
    let lasts =
        [None, Some(0), Some(commit - 1), Some(commit), Some(commit + 1), Some(commit + 2), Some(u64::MAX)];
    let name = |last: Option<u64>| match last {
        None => "nothing",
        Some(last) if last <= commit => "known",
        Some(_) => "beyond",
    };
    for header in headers {
        for last in lasts {
            for lost in lasts {
                let broken = lost.map(|last| Broken { offset: 1536, first: 7, last });
                let scan = Scan { header, last, broken, ..Scan::default() };
                let (row, expected) = by_table(kin_by_table(header, &superblock), name(last), name(lost));
                let found = match judge(&scan, &superblock, Path::new("f-journal")) {
                    Ok(decision) => decision,
                    Err(Error::Journal { defect, .. }) => Decision::Refuse(match defect {
                        JournalDefect::Foreign => Refusal::Foreign,
                        JournalDefect::Broken { offset: 1536, first: 7, last } => {
                            assert_eq!(Some(last), lost);
                            Refusal::Broken
                        }
                        JournalDefect::OtherHistory { last: named, checkpoint } => {
                            assert_eq!((Some(named), checkpoint), (last.max(lost), commit));
                            Refusal::OtherHistory
                        }
                        other => panic!("{other:?}"),
                    }),
                    Err(other) => panic!("{other}"),
                };
                assert_eq!(found, expected, "row {row}: {scan:?}");
            }
        }
    }
}

/// Writes one transaction after `superblock()`, and reads it again.
fn redo(page: u64, counts: Counts, metadata: Option<&[u8]>) -> Result<Redo> {
    let superblock = superblock();
    let dir = tempfile::tempdir().unwrap();
    let files = Files::new(&dir.path().join("f")).unwrap();
    let header = Header {
        uuid: superblock.identity.uuid,
        generation: superblock.identity.geometry.generation,
        salt: superblock.salt,
        base: superblock.commit,
    };
    let model = Rights::of(&std::fs::File::open(dir.path()).unwrap()).unwrap();
    let mut journal = Journal::create(&files, &SystemDisk, &model, header).unwrap();
    let mut append = journal.begin(&files, &SystemDisk, superblock.commit + 1);
    let mut words = [0; 512];
    words[5] = 0x77;
    append.page(PageId(page), &[1 << 5, 0, 0, 0, 0, 0, 0, 0], 99, &words).unwrap();
    append.finish(&counts, metadata).unwrap();
    let file = journal::open(&files, false).unwrap().unwrap();
    let scan = journal::scan(&file, &files.journal, header.salt, header.base).unwrap();
    assert_eq!(judge(&scan, &superblock, &files.journal).unwrap(), Decision::Replay);
    Redo::read(&superblock, &file, &files.journal, &scan, |_, _| Ok(()))
}

#[test]
fn a_transaction_is_redone_with_its_counters_and_metadata() {
    let pages = superblock().identity.geometry.pages();
    let counts = Counts { inserted: 4711, ..Counts::default() };
    let redo = redo(pages - 1, counts, Some(b"\x01\0\0\0\x01\0\0\0kv")).unwrap();
    assert_eq!((redo.commit, redo.counts), (superblock().commit + 1, counts));
    assert_eq!(redo.metadata.get("k"), Some(&b"v"[..]));
    let mut changed = redo.overlay.ascending();
    let (region, change) = changed.next().unwrap();
    assert_eq!(changed_pages(region, &change.changed()), [PageId(pages - 1)]);
    assert_eq!(change.sum(15), 99);
    assert!(change.words().eq([(BucketId(15 * 512 + 5), 0x77)]));
    assert!(changed.next().is_none());
    assert_eq!(self::redo(0, counts, None).unwrap().metadata, superblock().metadata);
}

#[test]
fn a_transaction_that_says_what_cannot_be_makes_the_journal_broken() {
    let geometry = superblock().identity.geometry;
    let too_many = {
        let mut counts = Counts::default();
        counts.by_tail[0] = geometry.slots_in_all() + 1;
        counts
    };
    let too_long = {
        let mut counts = Counts::default();
        counts.by_tail[geometry.width.fresh_tail_bits() as usize + 1] = 1;
        counts
    };
    let wrapping = Counts { universal: u64::MAX, by_tail: [u64::MAX; 23], ..Counts::default() };
    let cases: [(u64, Counts, Option<&[u8]>); 6] = [
        (geometry.pages(), Counts::default(), None),
        (u64::MAX, Counts::default(), None),
        (0, too_many, None),
        (0, too_long, None),
        (0, wrapping, None),
        (0, Counts::default(), Some(b"not metadata")),
    ];
    let commit = superblock().commit + 1;
    for (page, counts, metadata) in cases {
        match redo(page, counts, metadata) {
            Err(Error::Journal { defect: JournalDefect::Broken { offset: 512, first, last }, .. }) => {
                assert_eq!((first, last), (commit, commit));
            }
            other => panic!("page {page}: {other:?}"),
        }
    }
    let identity = superblock().identity;
    let message = check_counts(Path::new("f"), &too_many, &identity).unwrap_err();
    let expected = Expected::Between(0, geometry.slots_in_all());
    assert!(matches!(message, Error::Field { expected: found, .. } if found == expected));
    // Counters that a counting filter may have, and that a set may not have.
    let set = Identity { kind: Kind::Set, ..identity };
    for (name, counts) in [
        ("digits", Counts { digits: 1, ..Counts::default() }),
        ("removed", Counts { inserted: 1, removed: 1, ..Counts::default() }),
    ] {
        check_counts(Path::new("f"), &counts, &identity).unwrap();
        let refused = check_counts(Path::new("f"), &counts, &set).unwrap_err();
        assert!(matches!(refused, Error::Field { field, .. } if field == name), "{name}: {refused}");
    }
}
