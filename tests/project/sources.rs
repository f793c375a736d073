//! The project's own source, read as text.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// All source files below a folder of the project, by their path under it.
pub(crate) fn below(folder: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
            }
        }
    }
    assert!(found.len() > 40, "{} files in {folder}", found.len());
    found
}
