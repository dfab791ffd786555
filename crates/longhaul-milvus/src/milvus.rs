//! The port of memory over a Milvus server.
//!
//! It owns what is asked and in which order; the words on the wire are `client`'s, the layout `layout`'s. Invariant: an
//! answer counts only if it came from the incarnation that the caller has filled.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::Ambient;
use longhaul_memory::remote::{
    Ask, Batch, Capabilities, Mark, Near, Opened, RemoteError, RemoteVectors, Space, Stored,
};
use prost::Message;
use tokio::time::Instant;

use crate::{
    Address, Index, MilvusError,
    client::Client,
    expression::{self, field},
    layout::{self, pair},
    probe,
    proto::{
        ConsistencyLevel, DeleteRequest, FlushRequest, FlushResponse, IdField, InsertRequest, MutationResult,
        PlaceholderGroup, PlaceholderValue, QueryRequest, QueryResults, SearchRequest, SearchResults, data_type,
    },
};

/// Rows of one insertion: 1.5 MB at 384 dimensions.
const ROWS_PER_CALL: usize = 1_000;
/// A server gives at most this many rows.
const TAKE_MAX: usize = 16_384;
/// How long an incarnation counts as known.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Limit of one insertion or deletion.
const WRITE_LIMIT: Duration = Duration::from_secs(15);
const COUNT_LIMIT: Duration = Duration::from_secs(30);

/// What a connection is made with.
#[derive(Debug, Clone)]
pub struct MilvusSettings {
    /// Where, and how to be let in.
    pub address: Address,
    /// Which index to build.
    pub index: Index,
    /// How long a search may take before it is answered without the server.
    pub search_limit: Duration,
}

impl MilvusSettings {
    /// An index of the default kind, two seconds for a search.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, index: Index::default(), search_limit: Duration::from_secs(2) }
    }
}

/// Vectors of memory in a Milvus server. Nothing is sent before the first call.
#[derive(Debug)]
pub struct Milvus {
    client: Client,
    place: String,
    index: Index,
    search_limit: Duration,
    ambient: Ambient,
    /// When which incarnation of a collection was seen last.
    seen: Mutex<HashMap<String, (String, Instant)>>,
}

impl Milvus {
    /// Prepares a connection. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`MilvusError::Address`], [`MilvusError::CaFile`].
    pub fn new(settings: MilvusSettings, ambient: Ambient) -> Result<Self, MilvusError> {
        let MilvusSettings { address, index, search_limit } = settings;
        let place = address.to_string();
        let client = Client::new(address)?;
        Ok(Self { client, place, index, search_limit, ambient, seen: Mutex::default() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn ambient(&self) -> &Ambient {
        &self.ambient
    }

    /// Drops the collection of a space with everybody's rows in it.
    ///
    /// # Errors
    /// [`MilvusError`].
    pub async fn drop_space(&self, space: &Space) -> Result<(), MilvusError> {
        self.client.drop_collection(&layout::collection_name(space)).await
    }

    fn note(&self, name: &str, incarnation: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name.to_owned(), (incarnation.to_owned(), Instant::now()));
    }

    fn known(&self, name: &str, incarnation: &str, within: Duration) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).is_some_and(|(known, at)| known == incarnation && at.elapsed() <= within)
    }

    /// Fails unless the collection is still the one that the caller has filled.
    async fn confirm(&self, name: &str, ask: &Ask<'_>) -> Result<(), MilvusError> {
        let described = self.client.describe(name, self.search_limit).await?;
        let found = self.client.incarnation(name, ask.space.dimensions, &described)?;
        self.note(name, &found);
        if found == ask.incarnation {
            return Ok(());
        }
        Err(MilvusError::Missing { address: self.place.clone(), collection: name.to_owned() })
    }

