//! Invariants checked, for the packages of the library and of the tool:
//!
//! 1. No dependency needs a newer Rust than the packages declare.
//! 2. A package has every file that its sources and its README name, and no tests and no files for continuous
//!    integration.
//! 3. The library depends on at most 40 crates by default, with stores; on at most 30 without; and on no argument parser.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The platform, as cargo names it.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    told.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Major and minor version.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn no_dependency_asks_for_a_newer_rust() {
    // Cargo fetches crates that only disabled features need; of platforms, it fetches only this one's crates.
    let all = ["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform"];
    let all = cargo(&[&all[..], &[&host()]].concat());
    let all: Value = serde_json::from_str(&all).unwrap();
    let features = [
        "tree",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "-f",
        "{p}",
        "--locked",
        "--all-features",
        "--workspace",
    ];
    let tree = cargo(&features);
    let used: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap()))
        .collect();
    assert!(used.len() > 50, "{used:?}");
    let own = version(env!("CARGO_PKG_RUST_VERSION"));
    let mut asked = 0;
    for package in all["packages"].as_array().unwrap() {
        let name = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let Some(rust) = package["rust_version"].as_str().filter(|_| used.contains(&name)) else { continue };
        assert!(version(rust) <= own, "{name:?} needs Rust {rust}");
        asked += u32::from(version(rust) == own && name.0 != "gowk");
    }
    assert!(asked > 0, "no dependency needs Rust {own:?}: `rust-version` may be lower");
}

fn packaged(package: &str) -> BTreeSet<String> {
    let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "-p", package]);
    list.lines().map(str::to_owned).collect()
}

#[test]
fn each_package_has_what_it_names_and_no_more() {
    let always = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.lock"];
    let library = [
        "src/lib.rs",
        "examples/report.png",
        "examples/urls.txt.gz",
        "examples/ingest.toml",
        "format-spec/README.md",
        "format-spec/STORE.md",
        "format-spec/offset-t6.txt",
    ];
    for (package, own) in [
        ("gowk", &library[..]),
        ("gowk-ingest", &["src/lib.rs"]),
        ("gowk-cli", &["src/lib.rs", "src/main.rs"]),
    ] {
        let files = packaged(package);
        for needed in always.iter().chain(own) {
            assert!(files.contains(*needed), "{package}: {needed} is missing");
        }
        let foreign = ["tests/", "benches/", "fuzz/", "bindings/", "crates/", "format-spec/vectors", "."];
        let is_foreign = |file: &&String| {
            foreign.iter().any(|start| file.starts_with(start)) && **file != ".cargo_vcs_info.json"
        };
        assert_eq!(files.iter().find(is_foreign), None, "{package}");
    }
}

#[test]
fn the_library_brings_few_crates() {
    let tree = |features: &[&str]| -> BTreeSet<String> {
        let fixed = ["tree", "-p", "gowk", "-e", "normal", "--prefix", "none", "--locked"];
        // A mark at the end says that the crate's dependencies were already shown.
        cargo(&[&fixed, features].concat())
            .lines()
            .map(|line| line.trim_end_matches(" (*)").to_owned())
            .collect()
    };
    // gowk itself is one of the crates.
    for (features, most) in [(&[][..], 40), (&["--no-default-features"], 30)] {
        let crates = tree(features);
        assert!((20..=most).contains(&crates.len()), "{} crates: {crates:?}", crates.len());
        assert!(!crates.iter().any(|name| name.starts_with("clap")), "{crates:?}");
    }
    assert!(!tree(&["--all-features"]).iter().any(|name| name.starts_with("clap")));
}
