//! The engine against a comparison of everything: answers, deletions, files, and many at once.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Rng, Scope, SeededRng};
use longhaul_store::{ReadTx, Store, StoreError, StoreSettings, Tx, values};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{Cache, Current, dot, encode};
use crate::{MIGRATIONS, Namespace, bits::Bits, namespace::PartitionId};

const EMBEDDER: &str = "test";
/// Vectors from which on these tests have an index.
const INDEX_MIN: usize = 300;

struct Place {
    store: Store,
    id: PartitionId,
    folder: TempDir,
    rng: SeededRng,
    dimensions: usize,
}

impl Place {
    async fn new(dimensions: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await.unwrap();
        Self {
            store,
            id: PartitionId::new(&Scope::single_user().tenant, &Namespace::default()),
            folder,
            rng: SeededRng::new(5),
            dimensions,
        }
    }

    fn cache(&self) -> Arc<Cache> {
        Arc::new(Cache::with_index_from(1 << 30, Some(self.dir()), INDEX_MIN))
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("indexes")
    }

    /// The only file there.
    fn file(&self) -> PathBuf {
        let mut files: Vec<PathBuf> = fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.pop().unwrap()
    }

    fn vector(&self) -> Vec<f32> {
        let value = |_| (self.rng.next_u64() >> 40) as f32 / 8_388_608.0 - 1.0;
        let vector: Vec<f32> = (0..self.dimensions).map(value).collect();
        let length = dot(&vector, &vector).sqrt();
        vector.into_iter().map(|value| value / length).collect()
    }

    /// Gives memories `from` to `until` new vectors.
    async fn put(&self, from: i64, until: i64) {
        let vectors: Vec<Vec<f32>> = (from..until).map(|_| self.vector()).collect();
        let id = self.id.clone();
        let put =
            move |tx: &mut Tx<'_>| (from..until).zip(&vectors).try_for_each(|(seq, vector)| put(tx, &id, seq, vector));
        self.store.write(put).await.unwrap();
    }

    async fn run(&self, sql: &'static str) {
        self.store.write(move |tx| tx.execute(sql, &[])).await.unwrap();
    }

    async fn read<T: Send + 'static>(
        &self,
        cache: &Arc<Cache>,
        f: impl FnOnce(&ReadTx<'_>, &Current) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        let (cache, id, dimensions) = (cache.clone(), self.id.clone(), self.dimensions);
        self.store.read(move |read| f(read, &cache.current(read, &id, EMBEDDER, dimensions)?)).await.unwrap()
    }

    /// Searches, and checks every cosine and the share of the true nearest.
    async fn check(
        &self,
        cache: &Arc<Cache>,
        query: Vec<f32>,
        allowed: impl Fn(i64) -> bool + Send + 'static,
        recall: f64,
    ) {
        let id = self.id.clone();
        let (found, expected) = self
            .read(cache, move |read, current| {
                let all = rows(read, &id)?;
                let mut bits = Bits::up_to(all.last().map_or(0, |(seq, _)| *seq) + 9);
                all.iter().filter(|(seq, _)| allowed(*seq)).for_each(|(seq, _)| bits.add(*seq));
                let mut expected: Vec<(f32, i64)> = all
                    .iter()
                    .filter(|(seq, _)| bits.has(*seq))
                    .map(|(seq, vector)| (dot(&query, vector), *seq))
                    .collect();
                expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
                assert_eq!(current.known(&bits), expected.len());
                expected.truncate(10);
                Ok((current.search(read, &query, &bits, 10)?, expected))
            })
            .await;
        assert_eq!(found.len(), expected.len());
        let right = found.iter().filter(|hit| expected.contains(hit)).count();
        assert!(right as f64 >= recall * expected.len() as f64, "{found:?} instead of {expected:?}");
    }

    async fn built(&self, cache: &Arc<Cache>) {
        self.read(cache, |_, _| Ok(())).await;
        while !cache.is_idle() {
            tokio::task::yield_now().await;
        }
    }

