//! One search: embed the query, filter, score both legs on one snapshot, fuse, and read the best rows.
//!
//! Invariants: retrieving never writes (invariant 9); nothing is scored that the filter did not let through; a row is
//! only given out when the same snapshot finds it again under the same tenant.

use std::{collections::BTreeMap, time::Instant};

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, StoreError, values};

use crate::{
    Explain, Hit, Kind, Memory, MemoryError, Mode, Query, Recall, embed,
    filter::Filter,
    fusion::{self, Scale},
    item::{HITS_MAX, field},
    keyword,
    memory::{self, COLUMNS, Shared},
    text,
    vectors::Current,
};

/// Characters of a query that count.
const QUERY_CHARS_MAX: usize = 4096;
/// Fewest candidates taken from each leg.
const CANDIDATES_MIN: usize = 64;

/// A checked query with its terms and, if it could be embedded, its vector.
struct Search {
    scope: Scope,
    query: Query,
    terms: Vec<String>,
    vector: Option<Vec<f32>>,
}

/// What the legs say of one memory.
#[derive(Debug, Clone, Copy, Default)]
struct Legs {
    bm25: f32,
    cosine: Option<f32>,
}

struct Ranked {
    hits: Vec<Hit>,
    considered: usize,
    unembedded: usize,
}

impl Memory {
    /// The memories of the scope's tenant that answer the query best. Where the query cannot be embedded it is searched
    /// by words alone, and the answer's mode says why.
    ///
    /// # Errors
    /// [`MemoryError::Field`] for an empty text, a `k` out of range or a filter that is none; those of the store.
    pub async fn search(&self, scope: &Scope, query: &Query) -> Result<Recall, MemoryError> {
        if query.text.trim().is_empty() {
            return Err(field("query text", &query.text, "some words to search for"));
        }
        if !(1..=HITS_MAX).contains(&query.k) {
            return Err(field("k", &query.k.to_string(), "a number of hits from 1 to 200"));
        }
        let mut query = query.clone();
        query.text = query.text.chars().take(QUERY_CHARS_MAX).collect();

        let started = Instant::now();
        let (vector, mode) = self.embedded(&query.text).await;
        let embedded_us = micros(started);

        let started = Instant::now();
        let search = Search { scope: scope.clone(), terms: text::terms(&query.text), query, vector };
        let shared = self.shared.clone();
        let ranked = self.shared.store.read(move |read| search.run(read, &shared)).await?;
        let elapsed_us = micros(started);
        let Ranked { hits, considered, unembedded } = ranked;
        Ok(Recall { hits, mode, considered, unembedded, elapsed_us, embedded_us })
    }

