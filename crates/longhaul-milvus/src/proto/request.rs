//! Requests and answers (`milvus.proto`). `base` (field 1 of requests) is left out: servers take its absence.

use super::{CollectionSchema, ConsistencyLevel, FieldData, KeyValuePair, SearchResultData, Status};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateCollectionRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) schema: Vec<u8>,
    #[prost(int32, tag = "5")]
    pub(crate) shards_num: i32,
    #[prost(enumeration = "ConsistencyLevel", tag = "6")]
    pub(crate) consistency_level: i32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) properties: Vec<KeyValuePair>,
    #[prost(int64, tag = "8")]
    pub(crate) num_partitions: i64,
}

/// Requests that name a collection in field 3: drop, has, describe, load and release.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CollectionRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DescribeCollectionResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(crate) schema: Option<CollectionSchema>,
    #[prost(int64, tag = "3")]
    pub(crate) collection_id: i64,
    #[prost(uint64, tag = "6")]
    pub(crate) created_timestamp: u64,
    #[prost(message, repeated, tag = "13")]
    pub(crate) properties: Vec<KeyValuePair>,
}

/// Load state is asked for with the name in field 2.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetLoadStateRequest {
    #[prost(string, tag = "2")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) db_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetLoadStateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    /// 3 is loaded.
    #[prost(int32, tag = "2")]
    pub(crate) state: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LoadCollectionRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(int32, tag = "4")]
    pub(crate) replica_number: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateIndexRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) extra_params: Vec<KeyValuePair>,
    #[prost(string, tag = "6")]
    pub(crate) index_name: String,
}

/// Describe and drop have the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct IndexRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
    #[prost(string, tag = "5")]
    pub(crate) index_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct IndexDescription {
    #[prost(string, tag = "1")]
    pub(crate) index_name: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) params: Vec<KeyValuePair>,
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
    #[prost(int64, tag = "5")]
    pub(crate) indexed_rows: i64,
    #[prost(int64, tag = "6")]
    pub(crate) total_rows: i64,
    /// 3 is finished.
    #[prost(int32, tag = "7")]
    pub(crate) state: i32,
    #[prost(int64, tag = "9")]
    pub(crate) pending_index_rows: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DescribeIndexResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) index_descriptions: Vec<IndexDescription>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InsertRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) fields_data: Vec<FieldData>,
    #[prost(uint32, tag = "7")]
    pub(crate) num_rows: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeleteRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "5")]
    pub(crate) expr: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MutationResult {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    /// When the write happened, by the server's clock.
    #[prost(uint64, tag = "9")]
    pub(crate) timestamp: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SearchRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "5")]
    pub(crate) dsl: String,
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) placeholder_group: Vec<u8>,
    /// 1: `dsl` is a boolean expression.
    #[prost(int32, tag = "7")]
    pub(crate) dsl_type: i32,
    #[prost(string, repeated, tag = "8")]
    pub(crate) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) search_params: Vec<KeyValuePair>,
    #[prost(uint64, tag = "11")]
    pub(crate) guarantee_timestamp: u64,
    #[prost(int64, tag = "12")]
    pub(crate) nq: i64,
    #[prost(enumeration = "ConsistencyLevel", tag = "14")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SearchResults {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(crate) results: Option<SearchResultData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FlushRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) collection_names: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FlushResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct QueryRequest {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) expr: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output_fields: Vec<String>,
    #[prost(uint64, tag = "8")]
    pub(crate) guarantee_timestamp: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) query_params: Vec<KeyValuePair>,
    #[prost(enumeration = "ConsistencyLevel", tag = "11")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct QueryResults {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) fields_data: Vec<FieldData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetVersionRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetVersionResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}
