//! Invariants checked: keys are those that DuckDB finds in the column; a row without a value is a record without a key. A
//! damaged file never causes a panic: it is an error that names the file and the place, or is read as far as its
//! checksums allow. A cut file is an error at each length. Times are those of the columns' types.
//!
//! `crates/cli/tests/parquet/make.py` made the files.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::UNIX_EPOCH;

use parquet::data_type::{ByteArrayType, Int32Type, Int64Type, Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::time::{KeyTime, TimeKind};

const FILES: [&str; 8] = [
    "duckdb-snappy",
    "duckdb-zstd",
    "duckdb-gzip",
    "duckdb-brotli",
    "duckdb-lz4",
    "arrow-v1",
    "arrow-v2",
    "arrow-groups",
];
const ROWS: usize = 40;

fn millis(time: KeyTime) -> u128 {
    let KeyTime::Seen(time) = time else { panic!("{time:?}") };
    time.duration_since(UNIX_EPOCH).unwrap().as_millis()
}

fn bytes(file: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/parquet");
    std::fs::read(format!("{folder}/{file}")).unwrap()
}

/// All rows: the key of each, or `None`.
fn rows(bytes: &[u8], column: &str) -> Result<Vec<Option<String>>, Error> {
    let found = read(bytes, &Rules::new(Format::parquet(column)))?;
    assert!(found.iter().all(|(_, skip, time)| !matches!(skip, Some(Skip::NoTime)) && time.is_none()));
    Ok(found.into_iter().map(|(key, skip, _)| skip.is_none().then_some(key)).collect())
}

/// The times of the keys in the column `id` of all rows, in milliseconds; `None` for a row without one.
fn times(bytes: &[u8], column: &str) -> Result<Vec<Option<u128>>, Error> {
    let found = read(bytes, &Rules::new(Format::parquet("id")).with_time(column, TimeKind::Seen).unwrap())?;
    let of = |(key, skip, time): (String, _, Option<u128>)| {
        assert_eq!((skip, key.is_empty()), (time.is_none().then_some(Skip::NoTime), false));
        time
    };
    Ok(found.into_iter().map(of).collect())
}

/// All rows: their records, why they have no key, and their times in milliseconds.
type Rows = Vec<(String, Option<Skip>, Option<u128>)>;

fn read(bytes: &[u8], rules: &Rules) -> Result<Rows, Error> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let mut parquet = Parquet::new("x.parquet".into(), file, rules, Arc::default())?;
    let mut rows = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while let Some(found) = parquet.next()? {
        rows.push(match found {
            Found::Key { key, record, time } => {
                assert_eq!(key, record);
                (text(key), None, time.map(millis))
            }
            Found::Skipped { skip, record } => {
                assert!(matches!(skip, Skip::NoField | Skip::NoTime));
                (text(record), Some(skip), None)
            }
        });
        assert_eq!(parquet.line(), rows.len() as u64);
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
        // A struct that is null, and a struct whose field is null.
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
    for text in [&b""[..], b"PAR", b"https://example.org/\n", b"PARE"] {
        assert!(refused(text, "url").contains("is no Parquet file"));
    }
}

/// A file with a column `id`, and a column of each type that a time may have. All columns are null in the last row.
fn timed() -> Vec<u8> {
    let schema = "message rows {
        optional int64 id; optional int64 ms (TIMESTAMP(MILLIS,true)); optional int64 us (TIMESTAMP(MICROS,false));
        optional int64 ns (TIMESTAMP(NANOS,true)); optional int64 old_ms (TIMESTAMP_MILLIS);
        optional int64 old_us (TIMESTAMP_MICROS); optional int32 date (DATE); optional int96 spark;
        optional int64 number; optional int32 seconds; optional binary text (STRING);
    }";
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    // Row by row: after 1970; with a fraction of a second; before 1970; later than any time that is accepted; null.
    let levels = Some(&[1, 1, 1, 1, 0][..]);
    let millis = [1_777_809_600_000, 1_777_809_600_250, -1_500, 100_000_000_000_000_000];
    // 2262 is the last year of nanoseconds.
    let nanos = [millis[0] * 1_000_000, millis[1] * 1_000_000, millis[2] * 1_000_000, i64::MAX];
    // The Julian day of 1970-01-01 is 2440588, and 2026-05-03 is 20576 days later.
    let noon = 43_200_000_000_000_u64;
    let days = [(2_461_164, noon), (2_461_164, noon + 250_000_000), (2_440_587, noon), (u32::MAX, 0)];
    let int96 = days.map(|(day, nanos)| {
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day);
        value
    });
    let texts = ["2026-05-03T12:00:00Z", "2026-05-03T14:00:00.25+02:00", "yesterday", ""].map(Into::into);
    let mut index = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        let micros = millis.map(|time: i64| time.saturating_mul(1000));
        let int64: Option<&[i64]> = match index {
            0 => Some(&[1, 2, 3, 4, 5]),
            1 | 4 => Some(&millis),
            2 | 5 => Some(&micros),
            3 => Some(&nanos),
            8 => Some(&[1_777_809_600, 1_777_809_600_250, -1, 100_000_000_000_000]),
            _ => None,
        };
        let levels = if index == 0 { Some(&[1; 5][..]) } else { levels };
        let written = match (int64, index) {
            (Some(values), _) => column.typed::<Int64Type>().write_batch(values, levels, None),
            (None, 6) => {
                column.typed::<Int32Type>().write_batch(&[20_576, 20_577, -1, i32::MAX], levels, None)
            }
            (None, 7) => column.typed::<Int96Type>().write_batch(&int96, levels, None),
            (None, 9) => column.typed::<Int32Type>().write_batch(&[1_777_809_600, 0, -1, 1], levels, None),
            (None, _) => column.typed::<ByteArrayType>().write_batch(&texts, levels, None),
        };
        assert_eq!(written.unwrap(), 4 + usize::from(index == 0));
        column.close().unwrap();
        index += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn times_are_what_the_type_of_their_column_says() {
    let (at, part) = (Some(1_777_809_600_000), Some(1_777_809_600_250));
    let bytes_of = timed();
    for (column, expected) in [
        ("ms", [at, part, Some(0), None]),
        ("us", [at, part, Some(0), None]),
        ("ns", [at, part, Some(0), Some(9_223_372_036_854)]),
        ("old_ms", [at, part, Some(0), None]),
        ("old_us", [at, part, Some(0), None]),
        ("date", [Some(1_777_766_400_000), Some(1_777_852_800_000), Some(0), None]),
        ("spark", [at, part, Some(0), None]),
        ("number", [at, part, None, Some(100_000_000_000)]),
        ("seconds", [at, Some(0), None, Some(1000)]),
        ("text", [at, part, None, None]),
    ] {
        let found = times(&bytes_of, column).unwrap();
        assert_eq!(found, [&expected[..], &[None]].concat(), "{column}");
    }
    // DuckDB and Arrow write this as days from 2026-01-01 on.
    let days = (10..50).map(|day| Some((1_767_225_600 + 86_400 * day) * 1000));
    for file in FILES {
        let bytes = bytes(&format!("{file}.parquet"));
        assert_eq!(times(&bytes, "at").unwrap(), days.clone().collect::<Vec<_>>(), "{file}");
        assert_eq!(times(&bytes, "id").unwrap()[..2], [Some(10_000), Some(11_000)]);
    }
}

