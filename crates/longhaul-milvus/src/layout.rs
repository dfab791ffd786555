//! How rows lie in a collection: its name, its fields, keys, and batches as columns.
//!
//! One collection per embedder; partitions are told apart by the partition key, and the primary key starts with it, so a
//! key belongs to one partition only. Invariant: what the schema of an existing collection does not show is refused, so
//! another layout is never written into.

use longhaul_memory::remote::{RemoteRow, Space};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::{
    expression::field,
    proto::{CollectionSchema, CreateCollectionRequest, FieldData, FieldSchema, KeyValuePair, data_type},
};

/// Grows when fields change; part of the collection's name.
const LAYOUT: u32 = 1;
/// Longest partition key and primary key in bytes.
const KEY_BYTES_MAX: usize = 300;
const WORD_BYTES_MAX: usize = 256;
/// Physical partitions over which the server spreads partition keys.
const PARTITIONS: i64 = 16;
/// What a row without an expiry has.
const NEVER: i64 = i64::MAX;
/// How a collection says which incarnation it is: in its description and, for servers that do not give that back, in a
/// property.
const INCARNATION: &str = "longhaul memory, incarnation ";
const INCARNATION_PROPERTY: &str = "longhaul.incarnation";

/// The collection of a space: readable, and different for every embedder and dimension.
pub(crate) fn collection_name(space: &Space) -> String {
    let mut digest = Sha256::new();
    digest.update(space.embedder.as_bytes());
    digest.update(space.dimensions.to_le_bytes());
    let digest = hex::encode(&digest.finalize()[..6]);
    let readable: String = space.embedder.chars().take(60).map(word_char).collect();
    format!("longhaul_v{LAYOUT}_{readable}_{}_{digest}", space.dimensions)
}

fn word_char(char: char) -> char {
    if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' }
}

/// The key of a row.
pub(crate) fn key(partition: &str, seq: i64) -> String {
    format!("{partition}#{seq}")
}

/// The number in a key of this partition.
pub(crate) fn seq(partition: &str, key: &str) -> Option<i64> {
    key.strip_prefix(partition)?.strip_prefix('#')?.parse().ok()
}

/// The request that makes a collection.
pub(crate) fn create(
    name: &str,
    dimensions: usize,
    incarnation: &str,
    mut properties: Vec<KeyValuePair>,
) -> CreateCollectionRequest {
    properties.push(pair(INCARNATION_PROPERTY, incarnation));
    let schema = CollectionSchema {
        name: name.to_owned(),
        description: format!("{INCARNATION}{incarnation}"),
        fields: fields(dimensions),
        functions: Vec::new(),
    };
    CreateCollectionRequest {
        collection_name: name.to_owned(),
        schema: schema.encode_to_vec(),
        shards_num: 1,
        num_partitions: PARTITIONS,
        properties,
        ..CreateCollectionRequest::default()
    }
}

fn fields(dimensions: usize) -> Vec<FieldSchema> {
    let plain = |name: &str, data_type: i32| FieldSchema { name: name.to_owned(), data_type, ..FieldSchema::default() };
    let text = |name: &str, bytes_max: usize| FieldSchema {
        type_params: vec![pair("max_length", bytes_max)],
        ..plain(name, data_type::VARCHAR)
    };
    let long = |name: &str| plain(name, data_type::INT64);
    vec![
        FieldSchema { is_primary_key: true, ..text(field::ID, KEY_BYTES_MAX) },
        FieldSchema { is_partition_key: true, ..text(field::PARTITION, KEY_BYTES_MAX) },
        text(field::KIND, WORD_BYTES_MAX),
        text(field::COLLECTION, WORD_BYTES_MAX),
        long(field::HAPPENED_AT),
        long(field::CREATED_AT),
        long(field::EXPIRES_AT),
        long(field::VERSION),
        FieldSchema { type_params: vec![pair("dim", dimensions)], ..plain(field::VECTOR, data_type::FLOAT_VECTOR) },
    ]
}

/// A key and a value as the protocol has them.
pub(crate) fn pair(key: &str, value: impl ToString) -> KeyValuePair {
    KeyValuePair { key: key.to_owned(), value: value.to_string() }
}

/// What is wrong with an existing collection; nothing if it is laid out as ours.
pub(crate) fn mismatch(schema: &CollectionSchema, dimensions: usize) -> Option<String> {
    for wanted in fields(dimensions) {
        let Some(found) = schema.fields.iter().find(|field| field.name == wanted.name) else {
            return Some(format!("it has no field {}", wanted.name));
        };
        let same = found.data_type == wanted.data_type
            && found.is_primary_key == wanted.is_primary_key
            && found.is_partition_key == wanted.is_partition_key;
        if !same {
            return Some(format!("its field {} is of another type", wanted.name));
        }
        let dim = found.type_params.iter().find(|pair| pair.key == "dim");
        if wanted.name == field::VECTOR && dim.is_none_or(|dim| dim.value != dimensions.to_string()) {
            return Some(format!("its vectors do not have {dimensions} dimensions"));
        }
    }
    None
}

/// Which incarnation a collection says that it is.
pub(crate) fn incarnation<'a>(description: &'a str, properties: &'a [KeyValuePair]) -> Option<&'a str> {
    let property = properties.iter().find(|pair| pair.key == INCARNATION_PROPERTY).map(|pair| pair.value.as_str());
    description.strip_prefix(INCARNATION).or(property)
}

/// Rows as columns.
pub(crate) fn columns(partition: &str, dimensions: usize, rows: &[RemoteRow]) -> Vec<FieldData> {
    let strings = |name, of: &dyn Fn(&RemoteRow) -> String| FieldData::strings(name, rows.iter().map(of).collect());
    let longs = |name, of: &dyn Fn(&RemoteRow) -> i64| FieldData::longs(name, rows.iter().map(of).collect());
    let vectors = rows.iter().flat_map(|row| row.vector.iter().copied()).collect();
    vec![
        strings(field::ID, &|row| key(partition, row.seq)),
        strings(field::PARTITION, &|_| partition.to_owned()),
        strings(field::KIND, &|row| short(&row.kind)),
        strings(field::COLLECTION, &|row| short(&row.collection)),
        longs(field::HAPPENED_AT, &|row| row.happened_at.0),
        longs(field::CREATED_AT, &|row| row.created_at.0),
        longs(field::EXPIRES_AT, &|row| row.expires_at.map_or(NEVER, |at| at.0)),
        longs(field::VERSION, &|row| row.version),
        FieldData::vectors(field::VECTOR, i64::try_from(dimensions).unwrap_or(i64::MAX), vectors),
    ]
}

/// A word that fits its field. One that is cut is never asked for: a condition on such a text is not sent.
fn short(text: &str) -> String {
    let end = text.floor_char_boundary(WORD_BYTES_MAX);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_one_partition() {
        assert_eq!(seq("s/tenant_a/main", &key("s/tenant_a/main", 7)), Some(7));
        assert_eq!(seq("s/tenant_a/main", &key("s/tenant_a/main2", 7)), None);
        assert_eq!(seq("s/tenant_a/main", "s/tenant_a/main#x"), None);
    }

    #[test]
    fn collections_of_different_embedders_do_not_meet() {
        let space = |embedder: &str, dimensions| Space { embedder: embedder.to_owned(), dimensions };
        let names = [space("a/b", 4), space("a_b", 4), space("a/b", 8)].map(|space| collection_name(&space));
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2], "{names:?}");
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')), "{names:?}");
    }
}
