//! Rows of keys in memory, as slices of bytes, without copying them. Some rows may be null.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

/// Keys one after the other, copied from Python objects.
#[derive(Default)]
pub(crate) struct Flat {
    bytes: Vec<u8>,
    /// Where each row ends. A null has no bytes.
    ends: Vec<usize>,
    /// The rows that are null, ascending.
    nulls: Vec<u32>,
}

impl Flat {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.ends.len() as u32);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.nulls.clear();
    }
}

/// Some rows of keys.
pub(crate) enum Rows<'a> {
    Flat(&'a Flat),
    /// Keys of equal width. NumPy may pad them with NULs.
    Fixed {
        bytes: &'a [u8],
        width: usize,
        rows: usize,
        is_padded: bool,
    },
    /// An array of a type accepted by `is_of_keys`.
    Arrow(ArrayRef),
}

impl Rows<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Flat(flat) => flat.len(),
            Self::Fixed { rows, .. } => *rows,
            Self::Arrow(array) => array.len(),
        }
    }

    /// The keys; if some rows are null, also the row of each key.
    pub(crate) fn keys(&self) -> (Vec<&[u8]>, Option<Vec<u32>>) {
        match self {
            Self::Flat(Flat { bytes, ends, nulls }) => {
                let mut start = 0;
                let keys = ends.iter().map(|&end| {
                    let key = &bytes[start..end];
                    start = end;
                    key
                });
                if nulls.is_empty() {
                    return (keys.collect(), None);
                }
                let present = (0..).zip(keys).filter(|(row, _)| nulls.binary_search(row).is_err());
                let (rows, keys) = present.unzip();
                (keys, Some(rows))
            }
            Self::Fixed { width: 0, rows, .. } => (vec![&[]; *rows], None),
            Self::Fixed { bytes, width, is_padded: true, .. } => {
                (bytes.chunks_exact(*width).map(unpadded).collect(), None)
            }
            Self::Fixed { bytes, width, .. } => (bytes.chunks_exact(*width).collect(), None),
            Self::Arrow(array) => keys_of(array),
        }
    }
}

fn unpadded(key: &[u8]) -> &[u8] {
    let length = key.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &key[..length]
}

/// Whether arrays of this type hold keys.
pub(crate) fn is_of_keys(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            true
        }
        DataType::Null => true,
        DataType::Dictionary(_, values) => is_of_keys(values),
        _ => false,
    }
}

fn keys_of(array: &dyn Array) -> (Vec<&[u8]>, Option<Vec<u32>>) {
    match array.data_type() {
        DataType::Utf8 => present(array, of_offsets(array.as_string::<i32>())),
        DataType::LargeUtf8 => present(array, of_offsets(array.as_string::<i64>())),
        DataType::Binary => present(array, of_offsets(array.as_binary::<i32>())),
        DataType::LargeBinary => present(array, of_offsets(array.as_binary::<i64>())),
        DataType::Utf8View => {
            let array = array.as_string_view();
            present(array, (0..array.len()).map(|row| array.value(row).as_bytes()))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            present(array, (0..array.len()).map(|row| array.value(row)))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            present(array, (0..array.len()).map(|row| array.value(row)))
        }
        DataType::Dictionary(..) => of_dictionary(array),
        // All rows are null.
        _ => (Vec::new(), Some(Vec::new())),
    }
}

fn of_offsets<T: ByteArrayType>(array: &GenericByteArray<T>) -> impl Iterator<Item = &[u8]> {
    let data = array.value_data();
    // Arrow checks the offsets of arrays made here, but not of arrays from other libraries.
    let key = |pair: &[T::Offset]| match pair {
        [start, end] => data.get(start.as_usize()..end.as_usize()).unwrap_or_default(),
        _ => &[],
    };
    array.value_offsets().windows(2).map(key)
}

/// The keys of the rows that are not null.
fn present<'a>(array: &dyn Array, keys: impl Iterator<Item = &'a [u8]>) -> (Vec<&'a [u8]>, Option<Vec<u32>>) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (keys.collect(), None),
        Some(nulls) => {
            let valid = (0..).zip(keys).zip(nulls.iter()).filter(|(_, valid)| *valid);
            let (rows, keys) = valid.map(|(row_and_key, _)| row_and_key).unzip();
            (keys, Some(rows))
        }
    }
}

fn of_dictionary(array: &dyn Array) -> (Vec<&[u8]>, Option<Vec<u32>>) {
    let array = array.as_any_dictionary();
    let (values, places) = keys_of(array.values().as_ref());
    let mut by_index: Vec<Option<&[u8]>> = vec![None; array.values().len()];
    match places {
        None => by_index.iter_mut().zip(values).for_each(|(place, value)| *place = Some(value)),
        Some(places) => {
            places.iter().zip(values).for_each(|(&place, value)| by_index[place as usize] = Some(value))
        }
    }
    let (mut keys, mut rows) = (Vec::with_capacity(array.len()), Vec::with_capacity(array.len()));
    // If a dictionary has no values, all rows are null.
    if !by_index.is_empty() {
        let indices = array.normalized_keys();
        for (row, index) in (0..).zip(indices) {
            if let Some(key) = by_index[index].filter(|_| array.keys().is_valid(row as usize)) {
                keys.push(key);
                rows.push(row);
            }
        }
    }
    let all = rows.len() == array.len();
    (keys, (!all).then_some(rows))
}
