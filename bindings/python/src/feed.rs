//! Feeds many keys, from any Python object that holds them, into one operation: in chunks, without the GIL. If the
//! operation stops early, the exception says which keys were taken.
//!
//! | keys | how they are read |
//! |---|---|
//! | Arrow arrays and streams | as slices of their own buffers |
//! | NumPy arrays of dtype `S`, `U` and `V` | copied in chunks, as other threads may write to them during the call |
//! | lists, tuples, object arrays, any other iterable | each key's bytes are copied, with the GIL |

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use gowk::{Error, ErrorKind, store};
use pyo3::exceptions::{PyImportError, PyMemoryError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use pyo3_arrow::input::AnyArray;

use crate::failure::raised;
use crate::key::{bytes_of, is_of_bytes};
use crate::process::Calling;
use crate::rows::{Flat, Rows, is_of_keys};

/// How many bytes of keys are copied at a time.
const BYTES: usize = 16 << 20;

/// An operation on keys.
pub(crate) trait Operation: Send {
    /// The answer for one row; its default is the answer for a null.
    type Answer: Copy + Default + Send + 'static;

    /// What a caller can do after an error with the keys taken before it; `None` if the operation changes nothing.
    fn afterwards(&self) -> Option<&'static str> {
        None
    }

    /// The rows of one chunk.
    fn rows(&self) -> usize;

    /// Takes some keys and appends one answer for each. After an error, the answers are valid only if every key has one.
    fn take(&mut self, keys: &[&[u8]], answers: &mut Vec<Self::Answer>) -> Result<(), Stopped>;
}

/// Why an operation ended early.
pub(crate) enum Stopped {
    /// The filter as a whole failed, and some of the keys may have been taken.
    Failed(store::Error),
    /// Some keys were refused, and all other keys were taken.
    Refused { first: usize, refused: usize, cause: gowk::Error },
    /// The writer is not usable now. No key was taken.
    Raised(PyErr),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<store::Error> for Stopped {
    fn from(error: store::Error) -> Self {
        Self::Failed(error)
    }
}

/// Feeds all keys to the operation, and returns its answers.
pub(crate) fn feed<O: Operation>(keys: &Bound<'_, PyAny>, operation: O) -> PyResult<Vec<O::Answer>> {
    let mut feeder =
        Feeder { operation, answers: Vec::new(), found: Vec::new(), done: 0, doubtful: 0, refused: None };
    match feeder.all(keys) {
        Ok(()) => Ok(feeder.answers),
        Err(error) => match feeder.operation.afterwards() {
            Some(afterwards) => Err(feeder.explained(keys.py(), error, afterwards)?),
            None => Err(error),
        },
    }
}

struct Feeder<O: Operation> {
    operation: O,
    answers: Vec<O::Answer>,
    found: Vec<O::Answer>,
    /// How many rows were certainly taken.
    done: usize,
    /// How many rows after them may have been taken.
    doubtful: usize,
    /// The first refused row until now, and how many rows were refused.
    refused: Option<(usize, usize)>,
}

impl<O: Operation> Feeder<O> {
    fn all(&mut self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = keys.py();
        if keys.is_exact_instance_of::<PyList>() || keys.is_exact_instance_of::<PyTuple>() {
            return self.objects(keys, false);
        }
        let single = keys.is_instance_of::<PyString>()
            || keys.is_instance_of::<PyBytes>()
            || keys.is_instance_of::<PyByteArray>()
            || keys.is_instance_of::<PyMemoryView>();
        if single {
            return Err(one_key(keys));
        }
        if keys.hasattr(intern!(py, "__array_interface__"))? {
            return self.array(keys);
        }
        if keys.hasattr(intern!(py, "__arrow_c_stream__"))?
            || keys.hasattr(intern!(py, "__arrow_c_array__"))?
        {
            return match keys.extract::<AnyArray>() {
                Ok(arrow) => self.arrow(py, arrow),
                // pandas has the Arrow method even if pyarrow, which the method needs, is not installed.
                Err(error) if error.is_instance_of::<PyImportError>(py) && is_column(keys) => {
                    let calling = Calling::begin(py);
                    let array = keys.call_method0(intern!(py, "to_numpy"))?;
                    drop(calling);
                    self.array(&array)
                }
                Err(error) => Err(error),
            };
        }
        // A map of a file and a ctypes array are one key each. As iterables they would be read byte by byte.
        if is_of_bytes(keys) {
            return Err(one_key(keys));
        }
        self.objects(keys, false)
    }

