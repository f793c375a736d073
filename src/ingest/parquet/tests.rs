//! Invariants checked: keys are what DuckDB finds in the column; a row without a value is a record without a key; a
//! damaged file is an error that names the file and the place, or is read as far as its checksums allow, and never a
//! panic; of a file that is cut, no key is taken for the end.
//!
//! `cli/tests/parquet/make.py` has made the files.

use std::fmt::Write as _;
use std::io::Write as _;

use super::*;

const FILES: [&str; 6] =
    ["duckdb-snappy", "duckdb-zstd", "duckdb-gzip", "arrow-v1", "arrow-v2", "arrow-groups"];
const ROWS: usize = 40;

fn bytes(file: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/tests/parquet");
    std::fs::read(format!("{folder}/{file}")).unwrap()
}

/// All rows: the key of each, or `None`.
fn rows(bytes: &[u8], column: &str) -> Result<Vec<Option<String>>, Error> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let rules = Rules::new(Format::parquet(column));
    let mut parquet = Parquet::new("x.parquet".into(), file, &rules, Arc::default())?;
    let mut rows = Vec::new();
    while let Some(found) = parquet.next()? {
        rows.push(match found {
            Found::Key { key, record, .. } => {
                assert_eq!(key, record);
                Some(String::from_utf8_lossy(key).into_owned())
            }
            Found::Skipped { skip, .. } => {
                assert_eq!(skip, Skip::NoField);
                None
            }
        });
        assert_eq!(parquet.row(), rows.len() as u64);
    }
    assert_eq!(parquet.read.load(Ordering::Relaxed), bytes.len() as u64);
    Ok(rows)
}

fn refused(bytes: &[u8], column: &str) -> String {
    rows(bytes, column).unwrap_err().to_string()
}

#[test]
fn keys_are_the_values_that_duckdb_finds_in_the_column() {
    for column in ["url", "user.name", "id", "big", "small", "uuid", "even", "bytes"] {
        let expected = String::from_utf8(bytes(&format!("{column}.txt"))).unwrap();
        for file in FILES {
            let rows = rows(&bytes(&format!("{file}.parquet")), column).unwrap();
            assert_eq!(rows.len(), ROWS, "{file} {column}");
            let mut seen = std::collections::HashSet::new();
            let distinct = rows.into_iter().flatten().filter(|key| seen.insert(key.clone()));
            let found = distinct.fold(String::new(), |mut all, key| {
                writeln!(all, "{key}").unwrap();
                all
            });
            assert_eq!(found, expected, "{file} {column}");
        }
    }
}

#[test]
fn a_row_without_a_value_is_a_record_without_a_key() {
    for file in FILES {
        let bytes = bytes(&format!("{file}.parquet"));
        let nulls = |column| rows(&bytes, column).unwrap().iter().filter(|row| row.is_none()).count();
        assert_eq!(nulls("url"), (10..50).filter(|n| n % 7 == 3).count(), "{file}");
        // A struct that is null, and a struct whose field is.
        assert_eq!(nulls("user.name"), (10..50).filter(|n| n % 5 == 4 || n % 4 == 1).count(), "{file}");
        assert_eq!(nulls("id"), 0, "{file}");
    }
}

#[test]
fn a_column_that_is_no_key_is_refused_by_its_type() {
    let bytes_of = bytes("duckdb-zstd.parquet");
    for (column, words) in [
        ("at", &["its column at has values of the type TIMESTAMP", "at::text"][..]),
        ("ratio", &["DOUBLE"]),
        ("many.list.element", &["has lists"]),
        ("user", &["has no column \"user\"", "id, url, user.name, big"]),
        ("link", &["has no column \"link\""]),
        ("", &["has no column"]),
    ] {
        let error = refused(&bytes_of, column);
        assert!(error.starts_with("x.parquet: ") && words.iter().all(|word| error.contains(word)), "{error}");
    }
    let error = refused(&bytes("duckdb-brotli.parquet"), "url");
    assert!(error.contains("url is compressed as BROTLI"), "{error}");
    for text in [&b""[..], b"PAR", b"https://example.org/\n", b"PARE"] {
        assert!(refused(text, "url").contains("is no Parquet file"));
    }
}

#[test]
fn a_file_that_is_cut_is_an_error_at_each_length() {
    for file in FILES {
        let all = bytes(&format!("{file}.parquet"));
        for length in 4..all.len() {
            let error = refused(&all[..length], "url");
            assert!(error.starts_with("x.parquet: damaged Parquet data, its footer: "), "{length}: {error}");
        }
    }
}

#[test]
fn no_damaged_byte_is_a_panic() {
    let (mut found, mut read, mut panics) = (0, 0, 0);
    for file in FILES {
        let all = bytes(&format!("{file}.parquet"));
        for column in ["url", "even"] {
            let whole = rows(&all, column).unwrap();
            for place in 0..all.len() {
                for flip in [0x02, 0xff] {
                    let mut damaged = all.clone();
                    damaged[place] ^= flip;
                    match rows(&damaged, column) {
                        Err(error) => {
                            let error = error.to_string();
                            assert!(error.starts_with("x.parquet: ") && !error.contains('\n'), "{error}");
                            panics += u32::from(error.contains("it cannot be decoded"));
                            found += 1;
                        }
                        Ok(rows) => read += usize::from(rows == whole),
                    }
                }
            }
        }
    }
    // Most bytes are of other columns.
    assert!(found > 1000 && read > 1000, "{found} errors, {read} times the same rows");
    // Else no file here makes the decoder panic, and nothing shows that such a panic is caught.
    assert!(panics > 0);
}

#[test]
fn checksums_show_each_damaged_byte_of_the_column() {
    let all = bytes("arrow-v2.parquet");
    let whole = rows(&all, "url").unwrap();
    let mut found = 0;
    for place in 0..all.len() {
        let mut damaged = all.clone();
        damaged[place] ^= 0x04;
        match rows(&damaged, "url") {
            Err(error) => found += usize::from(error.to_string().contains("checksum")),
            // A damaged name of another column, or statistics.
            Ok(rows) => assert_eq!(rows, whole, "{place}"),
        }
    }
    assert!(found > 50, "{found}");
}
