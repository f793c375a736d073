//! Invariants checked, for `gowk dedup FILE --filter OTHER`: a key is printed if none of the filters has it, and is in
//! FILE afterwards in any case. The others are only read. A filter that cannot be read is an error, and then FILE is not
//! created.

use std::collections::BTreeSet;

use crate::run::{Folder, lines};

#[test]
fn a_key_is_new_that_none_of_the_filters_has() {
    for store in [false, true] {
        let folder = Folder::new();
        if store {
            for day in ["1", "2", "3"] {
                folder.run(&["store", "create", day, "--shards", "2", "--capacity", "1000"], "").done();
            }
        }
        assert_eq!(folder.run(&["dedup", "1"], "a\nb\n").done(), "a\nb\n");
        let before = folder.snapshot();
        let second = folder.run(&["dedup", "2", "--filter", "1", "--stats"], "b\nc\nc\nd\nb\n");
        assert_eq!((second.code, second.text().as_str()), (Some(0), "c\nd\n"));
        assert!(second.err.contains("read 5, new 2, seen 3, refused 0"), "{second:?}");
        let after = folder.snapshot();
        assert!(
            before.iter().all(|(name, bytes)| store || after[name] == *bytes),
            "the filter of day 1 was changed"
        );
        // The second day's filter has all keys of that day, including those known before.
        folder.assert_holds("2", "b\nc\nd\n");
        folder.assert_lacks("1", "c\nd\n");
        // The first day is out of the window, so that `a` is new again; `b` is not, as it came on the second day.
        assert_eq!(folder.run(&["dedup", "3", "--filter", "2"], "a\nb\ne\n").done(), "a\ne\n");
        let all = ["dedup", "4", "--filter", "3", "--filter", "1", "--filter", "2", "-o", "new"];
        assert_eq!(folder.run(&all, "a\nb\nc\nd\ne\nf\n").done(), "");
        assert_eq!(std::fs::read_to_string(folder.path("new")).unwrap(), "f\n");
        // The same with records.
        let records = "1,a\n2,g\n3,g\n";
        assert_eq!(
            folder.run(&["dedup", "4", "--filter", "3", "--csv", "2"], records).text().lines().count(),
            1
        );
    }
}

#[test]
fn what_cannot_be_looked_into_is_an_error() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["create", "trimmed", "--capacity", "1000", "--trim"], "").done();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    let before = folder.snapshot();
    folder.run(&["dedup", "new", "--filter", "none"], "a\n").refused(&["none: no such filter"]);
    for place in ["f", "s"] {
        let itself = folder.run(&["dedup", place, "--filter", &format!("./{place}")], "a\n");
        itself.refused(&["is the filter that the keys go into", "leave it out"]);
        folder.run(&["dedup", place, "--filter", "trimmed"], "a\n").refused(&["by other rules"]);
    }
    assert!(folder.snapshot() == before);

    // A damaged page: keys before the first lookup in that page are committed, and all of these were printed.
    folder.run(&["create", "old", "--capacity", "1000"], "").done();
    let page = folder.data_offset("old") + 5 * 4096;
    folder.change("old", |bytes| bytes[page] ^= 1);
    for every in ["1", "7", "1000"] {
        let file = format!("every {every}");
        let keys = lines(0..500);
        let words = ["dedup", &file, "--filter", "old", "--commit-every", every, "--slots-per-bucket", "2"];
        let ended = folder.run(&words, &keys);
        ended.refused(&["/old: page 5 (region 0) is damaged"]);
        let again = folder.run(&["dedup", &file], &keys).done();
        let first = ended.text();
        let printed: BTreeSet<&str> = first.lines().chain(again.lines()).collect();
        assert_eq!(printed.len(), 500, "keys were committed and not printed");
    }
}
