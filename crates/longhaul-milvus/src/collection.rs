//! Making a collection ready: created, indexed, loaded. Several processes may do it at the same time.
//!
//! It owns the order of the steps and what is done about somebody else having been quicker. Invariant: what is there
//! already and fits is left as it is; what does not fit is refused, never emptied.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    Index, MilvusError,
    client::Client,
    expression::field,
    layout::{self, pair},
    proto::{
        CollectionRequest, CreateIndexRequest, DescribeCollectionResponse, DescribeIndexResponse, GetLoadStateRequest,
        GetLoadStateResponse, IndexDescription, IndexRequest, KeyValuePair, LoadCollectionRequest, Status,
    },
};

/// Limit of calls that change no rows.
pub(crate) const SCHEMA_LIMIT: Duration = Duration::from_secs(30);
/// How long loading may take before the server counts as not ready.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// How long somebody else may take to make a collection.
const CREATE_LIMIT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOADED: i32 = 3;
const METRIC: &str = "IP";

impl Client {
    pub(crate) async fn describe(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<DescribeCollectionResponse, MilvusError> {
        let ask = CollectionRequest { collection_name: name.to_owned(), ..CollectionRequest::default() };
        self.call("DescribeCollection", ask, limit).await
    }

    /// Makes the collection with its index and loads it, as far as that is missing. Tells its incarnation.
    pub(crate) async fn ready(
        &self,
        name: &str,
        dimensions: usize,
        index: Index,
        fresh: &str,
        properties: Vec<KeyValuePair>,
    ) -> Result<String, MilvusError> {
        let described = match self.describe(name, SCHEMA_LIMIT).await {
            Err(MilvusError::Missing { .. }) => {
                let created: Result<Status, _> = self
                    .call("CreateCollection", layout::create(name, dimensions, fresh, properties), SCHEMA_LIMIT)
                    .await;
                // Somebody else may have been quicker, or be just at it; then theirs is as good as ours.
                let started = Instant::now();
                loop {
                    match (self.describe(name, SCHEMA_LIMIT).await, &created) {
                        (Err(MilvusError::Missing { .. }), Err(_)) if started.elapsed() < CREATE_LIMIT => {
                            tokio::time::sleep(LOOK_EVERY).await;
                        }
                        (Err(MilvusError::Missing { .. }), Err(_)) => {
                            created?;
                            return Err(self.garbage("CreateCollection", "a collection that was made is not there"));
                        }
                        (described, _) => break described?,
                    }
                }
            }
            described => described?,
        };
        let incarnation = self.incarnation(name, dimensions, &described)?;
        self.index(name, index).await?;
        self.load(name).await?;
        Ok(incarnation)
    }

    /// Which incarnation a collection is; refused when it is not laid out as ours.
    pub(crate) fn incarnation(
        &self,
        name: &str,
        dimensions: usize,
        described: &DescribeCollectionResponse,
    ) -> Result<String, MilvusError> {
        let Some(schema) = &described.schema else {
            return Err(self.garbage("DescribeCollection", "a collection without a schema"));
        };
        if let Some(problem) = layout::mismatch(schema, dimensions) {
            let problem = format!("collection {name} is not one of Longhaul's: {problem}; rename or drop it");
            return Err(self.garbage("DescribeCollection", problem));
        }
        let said = layout::incarnation(&schema.description, &described.properties).unwrap_or("unnamed");
        Ok(format!("{said}/{}/{}", described.collection_id, described.created_timestamp))
    }

    async fn index(&self, name: &str, wanted: Index) -> Result<(), MilvusError> {
        let found = self.index_of(name).await?;
        if let Some(found) = &found {
            if fits(found, wanted) {
                return Ok(());
            }
            tracing::info!(collection = name, index = %wanted, "the setting names another index: building it");
            let ask = CollectionRequest { collection_name: name.to_owned(), ..CollectionRequest::default() };
            let _: Status = self.call("ReleaseCollection", ask, SCHEMA_LIMIT).await?;
            let ask = IndexRequest {
                collection_name: name.to_owned(),
                field_name: field::VECTOR.to_owned(),
                index_name: found.index_name.clone(),
                ..IndexRequest::default()
            };
            let _: Status = self.call("DropIndex", ask, SCHEMA_LIMIT).await?;
        }
        let ask = CreateIndexRequest {
            collection_name: name.to_owned(),
            field_name: field::VECTOR.to_owned(),
            index_name: field::VECTOR.to_owned(),
            extra_params: vec![
                pair("index_type", wanted.word()),
                pair("metric_type", METRIC),
                pair("params", wanted.build_params()),
            ],
            ..CreateIndexRequest::default()
        };
        let created: Result<Status, _> = self.call("CreateIndex", ask, SCHEMA_LIMIT).await;
        match created {
            // Somebody else has made one in the meantime.
            Err(error @ MilvusError::Refused { .. }) if self.index_of(name).await?.is_none() => Err(error),
            Ok(_) | Err(MilvusError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The index over vectors; `None` when there is none.
    pub(crate) async fn index_of(&self, name: &str) -> Result<Option<IndexDescription>, MilvusError> {
        let ask = IndexRequest { collection_name: name.to_owned(), ..IndexRequest::default() };
        let described: Result<DescribeIndexResponse, _> = self.call("DescribeIndex", ask, SCHEMA_LIMIT).await;
        match described {
            Ok(described) => {
                Ok(described.index_descriptions.into_iter().find(|index| index.field_name == field::VECTOR))
            }
            // Servers say that there is no index in words of their own.
            Err(MilvusError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Loads a collection and waits for it.
    pub(crate) async fn load(&self, name: &str) -> Result<(), MilvusError> {
        if self.loaded(name).await? {
            return Ok(());
        }
        let ask = LoadCollectionRequest { collection_name: name.to_owned(), replica_number: 1, ..Default::default() };
        let _: Status = self.call("LoadCollection", ask, SCHEMA_LIMIT).await?;
        let started = Instant::now();
        while !self.loaded(name).await? {
            if started.elapsed() > LOAD_LIMIT {
                let address = self.address().to_string();
                return Err(MilvusError::Slow { address, method: "LoadCollection", limit: LOAD_LIMIT });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn loaded(&self, name: &str) -> Result<bool, MilvusError> {
        let ask = GetLoadStateRequest { collection_name: name.to_owned(), ..GetLoadStateRequest::default() };
        let state: GetLoadStateResponse = self.call("GetLoadState", ask, SCHEMA_LIMIT).await?;
        Ok(state.state == LOADED)
    }

    pub(crate) async fn drop_collection(&self, name: &str) -> Result<(), MilvusError> {
        let ask = CollectionRequest { collection_name: name.to_owned(), ..CollectionRequest::default() };
        let _: Status = self.call("DropCollection", ask, SCHEMA_LIMIT).await?;
        Ok(())
    }
}

/// Whether an index is of the wanted kind and built with the wanted numbers.
fn fits(found: &IndexDescription, wanted: Index) -> bool {
    let value = |key: &str| found.params.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
    let Some(kind) = value("index_type") else { return true };
    // Some servers give the numbers as pairs, others as JSON under `params`.
    let digits = |text: &str| -> Vec<String> {
        text.split(|char: char| !char.is_ascii_digit()).filter(|run| !run.is_empty()).map(str::to_owned).collect()
    };
    let numbers = match wanted {
        Index::Hnsw { .. } => {
            [value("M"), value("efConstruction")].iter().flatten().map(|text| (*text).to_owned()).collect()
        }
        Index::IvfFlat { .. } => value("nlist").map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    let numbers = if numbers.is_empty() { digits(value("params").unwrap_or("")) } else { numbers };
    kind.eq_ignore_ascii_case(wanted.word()) && (numbers.is_empty() || numbers == digits(&wanted.build_params()))
}
