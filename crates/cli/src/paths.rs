//! What names of files lead to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gowk::Files;

use super::failure::Failure;

/// Whether the path is a store.
pub(super) fn is_store(path: &Path) -> bool {
    gowk::store::Store::is_at(path)
}

/// Whether the path is a store, where it may also be a key: a URL is a key, unless it is an address of S3.
pub(super) fn is_store_and_no_key(path: &Path) -> bool {
    let is_url =
        gowk::store::Store::is_address(path) && !path.as_os_str().as_encoded_bytes().starts_with(b"s3");
    !is_url && is_store(path)
}

/// The filter's files. The journal and the lock lie beside the file that the filter's name leads to.
pub(super) fn own(filter: &Path) -> [PathBuf; 3] {
    let filter = filter.canonicalize().unwrap_or_else(|_| filter.to_owned());
    ["", "-journal", "-lock"].map(|suffix| {
        let mut path = filter.clone().into_os_string();
        path.push(suffix);
        path.into()
    })
}

/// The reason not to write to a file: it belongs to the filter or store. `None` if it does not. The file need not
/// exist.
pub(super) fn belongs_to(path: &Path, filter: &Path) -> Option<String> {
    if let Some(file) = own(filter).into_iter().find(|file| is_same(path, file)) {
        return Some(format!("{}, a file of the filter itself", file.display()));
    }
    let is_in_store = is_store(filter) && leads_into(path, filter);
    is_in_store.then(|| format!("in {}, the folder of the store", filter.display()))
}

/// Fails if one of these outputs, each given by an option, is a file of one of these filters or stores, or is the file of
/// another output. Devices and pipes may be given several times.
pub(super) fn check_outputs<'a>(
    outputs: &[(&'static str, Option<&Path>)],
    filters: impl Iterator<Item = &'a Path> + Clone,
) -> Result<(), Failure> {
    let mut before: Vec<(&str, &Path)> = Vec::new();
    for (option, path) in outputs.iter().filter_map(|(option, path)| Some((*option, (*path)?))) {
        let refused = |is| Failure::RefusedOutput { path: path.to_owned(), is, option };
        if let Some(is) = filters.clone().find_map(|filter| belongs_to(path, filter)) {
            return Err(refused(is));
        }
        let may_be_a_file = path.metadata().map_or(true, |metadata| metadata.is_file());
        let same = before.iter().find(|(_, other)| may_be_a_file && is_same(path, other));
        if let Some((other, _)) = same {
            return Err(refused(format!("the file given with {other}")));
        }
        before.push((option, path));
    }
    Ok(())
}

/// Whether the name leads into the folder. The file need not exist.
fn leads_into(path: &Path, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| Files::resolved(path).starts_with(folder))
}

/// Whether both names lead to one file. The file need not exist.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    if let Some(one) = id(one) {
        return id(other) == Some(one);
    }
    Files::resolved(one) == Files::resolved(other)
}