    async fn search(&self, name: &str, ask: &Ask<'_>) -> Result<Vec<Near>, MilvusError> {
        let take = ask.take.min(TAKE_MAX);
        let values = vec![ask.vector.iter().flat_map(|value| value.to_le_bytes()).collect()];
        let query = PlaceholderValue { tag: "$0".to_owned(), kind: data_type::FLOAT_VECTOR, values };
        let request = SearchRequest {
            collection_name: name.to_owned(),
            dsl: expression::searchable(ask.partition, ask.filter),
            placeholder_group: PlaceholderGroup { placeholders: vec![query] }.encode_to_vec(),
            dsl_type: 1,
            search_params: vec![
                pair("anns_field", field::VECTOR),
                pair("topk", take),
                pair("metric_type", "IP"),
                pair("params", self.index.search_params(take)),
                pair("round_decimal", -1),
            ],
            nq: 1,
            consistency_level: ConsistencyLevel::Customized.into(),
            // 1 is a time before everything: nothing is waited for.
            guarantee_timestamp: u64::try_from(ask.at_least.0).unwrap_or(0).max(1),
            ..SearchRequest::default()
        };
        let results: SearchResults = self.client.call("Search", request, self.search_limit).await?;
        let garbage = |problem: &str| self.client.garbage("Search", problem);
        let Some(data) = results.results else { return Ok(Vec::new()) };
        let keys = match data.ids.and_then(|ids| ids.ids) {
            Some(IdField::Strings(keys)) => keys.data,
            Some(IdField::Longs(longs)) if !longs.data.is_empty() => return Err(garbage("keys that are numbers")),
            Some(IdField::Longs(_)) | None => Vec::new(),
        };
        if keys.len() != data.scores.len() || keys.len() > take {
            return Err(garbage("not as many keys as scores, or more than were asked for"));
        }
        let near = |(key, score): (&String, &f32)| Some(Near { seq: layout::seq(ask.partition, key)?, score: *score });
        Ok(keys.iter().zip(&data.scores).filter_map(near).collect())
    }

    /// Rows are taken out and put in. The server's own upsert is not used: with a partition key, Milvus 2.3.5 puts what it
    /// upserts into the partition of another field's hash, where no search by partition finds it.
    async fn write(&self, name: &str, space: &Space, partition: &str, batch: &Batch) -> Result<u64, MilvusError> {
        let mut mark = 0;
        let replaced = batch.upserts.iter().filter(|_| !batch.is_first).map(|row| row.seq);
        let out: Vec<i64> = batch.deletes.iter().copied().chain(replaced).collect();
        for seqs in out.chunks(ROWS_PER_CALL) {
            let keys: Vec<String> = seqs.iter().map(|seq| layout::key(partition, *seq)).collect();
            mark = mark.max(self.delete(name, expression::of_keys(&keys)).await?);
        }
        for rows in batch.upserts.chunks(ROWS_PER_CALL) {
            let request = InsertRequest {
                collection_name: name.to_owned(),
                fields_data: layout::columns(partition, space.dimensions, rows),
                num_rows: u32::try_from(rows.len()).unwrap_or(u32::MAX),
                ..InsertRequest::default()
            };
            let result: MutationResult = self.client.call("Insert", request, WRITE_LIMIT).await?;
            mark = mark.max(result.timestamp);
        }
        Ok(mark)
    }

    async fn delete(&self, name: &str, expr: String) -> Result<u64, MilvusError> {
        let request = DeleteRequest { collection_name: name.to_owned(), expr, ..DeleteRequest::default() };
        let result: MutationResult = self.client.call("Delete", request, WRITE_LIMIT).await?;
        Ok(result.timestamp)
    }

    pub(crate) async fn query(&self, name: &str, expr: String, output: &[&str]) -> Result<QueryResults, MilvusError> {
        let request = QueryRequest {
            collection_name: name.to_owned(),
            expr,
            output_fields: output.iter().map(|&field| field.to_owned()).collect(),
            consistency_level: ConsistencyLevel::Strong.into(),
            ..QueryRequest::default()
        };
        self.client.call("Query", request, COUNT_LIMIT).await
    }

