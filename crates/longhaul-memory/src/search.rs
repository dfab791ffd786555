//! One search: embed the query, check access, filter, score both legs on one snapshot, fuse, and read the best rows.
//!
//! Invariants: retrieving never writes (invariant 9); nothing is scored that the filter did not let through; a row is
//! only given out when the same snapshot finds it again in the same partition.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::{Arc, RwLockReadGuard},
    time::Instant,
};

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, StoreError, values};

use crate::{
    Hit, Memory, MemoryError, Mode, Query, RankSettings, Recall,
    access::{self, Partition},
    bits::Bits,
    columns::Columns,
    embed,
    filter::Filter,
    item::field,
    keyword,
    memory::Shared,
    rank::{self, Raw, Scale, Stand, Standing, Uses},
    rows::{self, COLUMNS},
    text,
    vectors::Current,
    words::{self, Corpus, DatePart, Scores, Walker},
};

/// Characters of a query that count.
const QUERY_CHARS_MAX: usize = 4096;
/// Fewest candidates taken from each leg.
const CANDIDATES_MIN: usize = 64;
/// Rows read beyond twice those asked for, because how often a memory was used may move it up.
const RESERVE: usize = 16;

/// A checked query with its terms and, if it could be embedded, its vector.
struct Search {
    scope: Scope,
    query: Query,
    terms: Vec<String>,
    dates: Vec<(DatePart, Option<String>)>,
    vector: Option<Vec<f32>>,
    settings: Arc<RankSettings>,
}

/// One partition as the search's snapshot has it.
struct Part<'a> {
    partition: &'a Partition,
    columns: RwLockReadGuard<'a, Columns>,
    allowed: Bits,
    vectors: Option<Current>,
}

/// A memory by the place of its partition among those searched, and its number.
type Place = (usize, i64);

struct Ranked {
    hits: Vec<Hit>,
    considered: usize,
    unembedded: usize,
    notes: Vec<String>,
}

impl Memory {
    /// The memories that answer the query best, of all the namespaces it names. Where the query cannot be embedded it is
    /// searched by words alone, and the answer's mode says why.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] when a namespace may not be read; [`MemoryError::Field`] for an empty text, a `k` out of
    /// range or a filter that is none; [`MemoryError::UnknownField`]; [`MemoryError::BadVector`]; those of the store.
    pub async fn search(&self, scope: &Scope, query: &Query) -> Result<Recall, MemoryError> {
        self.search_by(scope, query, self.shared.rank()).await
    }

    /// The same, ranked by other settings.
    pub(crate) async fn search_by(
        &self,
        scope: &Scope,
        query: &Query,
        settings: Arc<RankSettings>,
    ) -> Result<Recall, MemoryError> {
        if query.text.trim().is_empty() && query.vector.is_none() {
            return Err(field("query text", &query.text, "some words to search for"));
        }
        query.checked_k()?;
        let text: String = query.text.chars().take(QUERY_CHARS_MAX).collect();
        let query = Query { text: String::new(), ..query.clone() };

        let started = Instant::now();
        let (vector, mode) = match &query.vector {
            Some(vector) => (Some(self.unit_vector(vector)?), Mode::Hybrid),
            None => self.embedded(&text).await,
        };
        let embedded_us = micros(started);

        let started = Instant::now();
        let (terms, dates) = (text::terms(&text), words::dates(&text));
        let search = Search { scope: scope.clone(), terms, dates, query, vector, settings };
        let shared = self.shared.clone();
        let ranked = self.shared.store.read(move |read| search.run(read, &shared)).await?;
        let elapsed_us = micros(started);
        let Ranked { hits, considered, unembedded, notes } = ranked;
        Ok(Recall { hits, mode, considered, unembedded, elapsed_us, embedded_us, notes })
    }

