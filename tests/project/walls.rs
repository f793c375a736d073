//! Invariants checked, for the source of the library:
//!
//! 1. A wing uses only wings that the table of `ARCHITECTURE.md` allows it. These stand above it in the table.
//! 2. Only `src/system/map.rs` may allow unsafe code, which the lints deny everywhere else.
//! 3. Every source file, also in the other packages of the workspace, is compiled: the file above it names it in a `mod`.
//! 4. No message of the library names a command or an option of the tool, which other users of the library do not have.
//!
//! Unit tests may use any wing. The compiler enforces the walls between packages of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");
const ROOT: &str = include_str!("../../src/lib.rs");
/// The table's name for the exports of `src/lib.rs`.
const PUBLIC: &str = "what users call";

/// All source files of the library, by their path under `src`.
fn sources() -> BTreeMap<PathBuf, String> {
    let found = sources_in("src");
    assert!(found.len() > 40, "{} files in src", found.len());
    found
}

fn sources_in(folder: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// The wing of a file: its first folder, or its own name.
fn wing(path: &Path) -> String {
    let first = path.iter().next().unwrap().to_str().unwrap();
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

/// The code without comments, and without code compiled only for tests: a module at the end of its file, or the next
/// line.
fn code(text: &str) -> String {
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap());
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.extend([line, "\n"]);
        } else if lines
            .next()
            .is_some_and(|next| next.starts_with("mod tests {") || next.ends_with(" mod tests {"))
        {
            break;
        }
    }
    code
}

/// Whether a file is a module of tests: its `mod` follows `#[cfg(test)]` in the file above.
fn is_of_tests(path: &Path, sources: &BTreeMap<PathBuf, String>) -> bool {
    path.ancestors().filter(|path| path.file_stem().is_some()).any(|path| {
        let parent = path.parent().unwrap();
        let is_top = parent == Path::new("");
        let above = if is_top { PathBuf::from("lib.rs") } else { parent.with_extension("rs") };
        let declared = format!("mod {};", path.file_stem().unwrap().to_str().unwrap());
        let Some(above) = sources.get(&above) else { return false };
        above.contains(&declared) && !code(above).contains(&declared)
    })
}

/// The first names after each `crate::`.
fn uses(code: &str) -> Vec<String> {
    const ROOT: &str = "crate::";
    let mut found = Vec::new();
    for (at, _) in code.match_indices(ROOT) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let after = &code[at + ROOT.len()..];
        let Some(group) = after.strip_prefix('{') else {
            found.push(name(after));
            continue;
        };
        // The names of a group, without those of groups inside it.
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push(name(group[start..at].trim_start()));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

fn name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The wing of each name that `src/lib.rs` exports.
fn public_names() -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for statement in code(ROOT).split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let (wing, given) = path.split_once("::").expect("a path of two names");
        for given in given.trim_matches(['{', '}']).split(',') {
            names.insert(given.trim().to_owned(), wing.to_owned());
        }
    }
    assert_eq!(names.get("Reader").map(String::as_str), Some("read"));
    names
}

/// The rows of the table whose head has `first` in its first cell.
fn table(text: &str, first: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.trim_start_matches("//!").trim());
    let head = format!("| {first} |");
    let rows =
        lines.skip_while(|line| !line.starts_with(&head)).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "no table begins with {first}");
    rows
}

#[test]
fn wings_use_only_the_wings_that_the_table_allows_them() {
    let sources = sources();
    let rows = table(ARCHITECTURE, "wing");
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &rows {
        let mut may: BTreeSet<String> = BTreeSet::new();
        for word in
            row[2].split(',').map(|word| word.trim().trim_matches('`')).filter(|word| *word != "nothing")
        {
            assert!(
                word == PUBLIC || allowed.contains_key(word),
                "{}: no wing `{word}` stands above it",
                row[0]
            );
            may.insert(word.to_owned());
        }
        allowed.insert(row[0].trim_matches('`').to_owned(), may);
    }
    let wings: BTreeSet<String> = sources
        .keys()
        .filter(|path| !is_of_tests(path, &sources))
        .map(|path| wing(path))
        .filter(|wing| wing != "lib")
        .collect();
    assert_eq!(allowed.keys().cloned().collect::<BTreeSet<_>>(), wings, "wings and rows of the table differ");

    let public = public_names();
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for (path, text) in &sources {
        let wing = wing(path);
        let Some(may) = allowed.get(&wing).filter(|_| !is_of_tests(path, &sources)) else { continue };
        for used in uses(&code(text)) {
            let by_name = public.get(&used);
            let of = by_name.unwrap_or(&used);
            seen.insert((wing.clone(), of.clone()));
            let given_out = by_name.is_some() || code(ROOT).contains(&format!("pub mod {used};"));
            let as_users_do = may.contains(PUBLIC) && given_out;
            if *of != wing && !may.contains(of) && !as_users_do {
                wrong.push(format!("src/{}: `{wing}` uses `{used}` of `{of}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "not allowed by ARCHITECTURE.md:\n{}", wrong.join("\n"));
    for (wing, may) in &allowed {
        for other in may.iter().filter(|other| *other != PUBLIC) {
            let is_used = seen.contains(&(wing.clone(), other.clone()));
            assert!(is_used, "ARCHITECTURE.md allows `{wing}` to use `{other}`, which it does not");
        }
    }
}

#[test]
fn unsafe_code_is_allowed_in_one_file() {
    let allows = |text: &str| code(text).contains("allow(unsafe_code)");
    let found: Vec<PathBuf> =
        sources().into_iter().filter(|(_, text)| allows(text)).map(|(path, _)| path).collect();
    assert_eq!(found, [Path::new("system/map.rs")]);
}

#[test]
fn every_file_is_named_by_a_mod() {
    for folder in ["src", "crates/cli/src", "crates/ingest/src", "crates/serve/src"] {
        let sources = sources_in(folder);
        let top = ["lib.rs", "main.rs"].map(PathBuf::from);
        let mut named = 0;
        for path in sources.keys().filter(|path| !top.contains(path)) {
            let module = format!("mod {};", path.file_stem().unwrap().to_str().unwrap());
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let above = parent.map_or_else(|| top.to_vec(), |parent| vec![parent.with_extension("rs")]);
            let is_named =
                above.iter().any(|above| sources.get(above).is_some_and(|text| text.contains(&module)));
            assert!(is_named, "{folder}/{}: no `{module}` in {above:?}", path.display());
            named += 1;
        }
        assert!(named > 5, "{folder}: {named}");
    }
}

#[test]
fn messages_of_the_library_do_not_speak_of_the_tool() {
    let mut seen = 0;
    for (path, text) in sources() {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            seen += 1;
            let names_option = line.split("--").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
            assert!(!line.contains("`gowk ") && !names_option, "src/{}: {line}", path.display());
        }
    }
    assert!(seen > 5000, "{seen}");
}
