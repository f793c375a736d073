//! Formats that gowk does not read, recognized by their first bytes. Cut into lines, such a file would become millions of
//! wrong keys.
//!
//! A format is recognized only by a beginning that hardly any text has, so that no list of keys is refused: `BZh9` may be
//! a key, and begins bzip2 data only if the magic number of a block follows.

use std::fmt;

/// A format that gowk does not read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Foreign {
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// A frame of lz4.
    Lz4,
    /// A zip archive.
    Zip,
    /// A 7z archive.
    SevenZip,
    /// Parquet.
    Parquet,
    /// UTF-16 text, known by its byte order mark.
    Utf16,
    /// A filter of gowk.
    Filter,
}

/// Stands for any digit from 1 to 9, the level of bzip2.
const LEVEL: u8 = b'#';

/// How files of each format begin. In bzip2, after `BZh` and the level comes the magic number of the first block, or of
/// the end if there are no blocks. In Parquet, a page or the footer follows `PAR1`; its first field is an integer.
const BEGINNINGS: [(&[u8], Foreign); 13] = [
    (b"BZh#\x31\x41\x59\x26\x53\x59", Foreign::Bzip2),
    (b"BZh#\x17\x72\x45\x38\x50\x90", Foreign::Bzip2),
    (b"\xfd7zXZ\0", Foreign::Xz),
    (b"\x04\x22\x4d\x18", Foreign::Lz4),
    (b"\x02\x21\x4c\x18", Foreign::Lz4),
    (b"PK\x03\x04", Foreign::Zip),
    (b"PK\x05\x06", Foreign::Zip),
    (b"PK\x07\x08", Foreign::Zip),
    (b"7z\xbc\xaf\x27\x1c", Foreign::SevenZip),
    (b"PAR1\x15", Foreign::Parquet),
    // No byte of UTF-8 text is 0xfe or 0xff.
    (b"\xff\xfe", Foreign::Utf16),
    (b"\xfe\xff", Foreign::Utf16),
    (b"\x89gowk\r\n\x1a", Foreign::Filter),
];

impl Foreign {
    /// How many leading bytes suffice to recognize every format.
    pub const BYTES: usize = 10;

    /// The format of a file with this beginning; `None` if it is another format, or there are too few bytes.
    pub fn of(first: &[u8]) -> Option<Self> {
        let found = BEGINNINGS.iter().find(|(magic, _)| first.len() >= magic.len() && agree(magic, first));
        found.map(|(_, format)| *format)
    }

    /// Whether [`of`](Self::of) needs more bytes than these to decide.
    pub fn is_open(first: &[u8]) -> bool {
        BEGINNINGS.iter().any(|(magic, _)| first.len() < magic.len() && agree(magic, first))
    }

    /// The command that writes the content of such a file to its standard output, without the name of the file. `None`
    /// for Parquet, whose columns no unpacker turns into lines, and for filters, which hold no keys as text.
    pub const fn unpacker(self) -> Option<&'static str> {
        self.known().1
    }

    /// The name of the format, and its unpacker.
    const fn known(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Bzip2 => ("bzip2", Some("bzip2 -dc")),
            Self::Xz => ("xz", Some("xz -dc")),
            Self::Lz4 => ("lz4", Some("lz4 -dc")),
            Self::Zip => ("zip", Some("unzip -p")),
            Self::SevenZip => ("7z", Some("7z x -so")),
            Self::Parquet => ("Parquet", None),
            Self::Utf16 => ("UTF-16", Some("iconv -f UTF-16 -t UTF-8")),
            Self::Filter => ("gowk filter", None),
        }
    }
}

/// The format's name.
impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.known().0)
    }
}

/// Whether the two agree up to the length of the shorter one.
fn agree(magic: &[u8], first: &[u8]) -> bool {
    let mut both = magic.iter().zip(first);
    both.all(|(magic, byte)| if *magic == LEVEL { (b'1'..=b'9').contains(byte) } else { magic == byte })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&[u8], Foreign); 10] = [
        (b"BZh91AY&SY\x12", Foreign::Bzip2),
        (b"BZh1\x17\x72\x45\x38\x50\x90\0\0\0\0", Foreign::Bzip2),
        (b"\xfd7zXZ\0\0\x04", Foreign::Xz),
        (b"\x04\x22\x4d\x18\x64", Foreign::Lz4),
        (b"PK\x03\x04\x14", Foreign::Zip),
        (b"7z\xbc\xaf\x27\x1c\0\x04", Foreign::SevenZip),
        (b"PAR1\x15\x04\x15", Foreign::Parquet),
        (b"\xff\xfea\0\n\0", Foreign::Utf16),
        (b"\xfe\xff\0a\0\n", Foreign::Utf16),
        (b"\x89gowk\r\n\x1a\0", Foreign::Filter),
    ];

    #[test]
    fn a_format_is_known_by_its_whole_beginning_alone() {
        for (bytes, format) in WHOLE {
            assert_eq!(Foreign::of(bytes), Some(format), "{format}");
            assert!(!Foreign::is_open(bytes), "{format}");
            // The shortest beginning that shows the format. Fewer bytes leave it open, and `of` returns no format.
            let known = (0..=bytes.len()).find(|length| Foreign::of(&bytes[..*length]).is_some()).unwrap();
            assert!((2..=Foreign::BYTES).contains(&known), "{format}: {known}");
            for length in 0..known {
                assert!(Foreign::is_open(&bytes[..length]), "{format}: {length}");
                let mut other = bytes[..known].to_vec();
                other[length] ^= 0x80;
                assert_eq!(
                    (Foreign::of(&other), Foreign::is_open(&other)),
                    (None, false),
                    "{format}: {length}"
                );
            }
        }
    }

    #[test]
    fn text_is_no_format() {
        for text in ["BZh9", "BZh01AY&SY", "BZh#1AY&SY", "PAR1\n", "PAR1", "PK\n", "PK", "7z\n", "7zip", ""] {
            assert_eq!(Foreign::of(text.as_bytes()), None, "{text:?}");
        }
        for text in ["BZh9\n", "PAR1\n", "PK\n", "7z\n", "a", "\n"] {
            assert!(!Foreign::is_open(text.as_bytes()), "{text:?}");
        }
    }
}