    /// Keys that are Python objects. In an array of NumPy, `None` is a null.
    fn objects(&mut self, keys: &Bound<'_, PyAny>, has_nulls: bool) -> PyResult<()> {
        let py = keys.py();
        let most = self.operation.rows();
        let mut flat = Flat::default();
        let mut stopped = None;
        let mut calling = Calling::begin(py);
        for key in keys.try_iter()? {
            calling.pause(py);
            let failed = match &key {
                Err(error) => Some(error.clone_ref(py)),
                Ok(key) if has_nulls && key.is_none() => {
                    flat.push_null();
                    None
                }
                Ok(key) => match bytes_of(key) {
                    Ok(bytes) => {
                        flat.push(&bytes);
                        None
                    }
                    Err(no_key) => Some(no_key.raised(py, &format!("keys[{}]", self.done + flat.len()))),
                },
            };
            if failed.is_some() {
                stopped = failed;
                break;
            }
            if flat.len() == most || flat.bytes() >= BYTES {
                drop(calling);
                self.take(py, &Rows::Flat(&flat))?;
                flat.clear();
                calling = Calling::begin(py);
            }
        }
        drop(calling);
        // Keys before an item that is not a key are taken, as those in earlier chunks were.
        if flat.len() > 0 && (stopped.is_none() || self.operation.afterwards().is_some()) {
            self.take(py, &Rows::Flat(&flat))?;
        }
        stopped.map_or(Ok(()), Err)
    }

    fn arrow(&mut self, py: Python<'_>, arrow: AnyArray) -> PyResult<()> {
        let mut arrays = arrow.into_reader()?;
        loop {
            let calling = Calling::begin(py);
            let Some(array) = arrays.next() else { return Ok(()) };
            drop(calling);
            let array = array.map_err(|error| PyErr::from(pyo3_arrow::error::PyArrowError::from(error)))?;
            let array = column_of(array)?;
            // Nothing is copied here, so chunks of changes may be larger. Then more keys share the work on each region.
            let mut most = if self.operation.afterwards().is_some() {
                4 * self.operation.rows()
            } else {
                self.operation.rows()
            };
            if let Some(dictionary) = array.as_any_dictionary_opt() {
                // Each chunk reads the whole dictionary.
                most = most.max(dictionary.values().len());
            }
            for start in (0..array.len()).step_by(most) {
                let rows = array.slice(start, most.min(array.len() - start));
                self.take(py, &Rows::Arrow(rows))?;
            }
        }
    }

