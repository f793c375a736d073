//! Invariants checked: the bytes between two separators are one key. `check` selects every inserted key, in the order of
//! the input. Exit codes say whether any key was selected or absent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::run::{Folder, lines};

#[test]
fn dedup_prints_each_key_once_in_order_and_remembers_it() {
    let folder = Folder::new();
    let input = [lines(0..300), lines(0..200), lines(250..400)].concat();
    assert_eq!(folder.run(&["dedup", "f", "--false-positive-rate", "2e-9"], &input).done(), lines(0..400));
    assert_eq!(folder.run(&["dedup", "f"], &input).done(), "");
    assert_eq!(folder.run(&["check", "f"], &input).done(), input);
    folder.assert_lacks("f", &lines(400..500));
    let info = folder.info("f");
    assert_eq!((&info["entries"], &info["slots_per_bucket"]), (&400.into(), &2.into()));
    assert_eq!((&info["capacity"], &info["copies"]), (&1_000_000.into(), &400.into()));
}

#[test]
fn the_number_of_threads_does_not_change_the_output() {
    let folder = Folder::new();
    let input = [lines(0..150_000), lines(50_000..300_000)].concat();
    let one = folder.run(&["dedup", "f", "--seed", "7"], &input).done();
    for threads in ["2", "3", "1_000_000"] {
        let name = format!("f{threads}");
        let several = folder.run(&["dedup", &name, "--seed", "7", "--threads", threads], &input).done();
        assert!(several == one, "{threads}");
        assert!(folder.run(&["check", &name, "--threads", threads], &one).done() == one);
        folder.run(&["create", "g", "--force", "--capacity", "10_000"], "").done();
        folder.run(&["insert", "g", "--threads", threads], &input).done();
        assert!(folder.run(&["check", "g"], &input).done() == input);
    }
    assert_eq!(folder.run(&["check", "f", "a", "--threads", "0"], "").code, Some(2));
}

#[test]
fn dedup_ignores_the_capacity_of_an_existing_filter_and_refuses_a_stricter_rate() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--false-positive-rate", "0.001"]);
    let higher = ["dedup", "f", "a", "--capacity", "50_000_000", "--false-positive-rate", "0.01"];
    assert_eq!(folder.run(&higher, "").code, Some(0));
    assert_eq!(folder.info("f")["capacity"], 1000);
    let before = folder.snapshot();
    folder
        .run(&["dedup", "f", "b", "--false-positive-rate", "1e-6"], "")
        .refused(&["f: made for a false-positive rate of 1.22e-4", "1.00e-6"]);
    assert_eq!(folder.snapshot(), before);
}

#[test]
fn an_empty_input_creates_an_empty_filter() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["dedup", "f"], "").done(), "");
    assert_eq!(folder.info("f")["entries"], 0);
}

#[test]
fn lines_are_keys_byte_for_byte() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2"]);
    folder.run(&["insert", "f"], b"cr\r\n\nbytes\xff\xfe\nlast").done();
    assert_eq!(folder.info("f")["entries"], 4);
    // The empty line is a key, the last newline is optional, and the CR belongs to its key.
    assert_eq!(folder.run(&["check", "f", "", "last", "cr\r"], "").done(), "\nlast\ncr\r\n");
    assert_eq!(folder.run(&["check", "f", "cr"], "").code, Some(1));
    let bytes = OsStr::from_bytes(b"bytes\xff\xfe");
    let found = folder.run(&[OsStr::new("check"), OsStr::new("f"), bytes], "");
    assert_eq!((found.code, found.out), (Some(0), b"bytes\xff\xfe\n".to_vec()));
    // No key follows the newline at the end.
    folder.run(&["create", "g", "--capacity", "10"], "").done();
    folder.run(&["insert", "g"], "a\n").done();
    folder.assert_lacks("g", "\n");
}

