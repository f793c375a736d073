//! Inputs from the sample of URLs, job files, and the results of a job.

use std::io::{Read, Write};
use std::path::Path;

use gowk::Reader;

use crate::run::Folder;

pub(crate) const URLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/urls.txt.gz");

/// The 20,000 lines of the sample.
pub(crate) fn urls() -> String {
    gunzip(Path::new(URLS))
}

pub(crate) fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn numbers(range: std::ops::Range<u32>) -> String {
    range.map(|n| format!("key {n}\n")).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

pub(crate) fn unzstd(bytes: &[u8]) -> Vec<u8> {
    zstd::decode_all(bytes).unwrap()
}

impl Folder {
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn append(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut file = std::fs::File::options().append(true).open(self.path(name)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// Writes a `job.toml` for the filter `f` and the output `new`, with a seed, and with commits only by keys. A last
    /// line without an end is read at once, unless `input` says otherwise.
    pub(crate) fn job(&self, input: &str, every_keys: u32) {
        let settle = if input.contains("settle") { "" } else { "settle = \"0s\"\n" };
        let text = format!(
            "[filter]\npath = \"f\"\ncapacity = 1000\nslots_per_bucket = 2\nseed = 7\n\
             [input]\n{settle}{input}\n\
             [commit]\nevery_keys = {every_keys}\nevery_seconds = 0\n\
             [output]\nnew_keys = \"new\"\n"
        );
        self.write("job.toml", text);
    }

    /// Runs `job.toml` to its end. Returns the summary.
    #[track_caller]
    pub(crate) fn ingest(&self) -> serde_json::Value {
        let ended = self.run(&["ingest", "job.toml", "--json"], "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    }

    pub(crate) fn left(&self, output: &str) -> Left {
        Left::of(&self.path("f"), &self.path(output))
    }
}

/// The results that must not depend on kills.
#[derive(PartialEq, Eq)]
pub(crate) struct Left {
    /// All buckets.
    buckets: Vec<u8>,
    metadata: Vec<(String, Vec<u8>)>,
    pub(crate) output: Vec<u8>,
    pub(crate) entries: u64,
    pub(crate) generation: u32,
}

impl Left {
    fn of(filter: &Path, output: &Path) -> Self {
        let reader = Reader::open(filter).unwrap();
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
        let info = reader.info().unwrap();
        let file = std::fs::read(filter).unwrap();
        let buckets = file[file.len() - 65_536 * info.regions as usize..].to_vec();
        let metadata = reader.metadata().unwrap();
        let metadata = metadata.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        let output = std::fs::read(output).unwrap();
        Self { buckets, metadata, output, entries: info.entries, generation: info.generation }
    }

    #[track_caller]
    pub(crate) fn assert_same(&self, other: &Self) {
        assert_eq!(self.entries, other.entries);
        assert_eq!(self.generation, other.generation);
        assert!(self.buckets == other.buckets, "the buckets differ");
        assert_eq!(self.metadata, other.metadata);
        assert!(self.output == other.output, "the outputs differ");
    }
}