    /// A NumPy array.
    fn array(&mut self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = keys.py();
        let dimensions: usize = keys.getattr(intern!(py, "ndim"))?.extract()?;
        if dimensions != 1 {
            let message = format!("keys is an array of {dimensions} dimensions; give one of 1");
            return Err(PyTypeError::new_err(message));
        }
        let kind = keys.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "str"))?;
        let kind: String = kind.extract()?;
        let is_plain = keys.get_type().is(&py.import("numpy")?.getattr("ndarray")?);
        let Some(order @ ('|' | '<' | '>')) = kind.chars().next().filter(|_| is_plain) else {
            return self.objects(keys, false);
        };
        let (kind, width) = (kind.get(1..2).unwrap_or_default(), kind.get(2..).unwrap_or_default());
        let width = width.parse::<usize>().unwrap_or_default();
        let (text, width) = match kind {
            "S" => (false, width),
            "U" => (true, 4 * width),
            // Bytes of one length, such as digests. Records with fields are no keys.
            "V" if keys.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "names"))?.is_none() => {
                (false, width)
            }
            _ => return self.objects(keys, kind == "O"),
        };
        let is_padded = kind == "S";
        let mut is_warned = !is_padded;
        let most = self.operation.rows().min(BYTES / width.max(1)).max(1);
        let all = keys.len()?;
        for start in (0..all).step_by(most) {
            let rows = most.min(all - start);
            let chunk =
                keys.get_item(pyo3::types::PySlice::new(py, start as isize, (start + rows) as isize, 1))?;
            let bytes = chunk.call_method0(intern!(py, "tobytes"))?;
            let bytes = bytes.cast::<PyBytes>()?.as_bytes();
            if text {
                self.utf32(py, bytes, width, rows, order == '>')?;
            } else {
                if !is_warned && bytes.chunks_exact(width.max(1)).any(is_cut_digest) {
                    is_warned = true;
                    warn_of_cut(py, width)?;
                }
                self.take(py, &Rows::Fixed { bytes, width, rows, is_padded })?;
            }
        }
        Ok(())
    }

    /// Rows of text in NumPy's form: four bytes a character, padded with NULs.
    fn utf32(&mut self, py: Python<'_>, bytes: &[u8], width: usize, rows: usize, big: bool) -> PyResult<()> {
        let mut flat = Flat::default();
        let mut bad = None;
        let mut text = String::new();
        for row in 0..rows {
            text.clear();
            let (characters, _) = bytes[row * width..][..width].as_chunks::<4>();
            let number =
                |word: &[u8; 4]| if big { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
            let length = characters.iter().rposition(|word| number(word) != 0).map_or(0, |last| last + 1);
            for word in &characters[..length] {
                match char::from_u32(number(word)) {
                    Some(character) => text.push(character),
                    None => bad = Some(row),
                }
            }
            if bad.is_some() {
                break;
            }
            flat.push(text.as_bytes());
        }
        let stopped = bad.map(|row| {
            let index = self.done + row;
            PyTypeError::new_err(format!("keys[{index}] is str with a lone surrogate, which has no UTF-8"))
        });
        if flat.len() > 0 && (stopped.is_none() || self.operation.afterwards().is_some()) {
            self.take(py, &Rows::Flat(&flat))?;
        }
        stopped.map_or(Ok(()), Err)
    }

    /// Takes one chunk, without the GIL.
    fn take(&mut self, py: Python<'_>, rows: &Rows<'_>) -> PyResult<()> {
        let start = self.answers.len();
        // An Arrow array of nulls may claim any length.
        if size_of::<O::Answer>() > 0 && self.answers.try_reserve(rows.len()).is_err() {
            let message = format!("no memory for the answers of {} keys", start + rows.len());
            return Err(PyMemoryError::new_err(message));
        }
        let outcome = py.detach(|| {
            let (keys, places) = rows.keys();
            self.found.clear();
            let outcome = self.operation.take(&keys, &mut self.found);
            match &places {
                None => self.answers.extend_from_slice(&self.found),
                Some(places) => {
                    self.answers.resize(start + rows.len(), O::Answer::default());
                    let answers = &mut self.answers[start..];
                    places.iter().zip(&self.found).for_each(|(row, answer)| answers[*row as usize] = *answer);
                }
            }
            outcome.map_err(|stopped| match stopped {
                Stopped::Refused { first, refused, cause } => {
                    let first = places.map_or(first, |places| places[first] as usize);
                    Stopped::Refused { first, refused, cause }
                }
                other => other,
            })
        });
        match outcome {
            Ok(()) => self.done += rows.len(),
            Err(Stopped::Raised(error)) => return Err(error),
            Err(Stopped::Refused { first, refused, cause }) => {
                self.refused = Some((self.done + first, refused));
                self.done += rows.len();
                return Err(raised(py, &cause.into()));
            }
            Err(Stopped::Failed(cause)) => {
                let untouched = matches!(cause.kind(), ErrorKind::Kind | ErrorKind::Poisoned)
                    || matches!(cause, store::Error::Filter(Error::CallerHashes { .. }));
                self.doubtful = if untouched { 0 } else { rows.len() };
                return Err(raised(py, &cause));
            }
        }
        py.check_signals()
    }

    /// Notes in the exception which keys were taken before it.
    fn explained(self, py: Python<'_>, error: PyErr, afterwards: &str) -> PyResult<PyErr> {
        let Self { done, doubtful, refused, mut answers, .. } = self;
        let end = done + doubtful;
        let mut note = match (done, doubtful, refused) {
            (0, 0, _) => "gowk: no key was taken".to_owned(),
            (_, 0, None) => format!("gowk: keys[0:{done}] were taken"),
            (_, 0, Some((first, number))) => {
                format!(
                    "gowk: keys[0:{done}] were taken, but for {number} that had no room, the first keys[{first}]"
                )
            }
            (0, ..) => format!("gowk: keys[0:{end}] may have been taken in part"),
            _ => format!("gowk: keys[0:{done}] were taken, and keys[{done}:{end}] perhaps in part"),
        };
        if end > 0 {
            note.push_str("; ");
            note.push_str(afterwards);
        }
        let value = error.value(py);
        value.call_method1(intern!(py, "add_note"), (note,))?;
        value.setattr(intern!(py, "taken"), done)?;
        if let Some((first, number)) = refused {
            value.setattr(intern!(py, "index"), first)?;
            value.setattr(intern!(py, "refused"), number)?;
        }
        answers.resize(end, O::Answer::default());
        if let Some(mask) = (Box::new(answers) as Box<dyn std::any::Any>).downcast_ref::<Vec<bool>>() {
            value.setattr(intern!(py, "mask"), crate::array_of(py, mask.clone()))?;
        }
        Ok(error)
    }
}