    async fn embedded(&self, text: &str) -> (Option<Vec<f32>>, Mode) {
        let Some(embedder) = &self.shared.embedder else {
            return (None, Mode::Keyword { reason: "no embedding model is configured".to_owned() });
        };
        match embed::unit_vectors(embedder.as_ref(), &[text.to_owned()]).await {
            Ok(mut vectors) => (vectors.pop(), Mode::Hybrid),
            Err(error) => {
                tracing::warn!(%error, "the query could not be embedded; searching by words alone");
                (None, Mode::Keyword { reason: error.to_string() })
            }
        }
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Search {
    fn run(&self, read: &ReadTx<'_>, shared: &Shared) -> Result<Ranked, MemoryError> {
        let now = read.now();
        let filter = Filter::new(&self.scope, &self.query, now)?;
        let tenant = &self.scope.tenant;
        let Some(partition) = keyword::partition(read, tenant)? else {
            return Ok(Ranked { hits: Vec::new(), considered: 0, unembedded: 0 });
        };
        let allowed = filter.run(read, partition.last_seq)?;
        let scores = keyword::score(read, tenant, &partition, &self.terms, &allowed)?;
        let vectors = self.vectors(read, shared)?;

        let take = (self.query.k * 4).max(CANDIDATES_MIN);
        let mut candidates: BTreeMap<i64, Legs> = BTreeMap::new();
        let matching = scores.bm25.iter().zip(0..).filter(|(bm25, _)| **bm25 > 0.0);
        for (bm25, seq) in best(matching.map(|(bm25, seq)| (*bm25, seq)).collect(), take) {
            candidates.entry(seq).or_default().bm25 = bm25;
        }
        let unembedded = vectors.as_ref().map_or(allowed.len(), |(_, leg)| allowed.len() - leg.known(&allowed));
        if let Some((vector, leg)) = &vectors {
            for (cosine, seq) in leg.search(read, vector, &allowed, take)? {
                let bm25 = scores.bm25.get(seq as usize).copied().unwrap_or(0.0);
                candidates.entry(seq).or_insert(Legs { bm25, cosine: None }).cosine = Some(cosine);
            }
            let by_words = candidates.iter().filter(|(_, legs)| legs.cosine.is_none());
            let by_words: Vec<i64> = by_words.map(|(seq, _)| *seq).collect();
            for (seq, cosine) in leg.cosines(read, vector, &by_words)? {
                if let Some(legs) = candidates.get_mut(&seq) {
                    legs.cosine = Some(cosine);
                }
            }
        }
        let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
        let bm25_best = largest(&mut candidates.values().map(|legs| legs.bm25));
        let cosine_best = vectors.is_some().then(|| largest(&mut candidates.values().filter_map(|legs| legs.cosine)));
        let scale = Scale::new(bm25_best, scores.bound, cosine_best);
        let hits = self.hits(read, scale, &candidates, now)?;
        Ok(Ranked { hits, considered: allowed.len(), unembedded })
    }

    /// The query's vector and what it is compared with; `None` when the query has none.
    fn vectors(&self, read: &ReadTx<'_>, shared: &Shared) -> Result<Option<(&[f32], Current)>, StoreError> {
        let (Some(vector), Some(embedder)) = (&self.vector, &shared.embedder) else { return Ok(None) };
        let current = shared.cache.current(read, &self.scope.tenant, embedder.id(), embedder.dimensions())?;
        Ok(Some((vector, current)))
    }

    /// Weighs the candidates by importance and age, and reads the rows of the best.
    fn hits(
        &self,
        read: &ReadTx<'_>,
        scale: Scale,
        candidates: &BTreeMap<i64, Legs>,
        now: TimeMs,
    ) -> Result<Vec<Hit>, StoreError> {
        let tenant = &self.scope.tenant;
        let mut scored: Vec<(f32, i64, Explain)> = Vec::with_capacity(candidates.len());
        for (seq, legs) in candidates {
            let found: Option<(f32, Kind, TimeMs)> = read.query_optional(
                "SELECT importance, kind, created_at FROM memories WHERE tenant_id = ?1 AND seq = ?2",
                &values![tenant, *seq],
                |row| Ok((row.get(0)?, memory::kind(row, 1)?, row.get(2)?)),
            )?;
            if let Some((importance, kind, created)) = found {
                let age_ms = now.0.saturating_sub(created.0);
                let (score, explain) = fusion::score(scale, legs.bm25, legs.cosine, importance, kind, age_ms);
                scored.push((score, *seq, explain));
            }
        }
        scored.retain(|(score, ..)| *score > 0.0);
        // Of equals the newer first, so that the order is always the same.
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.truncate(self.query.k);

        let sql = format!("SELECT {COLUMNS} FROM memories WHERE tenant_id = ?1 AND seq = ?2");
        let mut hits = Vec::with_capacity(scored.len());
        for (score, seq, explain) in scored {
            if let Some(item) = read.query_optional(&sql, &values![tenant, seq], memory::item)? {
                hits.push(Hit { item, score, explain });
            }
        }
        Ok(hits)
    }
}

/// The `take` highest, in no order.
fn best(mut scored: Vec<(f32, i64)>, take: usize) -> Vec<(f32, i64)> {
    if scored.len() > take {
        scored.select_nth_unstable_by(take, |a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.truncate(take);
    }
    scored
}
