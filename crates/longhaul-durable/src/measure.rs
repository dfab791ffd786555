//! The size of a value as JSON, counted while it is walked: nothing is written, nothing allocated.
//!
//! It is a serde serializer whose result is a number of bytes. Each leaf on the way is checked; the path to what is too
//! large is put together only then, from the inside out.

use std::fmt;

use longhaul_core::limits::STATE_LEAF_BYTES_MAX;
use serde::ser::{
    self, Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use serde_json::Value;

use crate::{
    Field,
    limits::{LimitError, count_within, grows, within},
};

/// What is done with a field that grows by items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    /// Each is checked, and none counts towards the total.
    Each,
    /// Each is checked and counts.
    EachCounted,
    /// Only their number is looked at.
    Count,
}

/// The bytes that a value takes, which has these fields. `name` begins the paths in errors.
pub(crate) fn fields<T: Serialize>(value: &T, name: &str, fields: &[Field], items: Items) -> Result<usize, LimitError> {
    value.serialize(Walk { top: Some(Top { fields, items }), role: Role::Inner }).or_else(|halt| match halt {
        Halt::Limit(error) => Err(error.inside(name)),
        // Nobody asked for a count here, and what cannot be written is told when it is written.
        Halt::Counted(_) | Halt::Unfit => Ok(0),
    })
}

impl LimitError {
    fn inside(mut self, outer: &str) -> Self {
        match &mut self {
            Self::Bytes { path, .. } | Self::Items { path, .. } => path.insert_str(0, outer),
        }
        self
    }
}

/// Why a walk ends early.
#[derive(Debug)]
enum Halt {
    Limit(LimitError),
    /// How many items there are; the walk was for nothing else.
    Counted(usize),
    /// The value cannot be written.
    Unfit,
}

impl Halt {
    fn inside(self, segment: impl FnOnce() -> String) -> Self {
        match self {
            Self::Limit(error) => Self::Limit(error.inside(&segment())),
            Self::Counted(_) | Self::Unfit => self,
        }
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the walk ended")
    }
}

impl std::error::Error for Halt {}

impl ser::Error for Halt {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Unfit
    }
}

/// A string or number.
fn leaf(bytes: usize) -> Result<usize, Halt> {
    within("", bytes, STATE_LEAF_BYTES_MAX).map_err(Halt::Limit)
}

/// The whole value.
#[derive(Clone, Copy)]
struct Top<'a> {
    fields: &'a [Field],
    items: Items,
}

/// Walks one value.
#[derive(Clone, Copy)]
struct Walk<'a> {
    /// The value is the whole, so its fields may be ones that grow.
    top: Option<Top<'a>>,
    role: Role,
}

/// What a value is walked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its bytes.
    Inner,
    /// It is a field that grows: its items are limited, each by itself.
    Items,
    /// The number of its items.
    Count,
}

const INNER: Walk<'static> = Walk { top: None, role: Role::Inner };
const ITEMS: Walk<'static> = Walk { top: None, role: Role::Items };
const COUNT: Walk<'static> = Walk { top: None, role: Role::Count };

/// Walks a list or an object.
struct Parts<'a> {
    walk: Walk<'a>,
    bytes: usize,
    index: usize,
    /// Bytes of the key that was seen last, if key and value come apart.
    key: usize,
}

impl<'a> Walk<'a> {
    fn parts(self) -> Parts<'a> {
        Parts { walk: self, bytes: 2, index: 0, key: 0 }
    }

    /// A list or an object with so many parts, if that is known.
    fn parts_of(self, items: Option<usize>) -> Result<Parts<'a>, Halt> {
        match (self.role, items) {
            (Role::Count, Some(items)) => Err(Halt::Counted(items)),
            (Role::Count | Role::Inner | Role::Items, _) => Ok(self.parts()),
        }
    }
}

impl Parts<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, key_bytes: usize, value: &T) -> Result<(), Halt> {
        let index = self.index;
        self.index += 1;
        if self.walk.role == Role::Count {
            return Ok(());
        }
        let name = || format!("[{index}]");
        let bytes = value.serialize(INNER).map_err(|halt| halt.inside(name))?;
        if self.walk.role == Role::Items {
            within("", bytes, STATE_LEAF_BYTES_MAX).map_err(|error| Halt::Limit(error).inside(name))?;
        }
        self.bytes += key_bytes + bytes + 1;
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Halt> {
        let path = || format!(".{name}");
        match self.walk.top.filter(|top| grows(top.fields, name)) {
            Some(Top { items: Items::Count, .. }) => match value.serialize(COUNT) {
                Err(Halt::Counted(items)) => count_within(items).map_err(|error| Halt::Limit(error).inside(path)),
                other => other.map(drop),
            },
            Some(Top { items, .. }) => {
                let bytes = value.serialize(ITEMS).map_err(|halt| halt.inside(path))?;
                if items == Items::EachCounted {
                    self.bytes += name.len() + 4 + bytes;
                }
                Ok(())
            }
            None => {
                let bytes = value.serialize(INNER).map_err(|halt| halt.inside(path))?;
                if self.walk.role == Role::Items {
                    within("", bytes, STATE_LEAF_BYTES_MAX).map_err(|error| Halt::Limit(error).inside(path))?;
                }
                self.bytes += name.len() + 4 + bytes;
                Ok(())
            }
        }
    }

