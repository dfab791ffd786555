//! The port: what a server of vectors must be able to do, and what it may get wrong without doing harm.
//!
//! Laws of an implementation: a row is there once, whatever is sent twice; a deleted number does not come back by
//! itself; `nearest` sees every write whose mark is at most `at_least`; the incarnation changes when the server lost what
//! it was given. What it may do: answer late, forget, give out rows that were deleted or have expired, be gone. Memory
//! looks every candidate up in its own rows and compares what is recent itself.

use std::fmt;

use async_trait::async_trait;
pub use longhaul_core::TimeMs;

/// Vectors that can be compared with each other: those of one embedder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space {
    /// The embedder's id.
    pub embedder: String,
    /// Length of every vector.
    pub dimensions: usize,
}

/// A moment in the server's order of writes; 0 is before all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub i64);

/// What a search may let the server leave out. The server may also leave a condition out itself: the rows decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFilter {
    /// Rows that expired before this are not wanted.
    pub now: TimeMs,
    /// Any of these, if there are any.
    pub collections: Vec<String>,
    /// Any of these, if there are any.
    pub kinds: Vec<String>,
    /// Happened at or after.
    pub since: Option<TimeMs>,
    /// Happened before.
    pub until: Option<TimeMs>,
}

impl Default for RemoteFilter {
    fn default() -> Self {
        Self { now: TimeMs(0), collections: Vec::new(), kinds: Vec::new(), since: None, until: None }
    }
}

/// A question to the server.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Which vectors.
    pub space: &'a Space,
    /// The incarnation that the caller has filled; an answer of another one is no answer.
    pub incarnation: &'a str,
    /// Whose: at most 230 characters of `[A-Za-z0-9_.:/-]`.
    pub partition: &'a str,
    /// What to be near to; length one.
    pub vector: &'a [f32],
    /// What may be left out.
    pub filter: &'a RemoteFilter,
    /// How many are wanted.
    pub take: usize,
    /// Writes that must be seen.
    pub at_least: Mark,
}

/// A candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The row's number within its partition.
    pub seq: i64,
    /// Cosine as the server has it; memory computes it again.
    pub score: f32,
}

/// A row as the server keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteRow {
    /// The row's number within its partition.
    pub seq: i64,
    /// Grows whenever the row's vector is written.
    pub version: i64,
    /// Word of its kind.
    pub kind: String,
    /// Its collection.
    pub collection: String,
    /// When it happened.
    pub happened_at: TimeMs,
    /// When it was written.
    pub created_at: TimeMs,
    /// When it stops to be given out.
    pub expires_at: Option<TimeMs>,
    /// Of length one.
    pub vector: Vec<f32>,
}

/// What is new in a partition. Applying it twice is the same as once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Rows to be there, in the place of an older version.
    pub upserts: Vec<RemoteRow>,
    /// Rows to be gone.
    pub deletes: Vec<i64>,
    /// None of the rows to be there was ever sent before, so none need be looked for.
    pub is_first: bool,
}

/// What is found in the server of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The row's number.
    pub seq: i64,
    /// The version of its vector.
    pub version: i64,
    /// Its vector.
    pub vector: Vec<f32>,
}

/// What a server can do, found out by doing it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// What the server calls its version; for people to read, nothing depends on it.
    pub version: String,
    /// A row that was just written is found by a search that waits for its mark.
    pub waits_for_marks: bool,
    /// A row that was just written is found by a search that waits for nothing.
    pub fresh_reads: bool,
    /// Applying a row twice leaves one.
    pub upsert: bool,
    /// Has keyword search of its own (not used: words are searched in the store's transaction).
    pub keywords: bool,
    /// Stops giving out a row whose time is over within two seconds (not used: the time is part of every filter).
    pub enforces_ttl: bool,
    /// Kinds of index it takes.
    pub indexes: Vec<String>,
}

/// A space that is ready to be searched and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Differs when the server has lost, or was given anew, what it kept.
    pub incarnation: String,
}

/// Why a server could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It cannot be reached, is too slow or not ready: trying again later helps.
    #[error("the vector server is away")]
    Away(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It has lost what it kept: fill it again.
    #[error("the vector server has lost what it kept")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It refuses, or its answers make no sense: somebody has to look.
    #[error("the vector server cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server that keeps a copy of vectors and finds the nearest of them.
#[async_trait]
pub trait RemoteVectors: Send + Sync + fmt::Debug {
    /// Names the server, without secrets. Two names are two servers: what one has says nothing of the other.
    fn place(&self) -> &str;

    /// Makes what is missing (collection, index), loads it, and tells which incarnation it is. Cheap when nothing is
    /// missing; several processes may do it at the same time.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn open(&self, space: &Space) -> Result<Opened, RemoteError>;

    /// At most `take` candidates, best first.
    ///
    /// # Errors
    /// [`RemoteError::Lost`] when the space is not there any more or is another incarnation; others of [`RemoteError`].
    async fn nearest(&self, ask: &Ask<'_>) -> Result<Vec<Near>, RemoteError>;

    /// Carries out a batch; the mark says from when on it can be asked for.
    ///
    /// # Errors
    /// [`RemoteError`]; some of the batch may have been carried out.
    async fn apply(&self, space: &Space, partition: &str, batch: &Batch) -> Result<Mark, RemoteError>;

    /// Told after many rows were applied: a good moment to build an index. Does not wait for it.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn settle(&self, space: &Space) -> Result<(), RemoteError>;

    /// How many rows of a partition it has, every write seen.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn count(&self, space: &Space, partition: &str) -> Result<u64, RemoteError>;

    /// What it has of these rows, every write seen; rows that it lacks are left out.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn sample(&self, space: &Space, partition: &str, seqs: &[i64]) -> Result<Vec<Stored>, RemoteError>;

    /// Removes everything of a partition.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn clear(&self, space: &Space, partition: &str) -> Result<Mark, RemoteError>;

    /// Finds out what the server can do, in a space of its own that is removed again.
    ///
    /// # Errors
    /// [`RemoteError`].
    async fn capabilities(&self) -> Result<Capabilities, RemoteError>;
}