    pub(crate) async fn embedded(&self, text: &str) -> (Option<Vec<f32>>, Mode) {
        let Some(embedder) = &self.shared.embedder else {
            return (None, Mode::Keyword { reason: "no embedding model is configured".to_owned() });
        };
        match embed::unit_query(embedder.as_ref(), text).await {
            Ok(_) if !embedder.reads(text) => {
                (None, Mode::Keyword { reason: "the embedding model does not know the query's script".to_owned() })
            }
            Ok(vector) => (Some(vector), Mode::Hybrid),
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
        let filter = Filter::new(&self.query, now)?;
        let partitions = access::readable(read, &self.scope, &self.query.namespaces)?;
        // Everything is brought up to the snapshot before the first lock is held.
        let mut held = Vec::with_capacity(partitions.len());
        for partition in &partitions {
            held.push((
                shared.columns.current(read, &partition.id, partition.last_change)?,
                self.vectors(read, shared, partition)?,
            ));
        }
        let mut parts = Vec::with_capacity(partitions.len());
        for (partition, (columns, vectors)) in partitions.iter().zip(&held) {
            parts.push(Part {
                partition,
                columns: columns.columns(),
                allowed: Bits::default(),
                vectors: vectors.clone(),
            });
        }
        filter.check_fields(&parts.iter().map(|part| &*part.columns).collect::<Vec<_>>())?;
        for part in &mut parts {
            part.allowed = filter.run(&part.columns);
        }

        let (candidates, scale) = self.candidates(read, shared, &parts)?;
        let considered = parts.iter().map(|part| part.allowed.len()).sum();
        let known = parts.iter().map(|part| part.vectors.as_ref().map_or(0, |vectors| vectors.known(&part.allowed)));
        let unembedded = considered - known.sum::<usize>();
        let hits = self.hits(read, &parts, &scale, &candidates, now)?;
        let stale = parts.iter().filter(|part| part.partition.analyser != text::VERSION);
        let notes = stale.map(|part| format!("the keywords of {} are being built anew", part.partition.id.namespace));
        Ok(Ranked { hits, considered, unembedded, notes: notes.collect() })
    }

    /// The best of each leg in all partitions, each with what all legs say of it.
    fn candidates(
        &self,
        read: &ReadTx<'_>,
        shared: &Shared,
        parts: &[Part<'_>],
    ) -> Result<(BTreeMap<Place, Raw>, Scale), StoreError> {
        let legs = &self.settings.legs;
        let take = (self.query.k * 4).max(CANDIDATES_MIN);
        let mut candidates: BTreeMap<Place, Raw> = BTreeMap::new();
        let mut bounds = (0.0_f32, 0.0_f32);
        for (index, part) in parts.iter().enumerate() {
            let scores = self.by_words(read, shared, part)?;
            bounds = (bounds.0.max(scores.own_bound), bounds.1.max(scores.around_bound));
            let mut seqs = rank::lead(legs, &scores, take);
            let cosines = self.by_meaning(read, part, &mut seqs, take)?;
            let mut walker = Walker::new(&*part.columns);
            for seq in seqs {
                let place = seq as usize;
                let raw = Raw {
                    words: scores.own.get(place).copied().unwrap_or(0.0),
                    words_around: (!scores.around.is_empty()).then(|| scores.around.get(place).copied().unwrap_or(0.0)),
                    meaning: cosines.get(&i64::from(seq)).copied(),
                    meaning_around: if self.query.context {
                        rank::meaning_around(&mut walker, seq, &cosines)
                    } else {
                        None
                    },
                };
                candidates.insert((index, i64::from(seq)), raw);
            }
        }
        let scale = Scale::new(legs, bounds, self.vector.is_some(), candidates.values());
        Ok((candidates, scale))
    }

    fn by_words(&self, read: &ReadTx<'_>, shared: &Shared, part: &Part<'_>) -> Result<Scores, StoreError> {
        let terms = keyword::terms(read, &shared.words, part.partition, &part.columns, &self.terms, &self.dates)?;
        let corpus = Corpus {
            documents: part.partition.documents,
            terms: part.partition.terms,
            last_seq: part.partition.last_seq,
            allowed: &part.allowed,
            threads: &*part.columns,
            context: self.query.context,
        };
        Ok(words::score(&corpus, &terms))
    }

    /// Adds the nearest in meaning to the candidates, and gives the cosines of all of them; of their neighbours as well,
    /// as far as bytes tell.
    fn by_meaning(
        &self,
        read: &ReadTx<'_>,
        part: &Part<'_>,
        seqs: &mut Vec<u32>,
        take: usize,
    ) -> Result<HashMap<i64, f32>, StoreError> {
        let (Some(vector), Some(leg)) = (&self.vector, &part.vectors) else { return Ok(HashMap::new()) };
        let nearest = leg.search(read, vector, &part.allowed, take)?;
        let mut cosines: HashMap<i64, f32> = nearest.iter().map(|(cosine, seq)| (*seq, *cosine)).collect();
        let by_words: Vec<i64> =
            seqs.iter().map(|seq| i64::from(*seq)).filter(|seq| !cosines.contains_key(seq)).collect();
        seqs.extend(nearest.iter().filter_map(|(_, seq)| u32::try_from(*seq).ok()));
        seqs.sort_unstable();
        seqs.dedup();
        cosines.extend(leg.cosines(read, vector, &by_words)?);
        if self.query.context {
            let beside = rank::beside(&*part.columns, seqs);
            let beside = beside.into_iter().map(i64::from);
            let beside: Vec<i64> = beside.filter(|seq| part.allowed.has(*seq) && !cosines.contains_key(seq)).collect();
            cosines.extend(leg.estimates(vector, &beside));
        }
        Ok(cosines)
    }

    /// What the query's vector is compared with in a partition; `None` when the query has none.
    fn vectors(
        &self,
        read: &ReadTx<'_>,
        shared: &Shared,
        partition: &Partition,
    ) -> Result<Option<Current>, StoreError> {
        let (Some(_), Some(embedder)) = (&self.vector, &shared.embedder) else { return Ok(None) };
        shared.vectors.current(read, &partition.id, embedder.id(), embedder.dimensions()).map(Some)
    }

    /// Weighs the candidates by importance and age, reads the rows of the best, and weighs these again with how often
    /// they were used, which only their ids tell.
    fn hits(
        &self,
        read: &ReadTx<'_>,
        parts: &[Part<'_>],
        scale: &Scale,
        candidates: &BTreeMap<Place, Raw>,
        now: TimeMs,
    ) -> Result<Vec<Hit>, StoreError> {
        let mut scored: Vec<(f32, Place, Standing)> = Vec::with_capacity(candidates.len());
        let stands: Vec<Stand<'_>> = parts.iter().map(|part| Stand::new(&part.columns, now)).collect();
        for ((index, seq), raw) in candidates {
            let Ok(short) = u32::try_from(*seq) else { continue };
            let standing = stands[*index].of(short);
            let (score, _) = rank::score(&self.settings, scale, *raw, &standing);
            scored.push((score, (*index, *seq), standing));
        }
        scored.retain(|(score, ..)| *score > 0.0);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| newer_first(a.1, b.1)));

        let uses: Vec<Uses> = parts.iter().map(|part| Uses::of(read, &part.partition.id)).collect::<Result<_, _>>()?;
        let any_used = uses.iter().any(|uses| uses.any);
        let most = if any_used { 2 * self.query.k + RESERVE } else { self.query.k };
        let sql = format!("SELECT {COLUMNS} FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3");
        let mut hits: Vec<(Place, Hit)> = Vec::with_capacity(most);
        for (_, (index, seq), standing) in scored {
            let id = &parts[index].partition.id;
            let key = values![&id.tenant, id.namespace.as_str(), seq];
            let Some(item) = read.query_optional(&sql, &key, rows::item)? else { continue };
            let standing = uses[index].applied(read, &item.id, standing, now)?;
            let (score, explain) = rank::score(&self.settings, scale, candidates[&(index, seq)], &standing);
            hits.push(((index, seq), Hit { item, score, explain }));
            if hits.len() == most {
                break;
            }
        }
        hits.sort_by(|a, b| b.1.score.total_cmp(&a.1.score).then_with(|| newer_first(a.0, b.0)));
        hits.truncate(self.query.k);
        Ok(hits.into_iter().map(|(_, hit)| hit).collect())
    }
}

/// Of equals the newer first, so that the order is always the same.
fn newer_first(a: Place, b: Place) -> Ordering {
    b.1.cmp(&a.1).then(a.0.cmp(&b.0))
}
