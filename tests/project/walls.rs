//! Invariants checked, of the source itself:
//!
//! 1. A wing uses only the wings that the table of `ARCHITECTURE.md` allows it. These stand above it in the table.
//! 2. Only `src/system/map.rs` has unsafe code; the tool has none.
//! 3. The name of every file is a word of the two tables of words in `ARCHITECTURE.md`, or a verb of the tool.
//! 4. No message of the library names an option or a verb of the tool, which a caller of the library may not have.
//! 5. Every file is compiled: a `mod` in the file above names it.
//!
//! Unit tests may use any wing. The compiler ensures that the tool uses the public interface alone, as it is another
//! package.

use std::collections::{BTreeMap, BTreeSet};

use std::path::{Path, PathBuf};

use crate::sources::below;

const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");
const ROOT: &str = include_str!("../../src/lib.rs");
/// The table's name for what `src/lib.rs` gives out.
const PUBLIC: &str = "what users call";

/// All source files of the library, by their path under `src`.
fn sources() -> BTreeMap<PathBuf, String> {
    below("src")
}

/// The source files of the tool, by their path under `crates/cli/src`.
fn sources_of_the_tool() -> BTreeMap<PathBuf, String> {
    below("crates/cli/src")
}

/// The wing of a file: its first folder, or its own name.
fn wing(path: &Path) -> String {
    let first = path.iter().next().unwrap().to_str().unwrap();
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

/// The code without comments, the text of strings, and items that are compiled for tests alone.
fn code(text: &str) -> String {
    without_tests(&bare(text))
}

/// The code without comments and without the text of strings.
fn bare(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        code.push_str(before);
        let length = if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with('"') {
            length_of_string(from, &code)
        } else {
            length_of_character(from).unwrap_or_default()
        };
        // A lone slash, or the quote of a lifetime.
        if length == 0 {
            code.push_str(&from[..1]);
        }
        rest = &from[length.max(1)..];
    }
    code.push_str(rest);
    code
}

/// The bytes of the string that `from` begins with. The code before it says whether it is raw.
fn length_of_string(from: &str, before: &str) -> usize {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before.trim_end_matches('#').ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return 1 + from[1..].find(&end).expect("a string ends") + end.len();
    }
    let mut escaped = false;
    let end = from[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.expect("a string ends") + 2
}

/// The bytes of the character that `from` begins with; `None` for a lifetime.
fn length_of_character(from: &str) -> Option<usize> {
    let inside = from.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(inside[2..].find('\'')? + 4);
    }
    let character = inside.chars().next()?.len_utf8();
    inside[character..].starts_with('\'').then_some(character + 2)
}

/// Cuts the item, statement or field behind each `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut parts = code.split("#[cfg(test)]");
    let mut kept = parts.next().unwrap().to_owned();
    for part in parts {
        // An item ends with its block, or at a comma or semicolon outside of all brackets.
        let mut depth = 0;
        let end = part.find(|c| {
            depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
            depth < 0 || depth == 0 && "},;".contains(c)
        });
        let rest = &part[end.expect("an item ends")..];
        kept.push_str(if depth < 0 { rest } else { &rest[1..] });
    }
    kept
}

/// Whether a file is a module of tests: its `mod` follows `#[cfg(test)]` in the file above.
fn is_of_tests(path: &Path, sources: &BTreeMap<PathBuf, String>) -> bool {
    path.ancestors().filter(|path| path.file_stem().is_some()).any(|path| {
        let parent = path.parent().unwrap();
        let is_top = parent == Path::new("");
        let above = if is_top { PathBuf::from("lib.rs") } else { parent.with_extension("rs") };
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Some(above) = sources.get(&above).map(|text| bare(text)) else { return false };
        let declared = format!("mod {name};");
        above.contains(&declared) && !without_tests(&above).contains(&declared)
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

/// The wing that each name of `src/lib.rs` comes from.
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
fn every_file_is_named_by_a_mod() {
    for (root, sources) in [("src", sources()), ("crates/cli/src", sources_of_the_tool())] {
        for path in
            sources.keys().filter(|path| !["lib.rs", "main.rs"].map(Path::new).contains(&path.as_path()))
        {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let above = parent.map_or_else(|| PathBuf::from("lib.rs"), |parent| parent.with_extension("rs"));
            let is_named =
                sources.get(&above).is_some_and(|text| bare(text).contains(&format!("mod {name};")));
            assert!(is_named, "{root}/{}: no `mod {name};` in {root}/{}", path.display(), above.display());
        }
    }
}

#[test]
fn unsafe_code_is_in_one_file() {
    let has_unsafe = |text: &str| {
        let code = code(text).replace("unsafe_code", "");
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    };
    let found: Vec<PathBuf> =
        sources().into_iter().filter(|(_, text)| has_unsafe(text)).map(|(path, _)| path).collect();
    assert_eq!(found, [Path::new("system/map.rs")]);
    assert!(!sources_of_the_tool().values().any(|text| has_unsafe(text)));
}

#[test]
fn the_name_of_every_file_is_explained() {
    let mut words: BTreeSet<String> = BTreeSet::new();
    let (_, further) = ARCHITECTURE.split_once("More words").expect("the second table");
    for row in [table(ARCHITECTURE, "word"), table(further, "word")].concat() {
        words.extend(row[0].split(", ").map(str::to_lowercase));
        words.extend(row.last().unwrap().split('*').skip(1).step_by(2).map(str::to_lowercase));
    }
    let explained = |path: &Path, text: &str| {
        let name = path.file_stem().unwrap().to_str().unwrap().replace('_', " ");
        let one = name.strip_suffix('s').unwrap_or(&name);
        // Such as `recover` by "recovery", and `inputs` by "input".
        let by_glossary = words.iter().any(|word| *word == name || *word == one || word.starts_with(&name));
        let verbs = ["gowk", "gowk store"];
        by_glossary || verbs.iter().any(|tool| text.starts_with(&format!("//! `{tool} {name}`")))
    };
    let mut unknown = Vec::new();
    // A file at the top of `src` is a wing, which the table of wings explains.
    for (root, sources, shortest) in [("src", sources(), 2), ("crates/cli/src", sources_of_the_tool(), 1)] {
        let named = sources
            .iter()
            .filter(|(path, _)| path.iter().count() >= shortest && !is_of_tests(path, &sources))
            .filter(|(path, _)| !["lib.rs", "main.rs"].map(Path::new).contains(&path.as_path()));
        unknown.extend(
            named
                .filter(|(path, text)| !explained(path, text))
                .map(|(path, _)| format!("{root}/{}", path.display())),
        );
    }
    assert!(unknown.is_empty(), "the words do not explain:\n{}", unknown.join("\n"));
}

#[test]
fn messages_of_the_library_do_not_speak_of_the_tool() {
    let mut seen = 0;
    for (path, text) in sources() {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            seen += 1;
            let names_option = line.split("--").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
            assert!(!line.contains("`gowk ") && !names_option, "src/{}: {line}", path.display());
        }
    }
    assert!(seen > 5000, "{seen}");
}