    fn done(self) -> Result<usize, Halt> {
        if self.walk.role != Role::Inner {
            count_within(self.index).map_err(Halt::Limit)?;
        }
        Ok(self.bytes)
    }
}

/// How many digits a number has.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn signed(number: i64) -> usize {
    digits(number.unsigned_abs()) + usize::from(number < 0)
}

impl<'a> Serializer for Walk<'a> {
    type Ok = usize;
    type Error = Halt;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    fn serialize_bool(self, _: bool) -> Result<usize, Halt> {
        Ok(5)
    }
    fn serialize_i8(self, v: i8) -> Result<usize, Halt> {
        Ok(signed(v.into()))
    }
    fn serialize_i16(self, v: i16) -> Result<usize, Halt> {
        Ok(signed(v.into()))
    }
    fn serialize_i32(self, v: i32) -> Result<usize, Halt> {
        Ok(signed(v.into()))
    }
    fn serialize_i64(self, v: i64) -> Result<usize, Halt> {
        Ok(signed(v))
    }
    fn serialize_i128(self, v: i128) -> Result<usize, Halt> {
        Ok(v.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1) + usize::from(v < 0))
    }
    fn serialize_u8(self, v: u8) -> Result<usize, Halt> {
        Ok(digits(v.into()))
    }
    fn serialize_u16(self, v: u16) -> Result<usize, Halt> {
        Ok(digits(v.into()))
    }
    fn serialize_u32(self, v: u32) -> Result<usize, Halt> {
        Ok(digits(v.into()))
    }
    fn serialize_u64(self, v: u64) -> Result<usize, Halt> {
        Ok(digits(v))
    }
    fn serialize_u128(self, v: u128) -> Result<usize, Halt> {
        Ok(v.checked_ilog10().map_or(1, |log| log as usize + 1))
    }
    fn serialize_f32(self, _: f32) -> Result<usize, Halt> {
        Ok(10)
    }
    fn serialize_f64(self, _: f64) -> Result<usize, Halt> {
        Ok(18)
    }
    fn serialize_char(self, v: char) -> Result<usize, Halt> {
        Ok(v.len_utf8() + 2)
    }
    fn serialize_str(self, v: &str) -> Result<usize, Halt> {
        leaf(v.len() + 2)
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<usize, Halt> {
        // JSON has no bytes: they become a list of numbers.
        leaf(v.iter().map(|byte| digits(u64::from(*byte)) + 1).sum::<usize>() + 2)
    }
    fn serialize_none(self) -> Result<usize, Halt> {
        Ok(4)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<usize, Halt> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<usize, Halt> {
        Ok(4)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<usize, Halt> {
        Ok(4)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<usize, Halt> {
        Ok(variant.len() + 2)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<usize, Halt> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<usize, Halt> {
        let bytes = value.serialize(INNER).map_err(|halt| halt.inside(|| format!(".{variant}")))?;
        Ok(bytes + variant.len() + 5)
    }
    fn serialize_seq(self, items: Option<usize>) -> Result<Parts<'a>, Halt> {
        self.parts_of(items)
    }
    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, Halt> {
        Ok(self.parts())
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Halt> {
        Ok(self.parts())
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Halt> {
        Ok(Parts { bytes: variant.len() + 7, ..INNER.parts() })
    }
    fn serialize_map(self, items: Option<usize>) -> Result<Parts<'a>, Halt> {
        self.parts_of(items)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Halt> {
        Ok(self.parts())
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Halt> {
        Ok(Parts { bytes: variant.len() + 7, ..INNER.parts() })
    }
    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<usize, Halt> {
        struct Length(usize);
        impl fmt::Write for Length {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 += text.len();
                Ok(())
            }
        }
        let mut length = Length(2);
        fmt::write(&mut length, format_args!("{value}")).map_err(Halt::custom)?;
        leaf(length.0)
    }
}

impl SerializeSeq for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Halt> {
        self.item(0, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeTuple for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Halt> {
        self.item(0, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeTupleStruct for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Halt> {
        self.item(0, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeTupleVariant for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Halt> {
        self.item(0, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeMap for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Halt> {
        self.key = key.serialize(INNER)?;
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Halt> {
        self.item(self.key + 1, value)
    }
    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), Halt> {
        // The key as text is needed for a field that may grow, and for the path to what is too large.
        let name = || match serde_json::to_value(key) {
            Ok(Value::String(name)) => name,
            Ok(other) => other.to_string(),
            Err(_) => String::new(),
        };
        let path = || format!(".{}", name().chars().take(64).collect::<String>());
        if self.walk.top.is_some_and(|top| !top.fields.is_empty()) {
            return self.field(&name(), value);
        }
        self.index += 1;
        if self.walk.role == Role::Count {
            return Ok(());
        }
        let key_bytes = key.serialize(INNER).map_err(|halt| halt.inside(path))?;
        let bytes = value.serialize(INNER).map_err(|halt| halt.inside(path))?;
        if self.walk.role == Role::Items {
            within("", bytes, STATE_LEAF_BYTES_MAX).map_err(|error| Halt::Limit(error).inside(path))?;
        }
        self.bytes += key_bytes + bytes + 2;
        Ok(())
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeStruct for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Halt> {
        self.field(name, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}

impl SerializeStructVariant for Parts<'_> {
    type Ok = usize;
    type Error = Halt;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Halt> {
        self.field(name, value)
    }
    fn end(self) -> Result<usize, Halt> {
        self.done()
    }
}
