//! The parts that columns are made of: a column that costs nothing while it holds its default, words by number, and
//! metadata by field.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Bytes of a text that are kept for comparing; of a longer one its beginning and its digest.
const TEXT_BYTES_MAX: usize = 256;

/// One value for each number; numbers never set have the default.
#[derive(Debug)]
pub(super) struct Column<T> {
    values: Vec<T>,
    default: T,
}

impl<T: Copy + PartialEq> Column<T> {
    pub(super) fn new(default: T) -> Self {
        Self { values: Vec::new(), default }
    }

    pub(super) fn get(&self, number: usize) -> T {
        self.values.get(number).copied().unwrap_or(self.default)
    }

    pub(super) fn set(&mut self, number: usize, value: T) {
        if let Some(place) = self.values.get_mut(number) {
            *place = value;
        } else if value != self.default {
            self.values.resize(number + 1, self.default);
            self.values[number] = value;
        }
    }

    /// Whether every number has the default.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

/// Texts by number, from 1 on; 0 is for none.
#[derive(Debug, Default)]
pub(super) struct Words {
    number_of: HashMap<Arc<str>, u32>,
    words: Vec<Arc<str>>,
}

impl Words {
    pub(super) fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.number_of.get(word) {
            return *number;
        }
        let word: Arc<str> = word.into();
        let number = u32::try_from(self.words.len() + 1).unwrap_or(u32::MAX);
        self.words.push(word.clone());
        self.number_of.insert(word, number);
        number
    }

    pub(super) fn known(&self, word: &str) -> Option<u32> {
        self.number_of.get(word).copied()
    }

    pub(super) fn word(&self, number: u32) -> Option<&str> {
        self.words.get((number as usize).checked_sub(1)?).map(|word| &**word)
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.iter().map(|word| word.len() + 80).sum()
    }
}

/// A scalar of the metadata, so that equal ones are equal: a number without a fraction is an integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Text(Arc<str>),
    Integer(i64),
    /// The bits of a number that is no integer.
    Real(u64),
    Truth(bool),
}

impl Scalar {
    /// `None` for what is no scalar.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(shortened(text))),
            Value::Bool(truth) => Some(Self::Truth(*truth)),
            Value::Number(number) => number.as_i64().map(Self::Integer).or_else(|| {
                let real = number.as_f64()?;
                let is_integer = real.fract() == 0.0 && (-9.2e18..9.2e18).contains(&real);
                Some(if is_integer { Self::Integer(real as i64) } else { Self::Real(real.to_bits()) })
            }),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// How it compares with another of the same type.
    pub(crate) fn compared(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Truth(a), Self::Truth(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Real(b)) => (*a as f64).partial_cmp(&f64::from_bits(*b)),
            (Self::Real(a), Self::Integer(b)) => f64::from_bits(*a).partial_cmp(&(*b as f64)),
            (Self::Real(a), Self::Real(b)) => f64::from_bits(*a).partial_cmp(&f64::from_bits(*b)),
            _ => None,
        }
    }
}

/// A text as it is compared: whole, or its beginning with its digest.
pub(super) fn shortened(text: &str) -> Arc<str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    let start = &text[..text.floor_char_boundary(TEXT_BYTES_MAX - 64)];
    format!("{start}{}", hex::encode(Sha256::digest(text))).into()
}

/// The values of one field.
#[derive(Debug)]
pub(crate) struct Field {
    number_of: HashMap<Scalar, u32>,
    scalars: Vec<Scalar>,
    /// Number of the value of each memory; 0 where the field is missing.
    values: Column<u32>,
    /// How many memories have it.
    pub(super) count: usize,
}

impl Field {
    fn new() -> Self {
        Self { number_of: HashMap::new(), scalars: Vec::new(), values: Column::new(0), count: 0 }
    }

    fn set(&mut self, seq: usize, scalar: Option<Scalar>) {
        let number = scalar.map_or(0, |scalar| {
            if let Some(number) = self.number_of.get(&scalar) {
                return *number;
            }
            self.scalars.push(scalar.clone());
            let number = u32::try_from(self.scalars.len()).unwrap_or(u32::MAX);
            self.number_of.insert(scalar, number);
            number
        });
        let before = self.values.get(seq);
        self.count = self.count + usize::from(number != 0) - usize::from(before != 0);
        self.values.set(seq, number);
    }

    /// Number of a memory's value; 0 where the field is missing.
    pub(crate) fn value(&self, seq: usize) -> u32 {
        self.values.get(seq)
    }

    /// The number of a value, if any memory has it.
    pub(crate) fn known(&self, scalar: &Scalar) -> Option<u32> {
        self.number_of.get(scalar).copied()
    }

    /// For each number of a value, from 1 on, whether `holds`; the first stands for the missing.
    pub(crate) fn table(&self, missing: bool, holds: impl Fn(&Scalar) -> bool) -> Vec<bool> {
        std::iter::once(missing).chain(self.scalars.iter().map(holds)).collect()
    }

    fn bytes(&self) -> usize {
        let text = |scalar: &Scalar| if let Scalar::Text(text) = scalar { text.len() + 16 } else { 0 };
        self.values.bytes() + self.scalars.iter().map(|scalar| 90 + text(scalar)).sum::<usize>()
    }
}

/// Metadata by field.
#[derive(Debug, Default)]
pub(super) struct Fields {
    fields: HashMap<String, Field>,
}

impl Fields {
    /// Sets what this memory's metadata is; fields it no longer has are taken from it.
    pub(super) fn set(&mut self, seq: usize, meta: &Map<String, Value>, is_new: bool) {
        if !is_new {
            self.clear(seq);
        }
        for (key, value) in meta {
            if let Some(scalar) = Scalar::of(value) {
                self.fields.entry(key.clone()).or_insert_with(Field::new).set(seq, Some(scalar));
            }
        }
    }

    pub(super) fn clear(&mut self, seq: usize) {
        self.fields.values_mut().filter(|field| field.value(seq) != 0).for_each(|field| field.set(seq, None));
        self.fields.retain(|_, field| field.count > 0);
    }

    pub(super) fn get(&self, key: &str) -> Option<&Field> {
        self.fields.get(key)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.fields.keys()
    }

    pub(super) fn bytes(&self) -> usize {
        self.fields.iter().map(|(key, field)| key.len() + 64 + field.bytes()).sum()
    }
}
