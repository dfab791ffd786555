//! Values on their way into PostgreSQL's binary form and out of it.
//!
//! It owns which of our values fits which type of the server. Invariant: an integer comes back as the same integer and
//! text as the same text, or the statement fails; nothing is rounded or cut.

use std::error::Error;

use bytes::BytesMut;
use rusqlite::types::ValueRef;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::Value;

/// Whether the value can be sent where the server expects this type.
pub(crate) fn fits(value: &Value, ty: &Type) -> bool {
    match value {
        Value::Null => true,
        Value::Integer(n) => match *ty {
            Type::INT8 => true,
            Type::INT4 => i32::try_from(*n).is_ok(),
            Type::INT2 => i16::try_from(*n).is_ok(),
            Type::BOOL => matches!(n, 0 | 1),
            // SQLite turns whole numbers into reals in such a column, too.
            Type::FLOAT8 => n.unsigned_abs() <= 1 << 53,
            _ => false,
        },
        Value::Real(_) => *ty == Type::FLOAT8,
        Value::Text(_) => matches!(*ty, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN),
        Value::Blob(_) => *ty == Type::BYTEA,
    }
}

/// The type that the value has by itself.
pub(crate) fn natural(value: &Value) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Integer(_) => Type::INT8,
        Value::Real(_) => Type::FLOAT8,
        Value::Blob(_) => Type::BYTEA,
    }
}

/// A value as a parameter. It is sent only where it [`fits`].
#[derive(Debug)]
pub(crate) struct Param<'a>(pub(crate) &'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(n) => match *ty {
                Type::INT4 => out.extend_from_slice(&i32::try_from(*n)?.to_be_bytes()),
                Type::INT2 => out.extend_from_slice(&i16::try_from(*n)?.to_be_bytes()),
                Type::BOOL => out.extend_from_slice(&[u8::from(*n != 0)]),
                #[expect(clippy::cast_precision_loss, reason = "`fits` allows what is exact")]
                Type::FLOAT8 => out.extend_from_slice(&(*n as f64).to_be_bytes()),
                _ => out.extend_from_slice(&n.to_be_bytes()),
            },
            Value::Real(x) => out.extend_from_slice(&x.to_be_bytes()),
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
            Value::Blob(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A cell in the form that rows of both databases share.
pub(crate) struct Raw<'a>(pub(crate) ValueRef<'a>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT8 => ValueRef::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => ValueRef::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::INT2 => ValueRef::Integer(i16::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => ValueRef::Integer(i64::from(raw != [0])),
            Type::FLOAT8 => ValueRef::Real(f64::from_be_bytes(raw.try_into()?)),
            Type::FLOAT4 => ValueRef::Real(f32::from_be_bytes(raw.try_into()?).into()),
            Type::NUMERIC => numeric(raw).ok_or("a number that fits neither 64 bits nor a double")?,
            Type::BYTEA => ValueRef::Blob(raw),
            _ => ValueRef::Text(raw),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(ValueRef::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// What sums and averages of integers answer with: groups of four decimal digits, `weight` of them before the point.
fn numeric(raw: &[u8]) -> Option<ValueRef<'static>> {
    let word = |at: usize| Some(i16::from_be_bytes(raw.get(at * 2..at * 2 + 2)?.try_into().ok()?));
    let (count, weight, sign) = (usize::try_from(word(0)?).ok()?, i32::from(word(1)?), word(2)?);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    let digits: Vec<i64> = (0..count).map(|n| word(4 + n).map(i64::from)).collect::<Option<_>>()?;
    let before_point = usize::try_from(weight + 1).unwrap_or(0);
    if count <= before_point {
        let mut whole = 0_i64;
        for n in 0..before_point {
            let digit = digits.get(n).copied().unwrap_or(0);
            whole = whole.checked_mul(10_000)?.checked_add(if negative { -digit } else { digit })?;
        }
        return Some(ValueRef::Integer(whole));
    }
    let mut real = 0.0;
    for (n, digit) in (0_i32..).zip(digits) {
        #[expect(clippy::cast_precision_loss, reason = "a group is below 10,000")]
        let digit = digit as f64;
        real += digit * 10_f64.powi(4 * (weight - n));
    }
    Some(ValueRef::Real(if negative { -real } else { real }))
}