#[test]
fn nul_takes_the_place_of_the_newline_on_both_sides() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["dedup", "f", "-0"], "a\nb\0c\n\0c\n").done(), "a\nb\0c\n\0");
    assert_eq!(folder.run(&["dedup", "f", "--null"], "c\0").done(), "c\0");
    assert_eq!(folder.run(&["check", "f", "-0"], "a\nb\0a\0").done(), "a\nb\0");
    assert_eq!(folder.run(&["count", "f", "-0"], "a\nb").done(), "1\ta\nb\0");
}

#[test]
fn two_hyphens_end_the_options() {
    let folder = Folder::with_filter(&["--capacity", "10"]);
    folder.run(&["insert", "f", "--", "-v", "--json"], "").done();
    assert_eq!(folder.run(&["check", "f", "--", "-v", "--json"], "").done(), "-v\n--json\n");
}

#[test]
fn keys_come_from_arguments_else_inputs_in_their_order_else_standard_input() {
    let folder = Folder::new();
    std::fs::write(folder.path("one"), "1\n2").unwrap();
    std::fs::write(folder.path("two"), "3\n").unwrap();
    let from_all = ["dedup", "f", "--input", "two", "--input", "-", "--input", "one"];
    assert_eq!(folder.run(&from_all, "4\n").done(), "3\n4\n1\n2\n");
    assert_eq!(folder.run(&["dedup", "f", "5"], "6\n").done(), "5\n");
    folder.assert_lacks("f", "6\n");
    let both = folder.run(&["dedup", "f", "7", "--input", "one"], "");
    assert_eq!((both.code, both.text().as_str()), (Some(2), ""));
}

#[test]
fn check_selects_present_or_absent_keys_and_its_exit_code_says_whether_any() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2"]);
    folder.run(&["insert", "f", "a", "b"], "").done();
    let cases: [(&[&str], &str, i32); 12] = [
        (&["a", "x", "b"], "a\nb\n", 0),
        (&["x"], "", 1),
        (&["-v", "a", "x", "b"], "x\n", 0),
        (&["-v", "a"], "", 1),
        (&["-c", "a", "x", "b"], "2\n", 0),
        (&["-c", "x"], "0\n", 1),
        (&["-vc", "a", "x"], "1\n", 0),
        (&["-q", "a", "x"], "", 0),
        (&["-q", "x"], "", 1),
        (
            &["--json", "a", "x", "b"],
            "{\"keys\":3,\"present\":2,\"absent\":1,\"selected\":2,\"skipped\":0}\n",
            0,
        ),
        (
            &["--json", "-v", "a", "x", "b"],
            "{\"keys\":3,\"present\":2,\"absent\":1,\"selected\":1,\"skipped\":0}\n",
            0,
        ),
        (&["--json", "-v", "a"], "{\"keys\":1,\"present\":1,\"absent\":0,\"selected\":0,\"skipped\":0}\n", 1),
    ];
    for (args, out, code) in cases {
        let ended = folder.run(&[&["check", "f"], args].concat(), "");
        assert_eq!((ended.text().as_str(), ended.code), (out, Some(code)), "{args:?}");
        assert_eq!(ended.err, "");
    }
}

#[test]
fn copies_are_counted_and_removed_one_by_one() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "3", "--counting"]);
    folder.run(&["insert", "f"], "k\n".repeat(6)).done();
    assert_eq!(folder.run(&["count", "f", "k", "absent"], "").done(), "6\tk\n0\tabsent\n");
    for left in (0..6).rev() {
        folder.run(&["remove", "f", "k"], "").done();
        assert_eq!(folder.run(&["count", "f", "k"], "").done(), format!("{left}\tk\n"));
    }
    folder.assert_lacks("f", "k\n");
}

