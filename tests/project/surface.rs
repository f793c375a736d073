//! Invariants checked, of the names that users call:
//!
//! 1. The types that people work with have few methods of their own, without builders: what several of them share is in
//!    the traits `Lookup` and `Batches`, and each thing is there once.
//! 2. No public name says `_hash`, `_into` or `_unique`: a key may be a hash anywhere (`Key`), an answer has one form,
//!    and what `insert` means is the filter's kind.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::below;

/// The types, and the methods that each may have at most.
const MOST: [(&str, usize); 4] = [("Writer", 30), ("Reader", 16), ("Update", 14), ("StoreReader", 10)];

/// The word at the beginning of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

/// What stands behind `pub` and the words that say how a function is called; `None` for what is not public.
fn public(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    for how in ["const fn ", "async fn ", "unsafe fn "] {
        if rest.starts_with(how) {
            rest = &rest[how.len() - "fn ".len()..];
        }
    }
    Some(rest)
}

/// The type whose own methods a block holds; `None` for another line, and for a block of a trait.
fn block_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?.strip_suffix('{')?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.strip_prefix(' ')? };
    (!rest.contains(" for ")).then(|| word(rest))
}

/// Whether the signature that begins here is of a builder: it takes the value, and gives it back.
fn builds(lines: &[&str]) -> bool {
    let end = lines.iter().position(|line| line.ends_with('{')).unwrap();
    let signature = lines[..=end].concat();
    signature.contains("(mut self") && signature.contains("-> Self")
}

fn methods() -> BTreeMap<String, BTreeSet<String>> {
    let mut methods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for text in below("src").values() {
        let lines: Vec<&str> = text.lines().collect();
        let mut of = None;
        for (number, line) in lines.iter().enumerate() {
            if *line == "}" {
                of = None;
            } else if let Some(found) = block_of(line) {
                of = Some(found);
            }
            let (Some(of), Some(name)) = (of, public(line).and_then(|rest| rest.strip_prefix("fn "))) else {
                continue;
            };
            if line.starts_with("    pub") && !builds(&lines[number..]) {
                methods.entry(of.to_owned()).or_default().insert(word(name).to_owned());
            }
        }
    }
    methods
}

#[test]
fn the_types_that_people_work_with_have_few_methods() {
    let methods = methods();
    for (of, known) in [
        ("Writer", &["insert", "commit", "shrink", "merge"][..]),
        ("Reader", &["open", "verify", "copy_to", "divide_to", "join_to"]),
        ("Update", &["seal", "commit", "base"]),
        ("StoreReader", &["version", "verify"]),
    ] {
        // From several files; but for the one that is of the type without `self`.
        let missing: Vec<_> = known.iter().filter(|name| !methods[of].contains(**name)).collect();
        assert!(missing.iter().all(|name| **name == "join_to"), "{of}: {missing:?} not in {:?}", methods[of]);
    }
    assert!(methods["Options"].len() > 5 && !methods["Update"].contains("scratch"), "{methods:?}");
    for (of, most) in MOST {
        let found = &methods[of];
        println!("{of}: {} methods of its own, {most} at most", found.len());
        assert!(found.len() <= most, "{of} has {} methods: {found:?}", found.len());
    }
}

#[test]
fn no_public_name_tells_a_variant_of_a_call() {
    let mut names = BTreeSet::new();
    for text in below("src").values() {
        let mut in_trait = false;
        for line in text.lines() {
            let rest = public(line);
            in_trait = line != "}" && (in_trait || rest.is_some_and(|rest| rest.starts_with("trait ")));
            let of_trait = line.trim_start().strip_prefix("fn ").filter(|_| in_trait);
            let item = |rest: &str| {
                let kinds = ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod "];
                let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind)).unwrap_or(rest);
                word(name).to_owned()
            };
            names.extend(rest.map(item).into_iter().chain(of_trait.map(|name| word(name).to_owned())));
        }
    }
    for known in ["insert", "insert_batch", "contains_batch", "KeyHash", "copies", "store", "Batches"] {
        assert!(names.contains(known), "{known} was not found");
    }
    let wrong = |name: &&String| ["_hash", "_into", "_unique"].iter().any(|part| name.contains(part));
    assert_eq!(names.iter().filter(wrong).collect::<Vec<_>>(), [""; 0]);
}