    async fn covered(&self, cache: &Arc<Cache>) -> Option<usize> {
        self.read(cache, |_, current| Ok(current.partition.state().lists.as_ref().map(super::lists::Lists::covered)))
            .await
    }
}

fn put(tx: &mut Tx<'_>, id: &PartitionId, seq: i64, vector: &[f32]) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO memory_partitions (tenant_id, namespace, owner, purpose, frozen, last_seq, last_change,
                                        last_vector_seq, analyser, documents, terms, created_at)
         VALUES (?1, ?2, 'user_1', 'memory', 0, ?3, 0, 1, 0, 0, 0, 0) ON CONFLICT (tenant_id, namespace) DO UPDATE SET
         last_seq = max(last_seq, excluded.last_seq), last_vector_seq = last_vector_seq + 1",
        &values![&id.tenant, id.namespace.as_str(), seq],
    )?;
    tx.execute(
        "INSERT INTO memory_vectors (tenant_id, namespace, seq, embedder, vector_seq, vector)
         SELECT tenant_id, namespace, ?3, ?4, last_vector_seq, ?5 FROM memory_partitions
         WHERE tenant_id = ?1 AND namespace = ?2
         ON CONFLICT (tenant_id, namespace, seq, embedder)
         DO UPDATE SET vector_seq = excluded.vector_seq, vector = excluded.vector",
        &values![&id.tenant, id.namespace.as_str(), seq, EMBEDDER, encode(vector)],
    )?;
    Ok(())
}

fn rows(read: &ReadTx<'_>, id: &PartitionId) -> Result<Vec<(i64, Vec<f32>)>, StoreError> {
    let sql = "SELECT seq, vector FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 ORDER BY seq";
    read.query(sql, &values![&id.tenant, id.namespace.as_str()], |row| {
        let values = row.bytes(1)?.chunks_exact(4);
        Ok((row.get(0)?, values.map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]])).collect()))
    })
}

#[tokio::test]
async fn a_vector_of_another_length_or_with_nan_stays_out() {
    let place = Place::new(2).await;
    let id = place.id.clone();
    let damaged = move |tx: &mut Tx<'_>| {
        put(tx, &id, 1, &[1.0, 0.0])?;
        put(tx, &id, 2, &[1.0])?;
        put(tx, &id, 3, &[f32::NAN, 1.0])?;
        put(tx, &id, 4, &[f32::INFINITY, 1.0])?;
        put(tx, &id, 1, &[0.0, 1.0])
    };
    place.store.write(damaged).await.unwrap();
    let found = place
        .read(&place.cache(), |read, current| {
            let mut allowed = Bits::up_to(9);
            (0..9).for_each(|seq| allowed.add(seq));
            current.search(read, &[0.0, 1.0], &allowed, 5)
        })
        .await;
    assert_eq!(found, [(1.0, 1)]);
}

#[derive(Debug, Clone)]
enum Step {
    Put(i64, i64),
    Delete(i64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_i64..900, 1_i64..400).prop_map(|(from, count)| Step::Put(from, count)),
        2 => (2_i64..9).prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_those_of_a_comparison_of_everything(steps in steps(), dimensions in 3_usize..140) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let place = Place::new(dimensions).await;
            let mut cache = place.cache();
            for step in steps {
                match step {
                    Step::Put(from, count) => place.put(from, from + count).await,
                    Step::Delete(part) => {
                        let delete = move |tx: &mut Tx<'_>| {
                            tx.execute("DELETE FROM memory_vectors WHERE seq % ?1 = 0", &values![part])
                        };
                        place.store.write(delete).await.unwrap();
                    }
                    Step::Reopen => {
                        place.built(&cache).await;
                        cache = place.cache();
                    }
                }
                // While the background builds, and among few, many and all. So few vectors are always all looked at;
                // what a sketch misjudges beyond its bound is the only loss there can be.
                let query = place.vector();
                place.found(&cache, query.clone(), |_| true).await;
                place.found(&cache, query.clone(), |seq| seq % 3 != 0).await;
                place.found(&cache, query, |seq| seq % 50 == 0).await;
            }
        });
    }
}