#[test]
fn a_mask_has_an_answer_for_each_key_in_order() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2"]);
    folder.run(&["insert", "f", "a", "b"], "").done();
    for (args, out, code) in [
        (&["a", "x", "b", "b"][..], "1\n0\n1\n1\n", 0),
        (&["-v", "a", "x"], "0\n1\n", 0),
        (&["x", "y"], "0\n0\n", 1),
        (&["-0", "a", "x"], "1\x000\0", 0),
    ] {
        let ended = folder.run(&[&["check", "f", "--mask"], args].concat(), "");
        assert_eq!(
            (ended.text().as_str(), ended.code, ended.err.as_str()),
            (out, Some(code), ""),
            "{args:?}"
        );
    }
    assert_eq!(folder.run(&["check", "f", "--mask", "-c", "a"], "").code, Some(2));
    let many = [lines(0..5_000), "a\n".to_owned()].concat();
    assert_eq!(folder.run(&["check", "f", "-m"], many).done(), "0\n".repeat(5_000) + "1\n");
}

#[test]
fn several_filters_hold_what_any_of_them_holds() {
    let folder = Folder::new();
    for (name, keys) in [("f", lines(0..3_000)), ("g", lines(2_000..5_000)), ("h", lines(8_000..9_000))] {
        folder.run(&["dedup", name, "--slots-per-bucket", "2"], keys).done();
    }
    let check = ["check", "f", "--filter", "g", "--filter", "h"];
    let found = folder.run(&check, lines(0..10_000)).done();
    assert!(found == [lines(0..5_000), lines(8_000..9_000)].concat());
    let absent = folder.run(&[&check[..], &["-v"]].concat(), lines(0..10_000)).done();
    assert!(absent == [lines(5_000..8_000), lines(9_000..10_000)].concat());
    folder.run(&[&check[..], &["--filter", "none"]].concat(), "a\n").refused(&["none: no such filter"]);
}

#[test]
fn removal_says_how_many_keys_were_absent_and_takes_the_others() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2", "--counting"]);
    folder.run(&["insert", "f"], lines(0..100)).done();
    let ended = folder.run(&["remove", "f", "x", "key 1", "y", "key 2"], "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), "gowk: f: 2 of 4 keys were absent\n"));
    folder.assert_lacks("f", &lines(1..3));
    folder.assert_holds("f", &lines(3..100));
}

#[test]
fn each_commit_is_reported_with_its_number_and_the_keys_taken() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--counting"]);
    let first = folder.info("f")["commit"].as_u64().unwrap();
    let event =
        |number, keys| format!("{{\"event\":\"commit\",\"number\":{},\"keys\":{keys}}}\n", first + number);
    let args = ["insert", "f", "--json", "--commit-every", "2"];
    // After the commits, a line sums up all keys.
    let commits = |err: &str| err.rsplit_once("{\"event\":\"summary\"").unwrap().0.to_owned();
    let ended = folder.run(&args, lines(0..5));
    assert_eq!(
        (ended.code, commits(&ended.err)),
        (Some(0), [event(1, 2), event(2, 4), event(3, 5)].concat())
    );
    let ended = folder.run(&["dedup", "f", "--json", "--commit-every", "1_000"], lines(0..9));
    assert_eq!((ended.text(), commits(&ended.err)), (lines(5..9), event(4, 9)));
    let ended = folder.run(&["remove", "f", "--json", "key 1"], "");
    assert_eq!((ended.code, ended.err), (Some(0), event(5, 1)));
    assert_eq!(commits(&folder.run(&["dedup", "f", "--json"], "").err), "");
}

/// Beyond `--memory`, the pieces of input that were taken together are committed. A quarter of the machine's memory is
/// enough for all changes.
#[test]
fn changes_that_take_more_memory_than_allowed_are_committed() {
    let folder = Folder::with_filter(&["--capacity", "4_000_000"]);
    folder.run(&["insert", "f"], lines(0..1));
    let commits = |args: &[&str], keys| {
        let args = [&["insert", "f", "--commit-every-seconds", "3600"], args].concat();
        let before = folder.info("f")["commit"].as_u64().unwrap();
        assert_eq!(folder.run(&args, lines(keys)).code, Some(0));
        folder.info("f")["commit"].as_u64().unwrap() - before
    };
    assert_eq!(commits(&[], 0..1_500_000), 1);
    let several = commits(&["--memory", "200K"], 1_500_000..3_000_000);
    assert!(several >= 3, "{several} commits");
}
