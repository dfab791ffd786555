//! One server for the tests of this process that do it no harm, and vectors to put there.

use std::sync::{Arc, Mutex, OnceLock};

use longhaul_core::{Ambient, TimeMs};
use longhaul_memory::remote::{Ask, Batch, Mark, Near, RemoteError, RemoteFilter, RemoteRow, RemoteVectors, Space};
use longhaul_milvus::{Address, Milvus, MilvusSettings};
use longhaul_testbed::{MilvusKind, MilvusServer};

pub(crate) const DIMENSIONS: usize = 16;

/// Which server this run is about.
pub(crate) fn kind() -> MilvusKind {
    match std::env::var("LONGHAUL_TEST_MILVUS").as_deref() {
        Ok("full") => MilvusKind::Full,
        Ok("lite") | Err(_) => MilvusKind::Lite,
        Ok(other) => panic!("LONGHAUL_TEST_MILVUS is {other:?}: lite or full"),
    }
}

/// Statics are not dropped; the keeper ends the server when our end of its pipe closes with the process.
pub(crate) fn shared() -> String {
    static SHARED: OnceLock<Mutex<MilvusServer>> = OnceLock::new();
    SHARED.get_or_init(|| Mutex::new(MilvusServer::start(kind()).unwrap())).lock().unwrap().uri()
}

pub(crate) fn connect(uri: &str) -> Milvus {
    Milvus::new(settings(uri), Ambient::system()).unwrap()
}

pub(crate) fn settings(uri: &str) -> MilvusSettings {
    MilvusSettings::new(Address::parse(uri).unwrap())
}

/// A space that no other test has.
pub(crate) fn space(name: &str) -> Space {
    Space { embedder: format!("test {name}"), dimensions: DIMENSIONS }
}

/// A vector of length one; the same for the same number.
pub(crate) fn vector(number: i64) -> Vec<f32> {
    let mut state = number.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    };
    let vector: Vec<f32> = (0..DIMENSIONS).map(|_| next()).collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

pub(crate) fn row(seq: i64) -> RemoteRow {
    RemoteRow {
        seq,
        version: seq,
        kind: if seq % 2 == 0 { "note" } else { "decision" }.to_owned(),
        collection: format!("c{}", seq % 5),
        happened_at: TimeMs(1_000 * seq),
        created_at: TimeMs(1_000 * seq),
        expires_at: None,
        vector: vector(seq),
    }
}

pub(crate) fn rows(seqs: impl IntoIterator<Item = i64>) -> Batch {
    Batch { upserts: seqs.into_iter().map(row).collect(), ..Batch::default() }
}

/// One question, and everything it needs.
pub(crate) struct Question {
    pub(crate) milvus: Arc<Milvus>,
    pub(crate) space: Space,
    pub(crate) incarnation: String,
    pub(crate) mark: Mark,
    pub(crate) filter: RemoteFilter,
}

impl Question {
    pub(crate) async fn open(uri: &str, name: &str) -> Self {
        let (milvus, space) = (Arc::new(connect(uri)), space(name));
        let incarnation = milvus.open(&space).await.unwrap().incarnation;
        Self { milvus, space, incarnation, mark: Mark(0), filter: RemoteFilter::default() }
    }

    pub(crate) async fn apply(&mut self, partition: &str, batch: &Batch) {
        self.mark = self.milvus.apply(&self.space, partition, batch).await.unwrap();
    }

    pub(crate) async fn nearest(&self, partition: &str, vector: &[f32], take: usize) -> Result<Vec<Near>, RemoteError> {
        let ask = Ask {
            space: &self.space,
            incarnation: &self.incarnation,
            partition,
            vector,
            filter: &self.filter,
            take,
            at_least: self.mark,
        };
        self.milvus.nearest(&ask).await
    }

    pub(crate) async fn seqs(&self, partition: &str, vector: &[f32], take: usize) -> Vec<i64> {
        self.nearest(partition, vector, take).await.unwrap().iter().map(|near| near.seq).collect()
    }
}