    async fn stored(
        &self,
        name: &str,
        space: &Space,
        partition: &str,
        seqs: &[i64],
    ) -> Result<Vec<Stored>, MilvusError> {
        let mut found = Vec::with_capacity(seqs.len());
        for seqs in seqs.chunks(ROWS_PER_CALL) {
            let keys: Vec<String> = seqs.iter().map(|seq| layout::key(partition, *seq)).collect();
            let output = [field::ID, field::VERSION, field::VECTOR];
            let results = self.query(name, expression::of_keys(&keys), &output).await?;
            let column = |name: &str| results.fields_data.iter().find(|column| column.field_name == name);
            let keys = column(field::ID).and_then(|column| column.as_strings()).unwrap_or_default();
            let versions = column(field::VERSION).and_then(|column| column.as_longs()).unwrap_or_default();
            let floats = column(field::VECTOR).and_then(|column| column.as_floats()).unwrap_or_default();
            if keys.len() != versions.len() || floats.len() != keys.len() * space.dimensions {
                return Err(self.client.garbage("Query", "columns of different lengths"));
            }
            for ((key, version), vector) in keys.iter().zip(versions).zip(floats.chunks(space.dimensions.max(1))) {
                if let Some(seq) = layout::seq(partition, key) {
                    found.push(Stored { seq, version: *version, vector: vector.to_vec() });
                }
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl RemoteVectors for Milvus {
    fn place(&self) -> &str {
        &self.place
    }

    async fn open(&self, space: &Space) -> Result<Opened, RemoteError> {
        let name = layout::collection_name(space);
        let fresh = self.ambient.ids.body();
        let incarnation =
            self.client.ready(&name, space.dimensions, self.index, &fresh, Vec::new()).await.map_err(remote)?;
        self.note(&name, &incarnation);
        Ok(Opened { incarnation })
    }

    async fn nearest(&self, ask: &Ask<'_>) -> Result<Vec<Near>, RemoteError> {
        let name = layout::collection_name(ask.space);
        if ask.partition.len() > expression::PARTITION_BYTES_MAX {
            return Err(remote(self.client.garbage("Search", "a partition key that is too long")));
        }
        let near = if self.known(&name, ask.incarnation, KNOWN_FOR) {
            self.search(&name, ask).await
        } else {
            tokio::try_join!(self.confirm(&name, ask), self.search(&name, ask)).map(|((), near)| near)
        };
        let near = match near {
            Err(MilvusError::Refused { reason, .. }) if reason.to_lowercase().contains("not loaded") => {
                self.client.load(&name).await.map_err(remote)?;
                self.search(&name, ask).await
            }
            near => near,
        };
        let near = near.map_err(remote)?;
        // Fewer than asked for is the rule in a small partition, and what a server that was emptied says.
        if near.len() < ask.take && !self.known(&name, ask.incarnation, KNOWN_FOR / 10) {
            self.confirm(&name, ask).await.map_err(remote)?;
        }
        Ok(near)
    }

    async fn apply(&self, space: &Space, partition: &str, batch: &Batch) -> Result<Mark, RemoteError> {
        let name = layout::collection_name(space);
        let mark = self.write(&name, space, partition, batch).await.map_err(remote)?;
        Ok(Mark(i64::try_from(mark).unwrap_or(i64::MAX)))
    }

    async fn settle(&self, space: &Space) -> Result<(), RemoteError> {
        let request =
            FlushRequest { collection_names: vec![layout::collection_name(space)], ..FlushRequest::default() };
        let _: FlushResponse = self.client.call("Flush", request, WRITE_LIMIT).await.map_err(remote)?;
        Ok(())
    }

    async fn count(&self, space: &Space, partition: &str) -> Result<u64, RemoteError> {
        let name = layout::collection_name(space);
        let results = self.query(&name, expression::of_partition(partition), &["count(*)"]).await.map_err(remote)?;
        let count = results.fields_data.first().and_then(|column| column.as_longs()).and_then(|longs| longs.first());
        let count = count.and_then(|count| u64::try_from(*count).ok());
        count.ok_or_else(|| remote(self.client.garbage("Query", "no count")))
    }

    async fn sample(&self, space: &Space, partition: &str, seqs: &[i64]) -> Result<Vec<Stored>, RemoteError> {
        self.stored(&layout::collection_name(space), space, partition, seqs).await.map_err(remote)
    }

    async fn clear(&self, space: &Space, partition: &str) -> Result<Mark, RemoteError> {
        let name = layout::collection_name(space);
        let mark = self.delete(&name, expression::of_partition(partition)).await.map_err(remote)?;
        Ok(Mark(i64::try_from(mark).unwrap_or(i64::MAX)))
    }

    async fn capabilities(&self) -> Result<Capabilities, RemoteError> {
        probe::run(self).await.map_err(remote)
    }
}

/// What a failure means to memory.
fn remote(error: MilvusError) -> RemoteError {
    match error {
        error if error.is_transient() => RemoteError::Away(Box::new(error)),
        error @ MilvusError::Missing { .. } => RemoteError::Lost(Box::new(error)),
        error => RemoteError::Unusable(Box::new(error)),
    }
}
