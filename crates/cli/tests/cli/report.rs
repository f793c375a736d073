//! Invariants checked: the page of `gowk report` has the figures of `gowk info`, names damage, shows no seed, shows
//! hostile names as text, and overwrites no file. `tests/browser` checks how the page looks.

use crate::run::{Folder, lines};

#[test]
fn a_report_has_the_figures_of_the_filter() {
    let folder = Folder::new();
    folder.run(&["create", "f", "--capacity", "20000", "--seed", "987654321", "--counting"], "").done();
    folder.run(&["insert", "f"], lines(0..15_000)).done();
    folder.run(&["insert", "f"], lines(0..3_000)).done();
    folder.run(&["report", "f", "-o", "page.html"], "").done();
    let page = std::fs::read_to_string(folder.path("page.html")).unwrap();
    assert_eq!(folder.run(&["report", "f"], "").done().matches("<svg").count(), page.matches("<svg").count());
    let info: serde_json::Value =
        serde_json::from_str(&folder.run(&["info", "--json", "f"], "").done()).unwrap();
    // 3000 digits, and a few more: some new keys match the entry of another key.
    let digits = info["digits"].as_u64().unwrap();
    assert!((3000..3100).contains(&digits), "{digits}");
    let by_digits = format!("3,{:03} by digits", digits - 3000);
    for shown in [
        "<dt>kind</dt><dd>counting</dd>",
        "<dt>copies of keys</dt><dd>18,000</dd>",
        &by_digits,
        "all of 16 pages match",
    ] {
        assert!(page.contains(shown), "no {shown:?} in {page}");
    }
    let load = format!("{:.1} %", 100.0 * info["load"].as_f64().unwrap());
    assert!(page.contains(&format!("<dt>slots in use</dt><dd>{load}</dd>")), "{load}");
    // Findings that need action come first.
    let first = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words:?} in {page}"));
    let kind = first("<dt>kind</dt>");
    assert!(first("<h2>Damage</h2>") < kind && first("all of 16 pages match") < kind);
    let full = info["slots"].as_f64().unwrap() * (0.93 - info["load"].as_f64().unwrap());
    let left =
        page.split("<p>About ").nth(1).unwrap().split_once(" more keys, then it doubles, to 320.00 KiB.");
    let left: f64 = left.unwrap().0.replace(',', "").parse().unwrap();
    assert!(
        (left - full).abs() < 0.05 * full && first("more keys, then it doubles") < kind,
        "{left}, {full}"
    );
    assert!(!page.contains("987654321") && !page.contains("<script") && !page.contains("href"));
}

#[test]
fn a_report_names_what_is_damaged() {
    let folder = Folder::new();
    folder.run(&["create", "f", "--capacity", "50000"], "").done();
    folder.run(&["insert", "f"], lines(0..40_000)).done();
    let mut bytes = std::fs::read(folder.path("f")).unwrap();
    // Damages the last page of the second region.
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(folder.path("f"), bytes).unwrap();
    let page = folder.run(&["report", "f"], "").done();
    assert!(page.contains("1 of 32 pages") && page.contains("They lie in 1 of 2 regions: 1."), "{page}");
    assert_eq!(page.matches("; damaged</title>").count(), 1);
}

#[test]
fn a_report_of_a_store_has_its_shards_and_versions() {
    let folder = Folder::new();
    folder.run(&["store", "create", "s", "--shards", "4", "--capacity", "10000"], "").done();
    folder.run(&["dedup", "s"], lines(0..5_000)).done();
    folder.run(&["dedup", "s"], lines(5_000..6_000)).done();
    folder.run(&["store", "compact", "s", "--all"], "").done();
    let page = folder.run(&["report", "s"], "").done();
    assert_eq!(page.matches(">shard ").count(), 4);
    assert!(
        page.contains("Entries in each version, from 1 of")
            && page.contains("all files of version 4 are whole")
    );
    // The files of all versions.
    for file in std::fs::read_dir(folder.path("s/shards/0002")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let page = folder.run(&["report", "s"], "").done();
    assert!(page.contains("<p class=\"bad\">Shard 2: "), "{page}");
}

#[test]
fn a_report_tells_how_many_entries_expire_when() {
    let folder = Folder::new();
    let records: String = (1..=28)
        .flat_map(|day| (0..day).map(move |key| format!("{day}-{key},2026-02-{day:02}T12:00:00Z\n")))
        .collect();
    for of_store in [false, true] {
        let to = if of_store { "s" } else { "f" };
        let shards: &[&str] =
            if of_store { &["store", "create", "s", "--shards", "2"] } else { &["create", "f"] };
        // With so few keys, no two match; an epoch has two days.
        let rest = ["--capacity", "1000", "--slots-per-bucket", "2", "--forget-after", "28d"];
        folder.run(&[shards, &rest[..]].concat(), "").done();
        let insert = ["insert", to, "--csv", "key", "--time-column", "ts"];
        let (half, other) = records.split_at(records.find("20-0,").unwrap());
        folder.run(&insert, format!("key,ts\n{half}")).done();
        folder.run(&insert, format!("key,ts\n{other}")).done();
        let page = folder.run(&["report", to], "").done();
        let text = page.replace('<', "\n<").replace('>', ">\n");
        assert!(page.contains("It forgets keys 28 to 30 days after they were first seen. "), "{page}");
        // Keys of 26 and 27 February, which are one epoch: 53 of 406.
        let name = "2026-03-28 00:00:00 UTC";
        let value = text.lines().skip_while(|line| *line != name).find(|line| line.contains('%'));
        assert_eq!(value, Some("53 (13.1 %)"), "{to}: {text}");
    }
    folder
        .run(&["dedup", "n", "--keep-newest", "500", "--false-positive-rate", "1e-7"], lines(0..600))
        .done();
    let page = folder.run(&["report", "n"], "").done();
    // An epoch has 36 keys, and an entry lives for 15 epochs: the entries of the first two are gone.
    assert!(
        page.contains(">after 12 more keys</text><text x=\"360\" y=\"14\" text-anchor=\"end\">36 (6.8 %)<"),
        "{page}"
    );
}

#[test]
fn a_report_overwrites_no_file_and_escapes_names() {
    let folder = Folder::new();
    folder.run(&["create", "<b>&f", "--capacity", "1000"], "").done();
    let page = folder.run(&["report", "<b>&f"], "").done();
    assert!(page.contains("<h1>&lt;b&gt;&amp;f</h1>") && !page.contains("<b>"));
    for output in ["<b>&f", "./<b>&f-journal", "<b>&f-lock"] {
        let ended = folder.run(&["report", "<b>&f", "-o", output], "");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("give another file with --output"), "{ended:?}");
    }
    folder.run(&["check", "<b>&f", "x"], "");
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "100"], "").done();
    assert_eq!(folder.run(&["report", "s", "-o", "s/page"], "").code, Some(2));
    assert_eq!(folder.run(&["report", "absent"], "").code, Some(2));
}
