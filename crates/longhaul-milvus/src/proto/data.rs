//! Columns, schemas and ids: what requests and answers are made of (`schema.proto`).

use super::KeyValuePair;

/// `schema.DataType`.
pub(crate) mod data_type {
    pub(crate) const INT64: i32 = 5;
    pub(crate) const VARCHAR: i32 = 21;
    pub(crate) const FLOAT_VECTOR: i32 = 101;
}

/// `schema.FieldSchema`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FieldSchema {
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(bool, tag = "3")]
    pub(crate) is_primary_key: bool,
    #[prost(string, tag = "4")]
    pub(crate) description: String,
    #[prost(int32, tag = "5")]
    pub(crate) data_type: i32,
    #[prost(message, repeated, tag = "6")]
    pub(crate) type_params: Vec<KeyValuePair>,
    #[prost(bool, tag = "13")]
    pub(crate) is_partition_key: bool,
}

/// `schema.CollectionSchema`; sent serialised inside the request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CollectionSchema {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) fields: Vec<FieldSchema>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) functions: Vec<FunctionSchema>,
}

/// `schema.FunctionSchema`: what the server computes by itself. Only asked about, never used.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FunctionSchema {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "4")]
    pub(crate) kind: i32,
    #[prost(string, repeated, tag = "5")]
    pub(crate) input_field_names: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    pub(crate) output_field_names: Vec<String>,
}

/// `schema.FloatArray`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FloatArray {
    #[prost(float, repeated, tag = "1")]
    pub(crate) data: Vec<f32>,
}

/// `schema.LongArray`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LongArray {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) data: Vec<i64>,
}

/// `schema.StringArray`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StringArray {
    #[prost(string, repeated, tag = "1")]
    pub(crate) data: Vec<String>,
}

/// `schema.ScalarField`, without the types that are not used here.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScalarField {
    #[prost(oneof = "ScalarData", tags = "3, 6")]
    pub(crate) data: Option<ScalarData>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum ScalarData {
    #[prost(message, tag = "3")]
    Longs(LongArray),
    #[prost(message, tag = "6")]
    Strings(StringArray),
}

/// `schema.VectorField`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VectorField {
    #[prost(int64, tag = "1")]
    pub(crate) dim: i64,
    #[prost(oneof = "VectorData", tags = "2")]
    pub(crate) data: Option<VectorData>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum VectorData {
    #[prost(message, tag = "2")]
    Floats(FloatArray),
}

/// `schema.FieldData`: one column of a batch.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FieldData {
    #[prost(int32, tag = "1")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) field_name: String,
    #[prost(oneof = "Column", tags = "3, 4")]
    pub(crate) column: Option<Column>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Column {
    #[prost(message, tag = "3")]
    Scalars(ScalarField),
    #[prost(message, tag = "4")]
    Vectors(VectorField),
}

impl FieldData {
    /// A column of texts.
    pub(crate) fn strings(name: &str, data: Vec<String>) -> Self {
        let column = Column::Scalars(ScalarField { data: Some(ScalarData::Strings(StringArray { data })) });
        Self { data_type: data_type::VARCHAR, field_name: name.to_owned(), column: Some(column) }
    }

    /// A column of whole numbers.
    pub(crate) fn longs(name: &str, data: Vec<i64>) -> Self {
        let column = Column::Scalars(ScalarField { data: Some(ScalarData::Longs(LongArray { data })) });
        Self { data_type: data_type::INT64, field_name: name.to_owned(), column: Some(column) }
    }

    /// A column of vectors, one after the other.
    pub(crate) fn vectors(name: &str, dim: i64, data: Vec<f32>) -> Self {
        let column = Column::Vectors(VectorField { dim, data: Some(VectorData::Floats(FloatArray { data })) });
        Self { data_type: data_type::FLOAT_VECTOR, field_name: name.to_owned(), column: Some(column) }
    }

    /// The texts of this column, if it is one of texts.
    pub(crate) fn as_strings(&self) -> Option<&[String]> {
        let Some(Column::Scalars(ScalarField { data: Some(ScalarData::Strings(strings)) })) = &self.column else {
            return None;
        };
        Some(&strings.data)
    }

    /// The numbers of this column, if it is one of numbers.
    pub(crate) fn as_longs(&self) -> Option<&[i64]> {
        let Some(Column::Scalars(ScalarField { data: Some(ScalarData::Longs(longs)) })) = &self.column else {
            return None;
        };
        Some(&longs.data)
    }

    /// The vectors of this column, one after the other, if it is one of vectors.
    pub(crate) fn as_floats(&self) -> Option<&[f32]> {
        let Some(Column::Vectors(VectorField { data: Some(VectorData::Floats(floats)), .. })) = &self.column else {
            return None;
        };
        Some(&floats.data)
    }
}

/// `schema.IDs`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ids {
    #[prost(oneof = "IdField", tags = "1, 2")]
    pub(crate) ids: Option<IdField>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum IdField {
    #[prost(message, tag = "1")]
    Longs(LongArray),
    #[prost(message, tag = "2")]
    Strings(StringArray),
}

/// `schema.SearchResultData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SearchResultData {
    #[prost(float, repeated, tag = "4")]
    pub(crate) scores: Vec<f32>,
    #[prost(message, optional, tag = "5")]
    pub(crate) ids: Option<Ids>,
}

/// `common.PlaceholderValue`: a query vector, as little-endian bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PlaceholderValue {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(int32, tag = "2")]
    pub(crate) kind: i32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) values: Vec<Vec<u8>>,
}

/// `common.PlaceholderGroup`; sent serialised inside the request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PlaceholderGroup {
    #[prost(message, repeated, tag = "1")]
    pub(crate) placeholders: Vec<PlaceholderValue>,
}
