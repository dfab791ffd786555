//! What a server can do, found out by doing it in a collection of its own, which is dropped again.
//!
//! Nothing that memory gives out depends on the answer: it is for people, for `memory migrate`, and for our tests to
//! notice when a new server behaves differently. Invariant: whatever happens, the collection is dropped if it can be.

use std::time::Duration;

use longhaul_core::TimeMs;
use longhaul_memory::remote::{
    Ask, Batch, Capabilities, Mark, RemoteError, RemoteFilter, RemoteRow, RemoteVectors, Space,
};
use prost::Message;

use crate::{
    Index, Milvus, MilvusError,
    collection::SCHEMA_LIMIT,
    layout::{self, pair},
    proto::{
        CollectionSchema, CreateCollectionRequest, FieldSchema, FunctionSchema, GetVersionRequest, GetVersionResponse,
        Status, data_type,
    },
};

const DIMENSIONS: usize = 8;
const PARTITION: &str = "probe";
/// Seconds after which the server should stop giving rows out, and how long it gets for it.
const TTL_S: u64 = 1;
const TTL_WAIT: Duration = Duration::from_millis(2_500);

pub(crate) async fn run(milvus: &Milvus) -> Result<Capabilities, MilvusError> {
    let version: GetVersionResponse =
        milvus.client().call("GetVersion", GetVersionRequest::default(), SCHEMA_LIMIT).await?;
    let space = Space { embedder: format!("probe {}", milvus.ambient().ids.body()), dimensions: DIMENSIONS };
    let tried = rows(milvus, &space).await;
    let name = layout::collection_name(&space);
    let dropped = milvus.client().drop_collection(&name).await;
    let mut capabilities = tried?;
    dropped?;
    for index in [Index::default(), Index::IvfFlat { nlist: 16, nprobe: 4 }] {
        let name = format!("{name}_{}", index.word().to_lowercase());
        if milvus.client().ready(&name, DIMENSIONS, index, "probe", Vec::new()).await.is_ok() {
            capabilities.indexes.push(index.word().to_owned());
        }
        let _ = milvus.client().drop_collection(&name).await;
    }
    capabilities.keywords = keywords(milvus, &format!("{name}_words")).await;
    capabilities.version = version.version;
    Ok(capabilities)
}

async fn rows(milvus: &Milvus, space: &Space) -> Result<Capabilities, MilvusError> {
    let name = layout::collection_name(space);
    let ttl = vec![pair("collection.ttl.seconds", TTL_S)];
    let incarnation = milvus.client().ready(&name, DIMENSIONS, Index::default(), "probe", ttl).await?;
    let filter = RemoteFilter::default();
    let mut vector = vec![0.0; DIMENSIONS];
    vector[0] = 1.0;
    let batch = Batch { upserts: vec![row(1, &vector)], ..Batch::default() };
    let mark = unpack(milvus.apply(space, PARTITION, &batch).await)?;
    let ask = |at_least: Mark| Ask {
        space,
        incarnation: &incarnation,
        partition: PARTITION,
        vector: &vector,
        filter: &filter,
        take: 10,
        at_least,
    };
    let fresh_reads = !unpack(milvus.nearest(&ask(Mark(0))).await)?.is_empty();
    let waits_for_marks = unpack(milvus.nearest(&ask(mark)).await)?.len() == 1;
    unpack(milvus.apply(space, PARTITION, &batch).await)?;
    let upsert = unpack(milvus.count(space, PARTITION).await)? == 1;
    tokio::time::sleep(TTL_WAIT).await;
    let enforces_ttl = unpack(milvus.nearest(&ask(mark)).await)?.is_empty();
    Ok(Capabilities { waits_for_marks, fresh_reads, upsert, enforces_ttl, ..Capabilities::default() })
}

/// Our own error out of the port's.
fn unpack<T>(result: Result<T, RemoteError>) -> Result<T, MilvusError> {
    result.map_err(|error| {
        let (RemoteError::Away(source) | RemoteError::Lost(source) | RemoteError::Unusable(source)) = error;
        match source.downcast::<MilvusError>() {
            Ok(error) => *error,
            Err(error) => {
                MilvusError::Garbage { address: String::new(), method: "a probe", problem: error.to_string() }
            }
        }
    })
}

fn row(seq: i64, vector: &[f32]) -> RemoteRow {
    RemoteRow {
        seq,
        version: seq,
        kind: "note".to_owned(),
        collection: "probe".to_owned(),
        happened_at: TimeMs(0),
        created_at: TimeMs(0),
        expires_at: None,
        vector: vector.to_vec(),
    }
}

/// Whether the server has keyword search of its own.
async fn keywords(milvus: &Milvus, name: &str) -> bool {
    const SPARSE_VECTOR: i32 = 104;
    let field = |name: &str, data_type: i32| FieldSchema { name: name.to_owned(), data_type, ..Default::default() };
    let schema = CollectionSchema {
        name: name.to_owned(),
        description: String::new(),
        fields: vec![
            FieldSchema { is_primary_key: true, ..field("id", data_type::INT64) },
            FieldSchema {
                type_params: vec![pair("max_length", 100), pair("enable_analyzer", true)],
                ..field("text", data_type::VARCHAR)
            },
            field("sparse", SPARSE_VECTOR),
        ],
        functions: vec![FunctionSchema {
            name: "bm25".to_owned(),
            kind: 1,
            input_field_names: vec!["text".to_owned()],
            output_field_names: vec!["sparse".to_owned()],
        }],
    };
    let request = CreateCollectionRequest {
        collection_name: name.to_owned(),
        schema: schema.encode_to_vec(),
        shards_num: 1,
        ..CreateCollectionRequest::default()
    };
    let created: Result<Status, _> = milvus.client().call("CreateCollection", request, SCHEMA_LIMIT).await;
    // A server that knows no functions takes the request and forgets them.
    let described = milvus.client().describe(name, SCHEMA_LIMIT).await;
    let known = created.is_ok()
        && described.is_ok_and(|described| described.schema.is_some_and(|schema| !schema.functions.is_empty()));
    let _ = milvus.client().drop_collection(name).await;
    known
}