#[test]
fn each_key_has_the_time_of_its_row() {
    let timed = Rules::new(Format::parquet("url")).with_time("at", TimeKind::Seen).unwrap();
    for file in FILES {
        let rows = read(&bytes(&format!("{file}.parquet")), &timed).unwrap();
        for (day, (key, skip, time)) in (10..).zip(&rows) {
            let expected = (1_767_225_600 + 86_400 * day) * 1000;
            let has_key = day % 7 != 3;
            assert_eq!((skip.is_none(), *time), (has_key, has_key.then_some(expected)), "{file} {key}");
        }
    }
    // The batches of the two columns end at different rows, since keys are long: batches of 5242 rows and of 8192.
    let rows = 20_000;
    let schema = "message rows { required binary id (STRING); required int64 at (TIMESTAMP(MILLIS,true)); }";
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(parse_message_type(schema).unwrap()), Arc::default())
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let keys: Vec<_> = (0..rows).map(|row| format!("{row:0200}").as_str().into()).collect();
    column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let at: Vec<i64> = (0..rows).map(|row| row * 1000).collect();
    column.typed::<Int64Type>().write_batch(&at, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let found = times(&bytes, "at").unwrap();
    assert_eq!(found, (0..rows as u128).map(|row| Some(row * 1000)).collect::<Vec<_>>());
}

#[test]
fn a_column_that_is_no_time_is_refused_by_its_type() {
    let bytes = bytes("arrow-v1.parquet");
    for (column, words) in [
        ("uuid", "its column uuid has values of the type UUID, which are no times"),
        ("even", "its column even has values of the type BOOLEAN"),
        ("ratio", "its column ratio has values of the type DOUBLE"),
        ("many.list.element", "has lists, which are no times"),
        ("when", "has no column \"when\"; its columns are: id, url"),
    ] {
        let error = times(&bytes, column).unwrap_err().to_string();
        assert!(error.starts_with("x.parquet: ") && error.contains(words), "{error}");
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
    let (mut found, mut read, mut panics, mut timed) = (0, 0, 0, 0);
    let is_of_rows = |error: &Error| error.to_string().contains("damaged Parquet data, rows ");
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
                    if flip == 0xff && column == "even" {
                        let _ = times(&damaged, "at").map_err(|error| timed += u32::from(is_of_rows(&error)));
                    }
                }
            }
        }
    }
    // Most bytes belong to other columns.
    assert!(found > 1000 && read > 1000, "{found} errors, {read} times the same rows");
    // If no file here makes the decoder panic, this test does not show that such panics are caught.
    assert!(panics > 0 && timed > 100, "{panics} panics, {timed} errors of times");
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
            // Damage in the name of another column, or in statistics.
            Ok(rows) => assert_eq!(rows, whole, "{place}"),
        }
    }
    assert!(found > 50, "{found}");
}
