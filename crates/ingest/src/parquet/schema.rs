//! The columns of a Parquet file that have the keys and their times, found by name.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::super::error::InputProblem;
use super::super::time::TimeKind;

/// The most bytes of column names shown in a message.
const SHOWN: usize = 400;

/// How a value becomes a text.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bytes,
    Boolean,
    Signed,
    Unsigned,
    Uuid,
    /// Units of time since 1970; this many make a second.
    Instant {
        per_second: i64,
    },
    Days,
    /// Nanoseconds of a Julian day.
    Int96,
}

/// What a column is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Key,
    Time(TimeKind),
}

/// The index of the column at this path, and how its values become texts.
pub(super) fn column(
    schema: &SchemaDescriptor,
    path: &[String],
    purpose: Purpose,
) -> Result<(usize, Value), InputProblem> {
    let found = schema.columns().iter().enumerate().find(|(_, column)| column.path().parts() == path);
    let Some((index, column)) = found else {
        let wanted = format!("{:?}", path.join("."));
        return Err(InputProblem::NoColumnOf { wanted, columns: shown(schema) });
    };
    let refused = |has| {
        let column = path.join(".");
        match purpose {
            Purpose::Key => InputProblem::ColumnType { column, has },
            Purpose::Time(TimeKind::Seen) => InputProblem::TimeType { column, has },
            Purpose::Time(TimeKind::Lifetime(_)) => InputProblem::LifetimeType { column, has },
        }
    };
    if column.max_rep_level() > 0 {
        return Err(refused("lists".to_owned()));
    }
    let value = match purpose {
        Purpose::Key => key(column),
        Purpose::Time(TimeKind::Seen) => time(column),
        Purpose::Time(TimeKind::Lifetime(_)) => written(column),
    };
    value.map(|value| (index, value)).ok_or_else(|| refused(kind(column)))
}

fn key(column: &ColumnDescriptor) -> Option<Value> {
    use ConvertedType::{INT_8, INT_16, INT_32, INT_64, NONE, UINT_8, UINT_16, UINT_32, UINT_64};
    use LogicalType::{Bson, Enum, Integer, Json, String, Uuid};
    let converted = column.converted_type();
    let is_unsigned = matches!(converted, UINT_8 | UINT_16 | UINT_32 | UINT_64);
    let is_plain = is_unsigned || matches!(converted, NONE | INT_8 | INT_16 | INT_32 | INT_64);
    match (column.physical_type(), column.logical_type_ref()) {
        (Type::BYTE_ARRAY, Some(String | Enum | Json | Bson)) => Some(Value::Bytes),
        (Type::BYTE_ARRAY, None) if converted != ConvertedType::DECIMAL => Some(Value::Bytes),
        (Type::FIXED_LEN_BYTE_ARRAY, Some(Uuid)) => Some(Value::Uuid),
        (Type::FIXED_LEN_BYTE_ARRAY, None) if is_plain => Some(Value::Bytes),
        (Type::INT32 | Type::INT64, Some(Integer(integer))) if integer.is_signed => Some(Value::Signed),
        (Type::INT32 | Type::INT64, Some(Integer(_))) => Some(Value::Unsigned),
        (Type::INT32 | Type::INT64, None) if is_plain && is_unsigned => Some(Value::Unsigned),
        (Type::INT32 | Type::INT64, None) if is_plain => Some(Value::Signed),
        (Type::BOOLEAN, None) => Some(Value::Boolean),
        _ => None,
    }
}

/// How a value of this column becomes a time; `None` if it cannot be one.
fn time(column: &ColumnDescriptor) -> Option<Value> {
    let instant = |per_second| Some(Value::Instant { per_second });
    match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
        (Type::INT64, Some(LogicalType::Timestamp(timestamp)), _) => match timestamp.unit {
            TimeUnit::MILLIS => instant(1000),
            TimeUnit::MICROS => instant(1_000_000),
            TimeUnit::NANOS => instant(1_000_000_000),
        },
        (Type::INT64, None, ConvertedType::TIMESTAMP_MILLIS) => instant(1000),
        (Type::INT64, None, ConvertedType::TIMESTAMP_MICROS) => instant(1_000_000),
        (Type::INT32, Some(LogicalType::Date), _) | (Type::INT32, None, ConvertedType::DATE) => {
            Some(Value::Days)
        }
        // Spark and Impala write this type, and only for times.
        (Type::INT96, _, _) => Some(Value::Int96),
        _ => written(column),
    }
}

/// How a value of this column becomes a text or number, in the form of other formats; `None` if it is neither.
fn written(column: &ColumnDescriptor) -> Option<Value> {
    key(column).filter(|value| matches!(value, Value::Bytes | Value::Signed | Value::Unsigned))
}

/// The type of a column's values, for messages.
fn kind(column: &ColumnDescriptor) -> String {
    let logical = column.logical_type_ref().map(|logical| format!("{logical:?}"));
    let logical = logical.as_deref().and_then(|name| name.split(['(', ' ', '{']).next());
    match (logical, column.converted_type()) {
        (Some(name), _) => format!("values of the type {}", name.to_uppercase()),
        (None, ConvertedType::NONE) => format!("values of the type {}", column.physical_type()),
        (None, converted) => format!("values of the type {converted}"),
    }
}

/// The columns in the form that `--column` accepts, shortened.
fn shown(schema: &SchemaDescriptor) -> String {
    let mut all = String::new();
    for column in schema.columns() {
        let parts = column.path().parts().iter();
        let parts: Vec<_> = parts.map(|part| part.replace('\\', "\\\\").replace('.', "\\.")).collect();
        if all.len() > SHOWN {
            return all + ", ...";
        }
        all = if all.is_empty() { parts.join(".") } else { format!("{all}, {}", parts.join(".")) };
    }
    all.escape_debug().to_string().replace("\\\\", "\\")
}