/// Whether NumPy has cut zero bytes off the end of a key that looks like a digest: bytes that are no text, and fill
/// nearly the whole width.
fn is_cut_digest(key: &[u8]) -> bool {
    let zeros = key.iter().rev().take_while(|byte| **byte == 0).count();
    let rest = key.get(..key.len() - zeros).unwrap_or_default();
    (1..=3).contains(&zeros) && rest.len() >= 8 && str::from_utf8(rest).is_err()
}

#[cold]
fn warn_of_cut(py: Python<'_>, width: usize) -> PyResult<()> {
    let message = format!(
        "keys is an array of dtype S{width}, of which NumPy drops zero bytes at the end of keys, and some keys look like \
         digests that lost some; give a list of bytes, or an array of dtype V{width}"
    );
    let message = std::ffi::CString::new(message).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), &message, 2)
}

#[cold]
fn one_key(key: &Bound<'_, PyAny>) -> PyErr {
    let kind = key.get_type().name().map_or("?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("keys is one {kind}; give several keys, as in [key]"))
}

/// Whether an object is a column of pandas, and not a table.
fn is_column(keys: &Bound<'_, PyAny>) -> bool {
    let py = keys.py();
    let dimensions = keys.getattr(intern!(py, "ndim")).and_then(|number| number.extract::<usize>());
    dimensions.is_ok_and(|dimensions| dimensions == 1)
        && keys.hasattr(intern!(py, "to_numpy")).unwrap_or(false)
}

/// The array of keys, which may be the only column of a table.
fn column_of(array: ArrayRef) -> PyResult<ArrayRef> {
    if is_of_keys(array.data_type()) {
        return Ok(array);
    }
    let refused = |what: String| Err(PyTypeError::new_err(what));
    match array.data_type() {
        DataType::Struct(fields) => {
            let table = array.as_struct();
            match table.columns() {
                [column] if is_of_keys(column.data_type()) && table.null_count() == 0 => Ok(column.clone()),
                _ => {
                    let columns: Vec<_> = fields
                        .iter()
                        .map(|field| format!("{}: {}", field.name(), field.data_type()))
                        .collect();
                    let columns = columns.join(", ");
                    refused(format!(
                        "keys is a table ({columns}); give one column of strings or binary values"
                    ))
                }
            }
        }
        kind => refused(format!("keys is an Arrow array of {kind}, but keys are strings or binary values")),
    }
}
