//! Invariants checked: `info` shows a filter's seed only on request, and as text. `verify` names the fault and the
//! remedy, and finds nothing after one `repair`.

use std::os::unix::fs::FileExt;

use gowk::Options;

use crate::run::Folder;

#[test]
fn info_shows_the_seed_only_when_asked_and_as_text() {
    const SEED: u64 = 0xfedc_ba98_1234_5671;
    let folder = Folder::new();
    Options::new().capacity(1000).seed(SEED).create(folder.path("f")).unwrap().commit().unwrap();
    let info = |options: &[&str]| folder.run(&[&["info", "f"], options].concat(), "").done();
    for options in [&[][..], &["--json"]] {
        assert!(!info(options).contains("seed") && !info(options).contains(&SEED.to_string()));
    }
    assert!(info(&["--show-seed"]).contains(&format!("\n{:<24}{SEED}\n", "seed")));
    let description: serde_json::Value = serde_json::from_str(&info(&["--show-seed", "--json"])).unwrap();
    assert_eq!(description["seed"], SEED.to_string());
}

#[test]
fn one_repair_mends_a_stale_live_area() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "key"], "").done();
    // The commit number in the live area, which follows the two superblocks.
    let file = std::fs::OpenOptions::new().write(true).open(folder.path("f")).unwrap();
    file.write_all_at(&9999_u64.to_le_bytes(), 131_072 + 1024).unwrap();
    let tool = |verb: &[&str]| {
        let ended = folder.run(&[verb, &["f"]].concat(), "");
        (ended.code.unwrap(), ended.text())
    };
    let (status, said) = tool(&["verify"]);
    assert!(status == 1 && said.contains("live area") && said.contains("Next: `gowk repair`"), "{said}");
    let (status, said) = tool(&["verify", "--json"]);
    assert!(status == 1 && said.contains("\"live_differs\":true"), "{said}");
    let (status, said) = tool(&["repair"]);
    assert!(status == 0 && said.contains("live area") && !said.contains("nothing to repair"), "{said}");
    let (status, said) = tool(&["verify", "--json"]);
    assert!(status == 0 && said.contains("\"live_differs\":false"), "{said}");
    assert!(tool(&["repair"]).1.contains("nothing to repair"));
}

#[test]
fn names_with_control_characters_are_shown_escaped_and_make_no_lines_of_their_own() {
    let folder = Folder::new();
    let name = "f\n\u{1b}[31mred";
    folder.run(&["dedup", name], "key\n").done();
    for verb in ["info", "verify"] {
        let text = folder.run(&[verb, name], "").done();
        assert!(text.contains(r"f\n\u{1b}[31mred") && !text.contains('\u{1b}'), "{text}");
    }
    let description: serde_json::Value =
        serde_json::from_str(&folder.run(&["info", name, "--json"], "").done()).unwrap();
    assert!(description["file"].as_str().unwrap().ends_with(name), "{description}");
}