impl Place {
    /// As [`Place::check`], but without counting what is known: rows that were deleted are known until they are met.
    async fn found(&self, cache: &Arc<Cache>, query: Vec<f32>, allowed: impl Fn(i64) -> bool + Send + 'static) {
        let id = self.id.clone();
        self.read(cache, move |read, current| {
            let all = rows(read, &id)?;
            let mut bits = Bits::up_to(2000);
            // Deleted ones as well: it is for the engine to notice.
            (1..2000).filter(|seq| allowed(*seq)).for_each(|seq| bits.add(seq));
            let mut expected: Vec<(f32, i64)> =
                all.iter().filter(|(seq, _)| bits.has(*seq)).map(|(seq, vector)| (dot(&query, vector), *seq)).collect();
            expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            expected.truncate(10);
            let found = current.search(read, &query, &bits, 10)?;
            assert_eq!(found.len(), expected.len());
            assert!(
                found
                    .iter()
                    .all(|(cosine, seq)| all.iter().any(|(of, vector)| of == seq && *cosine == dot(&query, vector)))
            );
            let right = found.iter().filter(|hit| expected.contains(hit)).count();
            assert!(right + 1 >= expected.len(), "{found:?} instead of {expected:?}");
            Ok(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_built_grows_and_is_read_again_by_the_next_process() {
    let place = Place::new(64).await;
    place.put(1, 1001).await;
    let cache = place.cache();
    place.built(&cache).await;
    assert_eq!(place.covered(&cache).await, Some(1000));
    // The rest is compared by bytes until there is enough of it.
    place.put(1001, 1101).await;
    place.built(&cache).await;
    assert_eq!(place.covered(&cache).await, Some(1000));
    place.put(1101, 1401).await;
    place.built(&cache).await;
    assert!(place.covered(&cache).await.unwrap() > 1250);
    place.check(&cache, place.vector(), |_| true, 0.9).await;

    let next = place.cache();
    // It comes from the file: nothing has been built yet.
    let trained = place.read(&next, |_, current| Ok(current.partition.state().trained)).await;
    assert!(trained >= 1000);
    place.run("DELETE FROM memory_vectors WHERE seq <= 700").await;
    let third = place.cache();
    place.check(&third, place.vector(), |_| true, 0.9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_damaged_or_does_not_fit_is_not_used_and_written_anew() {
    let place = Place::new(64).await;
    place.put(1, 601).await;
    place.built(&place.cache()).await;
    // Its builder may have been dropped before it was done.
    let cache = place.cache();
    place.built(&cache).await;
    let whole = fs::read(place.file()).unwrap();
    let mut damages: Vec<Vec<u8>> =
        vec![Vec::new(), whole[..40].to_vec(), whole[..whole.len() - 1].to_vec(), b"rubbish".to_vec()];
    for place in [0, 9, 30, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[place] ^= 64;
        damages.push(damaged);
    }
    for damaged in damages {
        fs::write(place.file(), &damaged).unwrap();
        let cache = place.cache();
        place.check(&cache, place.vector(), |_| true, 0.9).await;
        place.built(&cache).await;
        assert!(fs::read(place.file()).unwrap() == whole, "it was not written anew");
    }
    // The rows go back to an older copy and go on from there with other vectors.
    place.run("DELETE FROM memory_vectors WHERE vector_seq > 400").await;
    place.run("UPDATE memory_partitions SET last_vector_seq = 400").await;
    place.check(&place.cache(), place.vector(), |_| true, 0.9).await;
    place.put(401, 601).await;
    place.check(&place.cache(), place.vector(), |_| true, 0.9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_builder_that_dies_in_the_middle_leaves_nothing_wrong() {
    let place = Place::new(64).await;
    place.put(1, 2001).await;
    for _ in 0..5 {
        // Dropped while it builds or writes.
        let cache = place.cache();
        place.read(&cache, |_, _| Ok(())).await;
    }
    // A process killed while writing leaves a part under the name of a new file.
    fs::create_dir_all(place.dir()).unwrap();
    let cache = place.cache();
    place.built(&cache).await;
    let file = place.file();
    fs::write(file.with_extension("new"), b"lhvector and then the process was killed").unwrap();
    fs::remove_file(&file).unwrap();
    let cache = place.cache();
    place.built(&cache).await;
    assert!(place.file() == file, "the file is complete and the part is gone");
    place.check(&cache, place.vector(), |_| true, 0.9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn searches_beside_writers_find_everything_committed_before_them() {
    let place = Arc::new(Place::new(64).await);
    let cache = place.cache();
    let (done, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let (writer, is_done, newest) = (place.clone(), done.clone(), committed.clone());
    let writing = tokio::spawn(async move {
        for from in (1..3001).step_by(20) {
            writer.put(from, from + 20).await;
            newest.store(from + 19, Ordering::SeqCst);
        }
        is_done.store(true, Ordering::SeqCst);
    });
    let mut searches = Vec::new();
    for _ in 0..3 {
        let (place, cache, done, committed) = (place.clone(), cache.clone(), done.clone(), committed.clone());
        searches.push(tokio::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let newest = committed.load(Ordering::SeqCst);
                if newest == 0 {
                    tokio::task::yield_now().await;
                    continue;
                }
                let id = place.id.clone();
                let found = place.read(&cache, move |read, current| {
                    // The newest vector is searched for, and nothing is nearer to it than itself.
                    let sql = "SELECT vector FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3";
                    let key = values![&id.tenant, id.namespace.as_str(), newest];
                    let bytes: Vec<u8> = read.query_one(sql, &key, |row| Ok(row.bytes(0)?.to_vec()))?;
                    let query = super::decoded(&bytes, 64).unwrap();
                    let mut allowed = Bits::up_to(newest);
                    (1..=newest).for_each(|seq| allowed.add(seq));
                    current.search(read, &query, &allowed, 1)
                });
                assert_eq!(found.await[0].1, newest);
            }
        }));
    }
    writing.await.unwrap();
    for search in searches {
        search.await.unwrap();
    }
    place.built(&cache).await;
    assert!(place.covered(&cache).await.unwrap() > 2700);
    place.check(&cache, place.vector(), |_| true, 0.9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_erased_leaves_the_file_when_it_is_purged() {
    let place = Place::new(64).await;
    place.put(1, 601).await;
    let cache = place.cache();
    place.built(&cache).await;
    let id = place.id.clone();
    let codes = move |read: &ReadTx<'_>, current: &Current| {
        let code = |(_, vector): &(i64, Vec<f32>)| current.partition.rotation.code(vector).bytes;
        let all: Vec<Vec<u8>> =
            rows(read, &id)?.iter().map(|row| code(row).iter().map(|b| *b as u8).collect()).collect();
        Ok(all)
    };
    let codes = place.read(&cache, codes).await;
    let held = |code: &Vec<u8>, file: &[u8]| file.windows(code.len()).any(|part| part == code);
    let file = fs::read(place.file()).unwrap();
    assert!(held(&codes[5], &file) && held(&codes[405], &file));

    place
        .run("INSERT INTO memory_gone SELECT tenant_id, namespace, seq, seq, 'mem_x' FROM memory_vectors WHERE seq <= 300")
        .await;
    place.run("DELETE FROM memory_vectors WHERE seq <= 300").await;
    place.run("UPDATE memory_partitions SET last_change = 300").await;
    cache.purge(&place.id).unwrap();
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 0);
    // It is written anew, without what was erased.
    place.built(&cache).await;
    let file = fs::read(place.file()).unwrap();
    assert!(codes[..300].iter().step_by(50).all(|code| !held(code, &file)) && held(&codes[405], &file));
    place.check(&cache, place.vector(), |_| true, 0.9).await;
}
