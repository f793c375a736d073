//! The input files that a job's paths and patterns name, sorted.
//!
//! `glob` lists folders as the standard library does, which panics if the system reports an error when a folder is
//! closed. No known file system reports one, and the run has written nothing at that time: it ends, and may be repeated.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use xxhash_rust::xxh3::xxh3_64;

use super::error::{Error, InputProblem};
use super::job::Job;
use super::ownership::Ownership;

/// As in a shell, wildcards match neither slashes nor a leading dot.
const AS_SHELLS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The hash of an input's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct InputId(pub(super) u64);

/// A file to read, as it was found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Input {
    /// The input's name in the cursor: relative to the folder of the job file if the input lies in that folder.
    pub(super) name: PathBuf,
    /// The path to open.
    pub(super) path: PathBuf,
    pub(super) length: u64,
}

impl InputId {
    pub(super) fn of(name: &Path) -> Self {
        Self(xxh3_64(name.as_os_str().as_bytes()))
    }
}

impl Input {
    pub(super) fn id(&self) -> InputId {
        InputId::of(&self.name)
    }
}

/// All inputs of a job in the order of their names, each once. Patterns skip the job's own files; a path that names such
/// a file is an error.
pub(super) fn all(job: &Job) -> Result<Vec<Input>, Error> {
    let own = Ownership::of(job);
    let mut inputs = Vec::new();
    for pattern in &job.patterns {
        let literal = job.base.join(pattern);
        match literal.metadata() {
            Ok(metadata) if own.has(&literal, Some(&metadata)) => {
                return Err(Error::input(&plain(&literal), InputProblem::Own));
            }
            Ok(metadata) => inputs.push(input(job, &literal, &metadata)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                matches(job, &own, pattern, &mut inputs)?;
            }
            Err(error) => return Err(Error::of_input(&literal, "look at")(error)),
        }
    }
    inputs.sort();
    inputs.dedup_by(|a, b| a.name == b.name);
    Ok(inputs)
}

fn input(job: &Job, path: &Path, metadata: &Metadata) -> Result<Input, Error> {
    let path = plain(path);
    if metadata.is_dir() {
        let problem = InputProblem::Directory(path.clone());
        return Err(Error::input(&path, problem));
    }
    if !metadata.is_file() {
        return Err(Error::input(&path, InputProblem::NotRegular));
    }
    let name = path.strip_prefix(plain(&job.base)).unwrap_or(&path).to_owned();
    Ok(Input { name, path, length: metadata.len() })
}

/// The path without `.` components, so that all spellings of a file's name become one.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn matches(job: &Job, own: &Ownership, pattern: &str, inputs: &mut Vec<Input>) -> Result<(), Error> {
    let shown = job.base.join(pattern);
    if !pattern.contains(['*', '?', '[']) {
        return Err(Error::input(&shown, InputProblem::Missing));
    }
    // Wildcard characters in the name of the job's folder match only themselves.
    let whole = match job.base.to_str() {
        Some(base) => Path::new(&Pattern::escape(base)).join(pattern),
        None => shown.clone(),
    };
    let whole = whole.to_string_lossy();
    let paths = glob::glob_with(&whole, AS_SHELLS)
        .map_err(|error| Error::input(&shown, InputProblem::Pattern(error.msg)))?;
    let before = inputs.len();
    for path in paths {
        let path = path.map_err(|error| {
            let at = error.path().to_owned();
            Error::of_input(&at, "list")(error.into())
        })?;
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            // The file was removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => continue,
            Err(error) => return Err(Error::of_input(&path, "look at")(error)),
        };
        if !metadata.is_dir() && !own.has(&path, Some(&metadata)) {
            inputs.push(input(job, &path, &metadata)?);
        }
    }
    if inputs.len() == before {
        return Err(Error::input(&shown, InputProblem::NoMatch));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path, paths: &str) -> Result<Vec<String>, String> {
        let text = format!("[filter]\npath = 'f'\n[output]\nnew_keys = 'n'\n[input]\npaths = {paths}");
        let job = Job::parse(&text, dir.join("job.toml")).unwrap();
        let inputs = all(&job).map_err(|error| error.to_string())?;
        Ok(inputs.iter().map(|input| input.name.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn paths_and_patterns_are_sorted_and_each_file_is_taken_once() {
        let dir = tempfile::Builder::new().prefix("a[b]*").tempdir().unwrap();
        let own = ["f", "n", "f-lock", "f-journal", "f-gowk-new-1234567890abcdef", "job.toml"];
        for name in ["c.gz", "a.gz", "b.txt", ".hidden.gz", "x[1].txt"].into_iter().chain(own) {
            std::fs::write(dir.path().join(name), "k").unwrap();
        }
        std::fs::create_dir(dir.path().join("d.gz")).unwrap();
        std::fs::write(dir.path().join("d.gz/e.gz"), "k").unwrap();
        let names = |paths: &str| names(dir.path(), paths);
        assert_eq!(names("['*.gz', './a.gz', 'b.txt']").unwrap(), ["a.gz", "b.txt", "c.gz"]);
        assert_eq!(names("['**/*.gz']").unwrap(), ["a.gz", "c.gz", "d.gz/e.gz"]);
        assert_eq!(names("['x[1].txt']").unwrap(), ["x[1].txt"]);
        assert_eq!(names("['*']").unwrap(), ["a.gz", "b.txt", "c.gz", "x[1].txt"]);
        std::os::unix::fs::symlink("n", dir.path().join("another-name-of-n")).unwrap();
        assert_eq!(names("['[a]*']").unwrap(), ["a.gz"]);
        for own in own {
            let error = names(&format!("['a.gz', './{own}']")).unwrap_err();
            assert!(error.contains(&format!("/{own}: belongs to the job itself")), "{error}");
        }
        // An ordinary input: its name only begins like a temporary file's.
        std::fs::write(dir.path().join("f-new-keys.txt"), "k").unwrap();
        assert_eq!(names("['f-new*']").unwrap(), ["f-new-keys.txt"]);
        for (paths, problem) in [
            ("['no.gz']", "no such input"),
            ("['*.zip']", "no input matches"),
            ("['d.gz']", "is a directory; name its files, as in"),
            ("['***']", "not a pattern"),
            ("['?']", "no input matches"),
            ("['/dev/null']", "not a regular file"),
            ("['../nowhere/a']", "no such input"),
        ] {
            let error = names(paths).unwrap_err();
            assert!(error.contains(problem) && !error.contains('\n'), "{paths}: {error}");
        }
    }
}
