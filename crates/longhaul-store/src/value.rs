//! The values that go into statements and come out of rows, independent of the database behind them.
//!
//! Invariant: no driver type is part of the public interface, so that PostgreSQL can come behind the same types.

use std::str::FromStr;

use longhaul_core::{
    Digest, EventId, ExecutionId, FeatureId, MemoryId, MessageId, MilestoneId, RecordId, SessionId, TaskId, TenantId,
    ThreadId, TimeMs, TraceId, UserId, VerdictId,
};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use crate::{StoreError, postgres::Raw};

/// One parameter of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A 64-bit integer; also booleans (0, 1) and milliseconds.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// UTF-8 text; also ids and JSON.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The parameters of a statement: `values![&scope.tenant, 3, "text"]` is an array of [`Value`].
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::Value::from($value)),*] };
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Value {
            /// Beyond the range of a 64-bit signed integer the value saturates.
            fn from(value: $ty) -> Self {
                Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }
        impl FromValue for $ty {
            const EXPECTED: &'static str = "an integer";
            fn from_cell(cell: Cell<'_>) -> Option<Self> {
                cell.integer().and_then(|value| Self::try_from(value).ok())
            }
        }
    )*};
}
integers!(i32, i64, u32, u64, usize);

macro_rules! ids {
    ($($ty:ty),*) => {$(
        impl From<&$ty> for Value {
            fn from(id: &$ty) -> Self {
                Self::Text(id.as_str().to_owned())
            }
        }
        impl FromValue for $ty {
            const EXPECTED: &'static str = concat!("a ", stringify!($ty));
            fn from_cell(cell: Cell<'_>) -> Option<Self> {
                Self::from_str(cell.text()?).ok()
            }
        }
    )*};
}
ids!(
    TenantId,
    UserId,
    SessionId,
    TaskId,
    ExecutionId,
    TraceId,
    EventId,
    MemoryId,
    MessageId,
    MilestoneId,
    RecordId,
    VerdictId,
    ThreadId,
    FeatureId
);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::Real(f64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl From<TimeMs> for Value {
    fn from(value: TimeMs) -> Self {
        Self::Integer(value.0)
    }
}

impl From<&Digest> for Value {
    fn from(value: &Digest) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        Self::Text(value.to_string())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

/// One cell of a row, still in the database's memory.
#[derive(Clone, Copy)]
pub struct Cell<'a>(ValueRef<'a>);

impl<'a> Cell<'a> {
    fn integer(self) -> Option<i64> {
        if let ValueRef::Integer(value) = self.0 { Some(value) } else { None }
    }

    fn text(self) -> Option<&'a str> {
        if let ValueRef::Text(bytes) = self.0 { std::str::from_utf8(bytes).ok() } else { None }
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let ValueRef::Blob(bytes) = self.0 { Some(bytes) } else { None }
    }

    fn describe(self) -> String {
        match self.0 {
            ValueRef::Null => "nothing".to_owned(),
            ValueRef::Integer(value) => format!("the integer {value}"),
            ValueRef::Real(value) => format!("the number {value}"),
            ValueRef::Text(bytes) => {
                let text: String = String::from_utf8_lossy(bytes).chars().take(60).collect();
                format!("the text {text:?}")
            }
            ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
        }
    }
}

/// A type that a column can be read as.
pub trait FromValue: Sized {
    /// The type in words, with its article.
    const EXPECTED: &'static str;
    /// The value, or nothing when the cell holds something else.
    fn from_cell(cell: Cell<'_>) -> Option<Self>;
}

impl FromValue for bool {
    const EXPECTED: &'static str = "a boolean (0 or 1)";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        match cell.integer()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl FromValue for f64 {
    const EXPECTED: &'static str = "a number";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        match cell.0 {
            ValueRef::Real(value) => Some(value),
            #[expect(
                clippy::cast_precision_loss,
                reason = "SQLite stores whole reals as integers; both are numbers here"
            )]
            ValueRef::Integer(value) => Some(value as f64),
            ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
        }
    }
}

impl FromValue for f32 {
    const EXPECTED: &'static str = "a number";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, reason = "the caller asks for single precision")]
        f64::from_cell(cell).map(|value| value as f32)
    }
}

impl FromValue for String {
    const EXPECTED: &'static str = "text";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        cell.text().map(str::to_owned)
    }
}

impl FromValue for Vec<u8> {
    const EXPECTED: &'static str = "bytes";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        cell.bytes().map(<[u8]>::to_vec)
    }
}

impl FromValue for TimeMs {
    const EXPECTED: &'static str = "milliseconds since the epoch";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell).map(Self)
    }
}

impl FromValue for Digest {
    const EXPECTED: &'static str = "a digest";
    /// Printed, or as its 32 bytes.
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        match cell.bytes() {
            Some(bytes) => Some(Self::from(<[u8; 32]>::try_from(bytes).ok()?)),
            None => cell.text()?.parse().ok(),
        }
    }
}

impl FromValue for serde_json::Value {
    const EXPECTED: &'static str = "JSON";
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        serde_json::from_str(cell.text()?).ok()
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if cell.0 == ValueRef::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// One row of an answer, valid while the closure that reads it runs.
pub struct Row<'a>(Origin<'a>);

enum Origin<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl<'a> Row<'a> {
    pub(crate) fn sqlite(row: &'a rusqlite::Row<'a>) -> Self {
        Self(Origin::Sqlite(row))
    }

    pub(crate) fn postgres(row: &'a tokio_postgres::Row) -> Self {
        Self(Origin::Postgres(row))
    }
}

impl Row<'_> {
    /// The value of the column at this zero-based position.
    ///
    /// # Errors
    /// [`StoreError::Column`] when the row has no such column or it holds another type.
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T, StoreError> {
        let cell = self.cell(column, T::EXPECTED)?;
        T::from_cell(cell).ok_or_else(|| wrong(column, T::EXPECTED, cell))
    }

    /// The bytes of the column at this position, without a copy.
    ///
    /// # Errors
    /// [`StoreError::Column`] when it holds no bytes.
    pub fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        let cell = self.cell(column, "bytes")?;
        cell.bytes().ok_or_else(|| wrong(column, "bytes", cell))
    }

    /// The text of the column at this position, without a copy.
    ///
    /// # Errors
    /// [`StoreError::Column`] when it holds no text.
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        let cell = self.cell(column, "text")?;
        cell.text().ok_or_else(|| wrong(column, "text", cell))
    }

    fn cell(&self, column: usize, expected: &'static str) -> Result<Cell<'_>, StoreError> {
        let found = match &self.0 {
            Origin::Sqlite(row) => row.get_ref(column).map_err(|_| "no such column".to_owned()),
            Origin::Postgres(row) if column >= row.len() => Err("no such column".to_owned()),
            Origin::Postgres(row) => row.try_get::<_, Raw<'_>>(column).map(|raw| raw.0).map_err(|error| {
                // The driver's own words only say which column.
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
            }),
        };
        found.map(Cell).map_err(|found| StoreError::Column { column, expected, found })
    }
}

fn wrong(column: usize, expected: &'static str, cell: Cell<'_>) -> StoreError {
    StoreError::Column { column, expected, found: cell.describe() }
}
