//! Callers' keys and arrays.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use crate::error::Failure;

/// A key: `length` bytes from `data` on, any bytes. `data` may be NULL if `length` is 0; the empty key is a key. An
/// array of keys may be NULL if its `count` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gowk_key {
    /// The first byte.
    pub data: *const c_void,
    /// How many bytes.
    pub length: usize,
}

/// The key was not there, and is now.
pub const GOWK_NEW: u8 = 1;
/// The key was there already (or, at the filter's false-positive rate, matched another key). A counting filter has
/// stored one more copy.
pub const GOWK_KNOWN: u8 = 0;
/// Only with times: the time of the key is so long ago that the filter keeps no keys of that time any more. It was not
/// stored.
pub const GOWK_LATE: u8 = 2;
/// Only with times: the time of the key is more than five minutes in the future. It was not stored.
pub const GOWK_EARLY: u8 = 3;
/// There was no room for the key; it was not stored.
pub const GOWK_REFUSED: u8 = 4;

/// A checked key of an array.
#[repr(transparent)]
pub(crate) struct Checked(gowk_key);

// SAFETY: the bytes are only read, and the caller promises that nobody changes them during the call.
unsafe impl Sync for Checked {}

impl AsRef<[u8]> for Checked {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let gowk_key { data, length } = self.0;
        if length == 0 {
            return &[];
        }
        // SAFETY: `check` has found that it is neither NULL nor too long. The caller promises that it points to that many
        // bytes.
        unsafe { std::slice::from_raw_parts(data.cast(), length) }
    }
}

fn is_right(key: &gowk_key) -> bool {
    key.length == 0 || !key.data.is_null() && key.length <= isize::MAX as usize
}

/// The bytes of one key, or of a value.
///
/// # Safety
///
/// Unless `length` is 0 or `data` NULL, `data` points to that many bytes, and nobody changes them for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    match is_right(&gowk_key { data, length }) {
        true if length == 0 => Ok(&[]),
        // SAFETY: not NULL and not too long; the rest is the caller's promise.
        true => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        false => Err(Failure::invalid(format!("the bytes are NULL, and their length is {length}"))),
    }
}

/// A caller's array.
///
/// # Safety
///
/// Unless `count` is 0 or `first` NULL, `first` points to that many elements, and nobody changes them for `'a`.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() || !first.is_aligned() {
        return Err(Failure::invalid(format!("{name} is no array of {count} elements")));
    }
    // SAFETY: not NULL, aligned, and not too long; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// An array of keys.
///
/// # Safety
///
/// As for [`array`] and, of each key, for [`bytes`].
pub(crate) unsafe fn keys<'a>(first: *const gowk_key, count: usize) -> Result<&'a [Checked], Failure> {
    // SAFETY: the caller's promise.
    let keys = unsafe { array(first, count, "the array of keys") }?;
    if let Some(index) = keys.iter().position(|key| !is_right(key)) {
        return Err(Failure::invalid(format!("the bytes of key {index} are NULL, and its length is not 0")));
    }
    // SAFETY: `Checked` is a transparent wrapper.
    Ok(unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), keys.len()) })
}

/// How many keys a part has. As an array, this many stay in a processor's own cache until they are read.
const TOGETHER: usize = 4096;

/// Keys that lie one after the other, and where each ends. The ends never descend, and the last is the end of the bytes.
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    ends: &'a [u64],
}

/// Keys that lie one after the other.
///
/// # Safety
///
/// As for [`array`], and for [`bytes`] with the last end as the length.
pub(crate) unsafe fn packed<'a>(
    data: *const c_void,
    ends: *const u64,
    count: usize,
) -> Result<Packed<'a>, Failure> {
    // SAFETY: the caller's promise.
    let ends = unsafe { array(ends, count, "the array of ends") }?;
    if let Some(index) = ends.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(Failure::invalid(format!(
            "key {} ends at {}, before key {index} ends, at {}",
            index + 1,
            ends[index + 1],
            ends[index]
        )));
    }
    let length = ends.last().map_or(0, |end| usize::try_from(*end).unwrap_or(usize::MAX));
    // SAFETY: the caller's promise.
    Ok(Packed { bytes: unsafe { bytes(data, length) }?, ends })
}

impl Packed<'_> {
    /// Calls with one part of the keys after the other, and with the index of its first key, until a call fails. Calls
    /// once if there are no keys.
    pub(crate) fn in_parts(
        &self,
        mut call: impl FnMut(usize, &[Checked]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut part = Vec::with_capacity(self.ends.len().min(TOGETHER));
        let (mut first, mut begin) = (0, 0);
        loop {
            let ends = &self.ends[first..self.ends.len().min(first + TOGETHER)];
            part.clear();
            part.extend(ends.iter().map(|end| {
                // The cast fits, as that of the last end does.
                let end = *end as usize;
                let key = self.bytes.get(begin..end).unwrap_or_default();
                begin = end;
                Checked(gowk_key { data: key.as_ptr().cast(), length: key.len() })
            }));
            call(first, &part)?;
            first += ends.len();
            if first == self.ends.len() {
                return Ok(());
            }
        }
    }
}

/// An array for a call's results, one byte a key, at first all [`GOWK_KNOWN`]; empty if the caller passed NULL.
///
/// # Safety
///
/// Unless it is NULL, there is room for `count` bytes from `first` on, which nobody else uses for `'a`.
pub(crate) unsafe fn results<'a>(first: *mut u8, count: usize) -> &'a mut [u8] {
    if first.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise; the bytes may be uninitialized.
    let places = unsafe { std::slice::from_raw_parts_mut(first.cast::<MaybeUninit<u8>>(), count) };
    places.iter_mut().for_each(|place| _ = place.write(GOWK_KNOWN));
    // SAFETY: the same bytes, all of them written.
    unsafe { std::slice::from_raw_parts_mut(first, count) }
}

/// Copies as many bytes of a value as fit, and returns the value's length.
///
/// # Safety
///
/// Unless `buffer` is NULL, there is room for `capacity` bytes, which nobody else uses.
pub(crate) unsafe fn copy_out(value: &[u8], buffer: *mut c_void, capacity: usize) -> i64 {
    if !buffer.is_null() {
        // SAFETY: at most as many bytes are written as there is room for; the value is the library's own.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len().min(capacity)) };
    }
    value.len() as i64
}

/// Stores the result of the key with this index, if the caller wants results.
pub(crate) fn note(results: &mut [u8], index: usize, result: u8) {
    results.get_mut(index).into_iter().for_each(|place| *place = result);
}
