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
    Embedder, Hit, Memory, MemoryError, Mode, Query, RankSettings, Recall, Tiers,
    access::{self, Partition},
    bits::Bits,
    columns::Columns,
    embed,
    filter::Filter,
    item::field,
    keyword,
    life::cold::{self, HotWords, Unasked, View},
    memory::Shared,
    rank::{self, Raw, Scale, Stand, Standing, Uses},
    remote::{Asked, Leg, RemoteLeg, Space},
    rows::{self, COLUMNS},
    text, user,
    words::{self, Corpus, DatePart, Scores, Walker},
};

/// Characters of a query that count.
const QUERY_CHARS_MAX: usize = 4096;
/// Fewest candidates taken from each leg.
const CANDIDATES_MIN: usize = 64;
/// Rows read beyond twice those asked for, because how often a memory was used may move it up.
const RESERVE: usize = 16;
/// How often a search begins again because cold segments came into being.
const COLD_ATTEMPTS: usize = 3;

/// A checked query with its terms and, if it could be embedded, its vector.
#[derive(Clone)]
struct Search {
    scope: Scope,
    query: Query,
    terms: Vec<String>,
    dates: Vec<(DatePart, Option<String>)>,
    vector: Option<Vec<f32>>,
    settings: Arc<RankSettings>,
    /// Its vector by the embedding model that was used before, while that one's vectors still serve.
    previous: Option<Vec<f32>>,
    /// What a connected vector server said.
    asked: Asked,
}

/// One partition as the search's snapshot has it.
struct Part<'a> {
    partition: &'a Partition,
    columns: RwLockReadGuard<'a, Columns>,
    allowed: Bits,
    vectors: Option<Leg>,
    /// Whether these are the vectors of the model that was used before.
    by_previous: bool,
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
        let previous = match &query.vector {
            Some(_) => None,
            None => self.embedded_before(scope, &query.namespaces, &text).await?,
        };
        let embedded_us = micros(started);

        let started = Instant::now();
        let (terms, dates) = (text::terms(&text), words::dates(&text));
        let asked = self.ask(scope, &query, vector.as_deref()).await?;
        let search = Search { scope: scope.clone(), terms, dates, query, vector, settings, previous, asked };
        let mut search = Arc::new(search);
        let ranked = loop {
            let ranked = self.ranked(&search).await?;
            let Search { query, vector, asked, .. } = Arc::make_mut(&mut search);
            if !self.ask_more(scope, query, vector.as_deref(), asked).await? {
                break ranked;
            }
        };
        let elapsed_us = micros(started);
        let Ranked { hits, considered, unembedded, notes } = ranked;
        let found = hits.iter().map(|hit| (&hit.item.id, &hit.item.namespace));
        self.shared.life.usage.shown(&scope.tenant, found, self.shared.store.ambient().clock.now());
        Ok(Recall { hits, mode, considered, unembedded, elapsed_us, embedded_us, notes })
    }

    /// Runs the search on a snapshot, with the cold segments it needs read before.
    async fn ranked(&self, search: &Arc<Search>) -> Result<Ranked, MemoryError> {
        let is_cold = search.query.tiers != Tiers::Hot;
        for attempt in 0..=COLD_ATTEMPTS {
            let mut view = View::default();
            if is_cold && (attempt > 0 || self.shared.life.has_cold()) {
                view = self.cold_view(&search.scope, &search.query).await?;
            }
            view.with_unasked(match (is_cold, attempt == COLD_ATTEMPTS) {
                (false, _) => Unasked::Leave,
                (true, false) => Unasked::Ask,
                (true, true) => Unasked::Note,
            });
            let (search, shared) = (search.clone(), self.shared.clone());
            let ranked: Result<_, MemoryError> =
                self.shared.store.read(move |read| search.run(read, &shared, view)).await;
            if let Some(ranked) = ranked? {
                return Ok(ranked);
            }
            self.shared.life.note_cold();
        }
        Ok(Ranked { hits: Vec::new(), considered: 0, unembedded: 0, notes: Vec::new() })
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

impl Part<'_> {
    /// Takes the vectors of the model that was used before if they cover more of what the filter let through.
    fn prefer(&mut self, before: Option<&Leg>) {
        let known = |leg: Option<&Leg>| leg.map_or(0, |leg| leg.known(&self.allowed));
        if known(before) > known(self.vectors.as_ref()) {
            (self.vectors, self.by_previous) = (before.cloned(), true);
        }
    }
}

impl Search {
    /// `None` when there are cold segments that the view was not asked for.
    fn run(&self, read: &ReadTx<'_>, shared: &Shared, mut view: View) -> Result<Option<Ranked>, MemoryError> {
        let now = read.now();
        let filter = Filter::new(&self.query, now)?;
        if !user::is_on(read, &self.scope)? {
            let notes = vec![user::off_note(&self.scope)];
            return Ok(Some(Ranked { hits: Vec::new(), considered: 0, unembedded: 0, notes }));
        }
        let partitions = access::readable(read, &self.scope, &self.query.namespaces)?;
        // Everything is brought up to the snapshot before the first lock is held.
        let mut held = Vec::with_capacity(partitions.len());
        for partition in &partitions {
            held.push((
                shared.columns.current(read, &partition.id, partition.last_change)?,
                self.vectors(read, shared, partition)?,
                self.vectors_before(read, shared, partition)?,
            ));
        }
        let mut parts = Vec::with_capacity(partitions.len());
        for (partition, (columns, vectors, _)) in partitions.iter().zip(&held) {
            parts.push(Part {
                partition,
                columns: columns.columns(),
                allowed: Bits::default(),
                vectors: vectors.clone(),
                by_previous: false,
            });
        }
        let Some(mut cold) = view.parts(read, &partitions, &self.query)? else { return Ok(None) };
        let columns = parts.iter().map(|part| &*part.columns).chain(cold.iter().map(|part| &part.loaded.columns));
        filter.check_fields(&columns.collect::<Vec<_>>())?;
        if self.query.tiers != Tiers::Cold {
            parts.iter_mut().for_each(|part| part.allowed = filter.run(&part.columns));
        }
        for (part, (.., before)) in parts.iter_mut().zip(&held) {
            part.prefer(before.as_ref());
        }
        cold.iter_mut().for_each(|part| part.allow(&filter));

        let (candidates, scale) = self.candidates(read, shared, &parts, &cold)?;
        let considered = parts.iter().map(|part| part.allowed.len()).sum::<usize>()
            + cold.iter().map(|part| part.allowed.len()).sum::<usize>();
        let known = parts.iter().map(|part| part.vectors.as_ref().map_or(0, |vectors| vectors.known(&part.allowed)));
        let known = known.sum::<usize>() + cold.iter().map(|part| self.known_cold(shared, part)).sum::<usize>();
        let hits = self.hits(read, &parts, &cold, &scale, &candidates, now)?;
        let stale = parts.iter().filter(|part| part.partition.analyser != text::VERSION);
        let stale = stale.map(|part| format!("the keywords of {} are being built anew", part.partition.id.namespace));
        let notes = view.notes.into_iter().chain(self.asked.notes.iter().cloned()).chain(stale).collect();
        Ok(Some(Ranked { hits, considered, unembedded: considered - known, notes }))
    }

    /// How many of a cold segment's memories the query's vector can be compared with.
    fn known_cold(&self, shared: &Shared, part: &cold::Part) -> usize {
        let (Some(_), Some(embedder)) = (&self.vector, &shared.embedder) else { return 0 };
        part.known(embedder.id(), embedder.dimensions())
    }

    /// The best of each leg in all partitions, each with what all legs say of it.
    fn candidates(
        &self,
        read: &ReadTx<'_>,
        shared: &Shared,
        parts: &[Part<'_>],
        cold: &[cold::Part],
    ) -> Result<(BTreeMap<Place, Raw>, Scale), StoreError> {
        let legs = &self.settings.legs;
        let take = (self.query.k * 4).max(CANDIDATES_MIN);
        let mut candidates: BTreeMap<Place, Raw> = BTreeMap::new();
        let mut bounds = (0.0_f32, 0.0_f32);
        for (index, part) in parts.iter().enumerate() {
            let (scores, hot) = self.by_words(read, shared, part)?;
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
            for found in self.cold_candidates(shared, cold, index, &hot, take) {
                let raw = Raw { words: found.bm25, meaning: found.cosine, ..Raw::default() };
                candidates.insert((parts.len() + found.part, found.number), raw);
            }
        }
        let is_hybrid = self.vector.is_some() || self.previous.is_some();
        let scale = Scale::new(legs, bounds, is_hybrid, candidates.values());
        Ok((candidates, scale))
    }

    /// BM25 of the hot memories, and what they say of the query's words for the cold ones.
    fn by_words(&self, read: &ReadTx<'_>, shared: &Shared, part: &Part<'_>) -> Result<(Scores, HotWords), StoreError> {
        let terms = keyword::terms(read, &shared.words, part.partition, &part.columns, &self.terms, &self.dates)?;
        let corpus = Corpus {
            documents: part.partition.documents,
            terms: part.partition.terms,
            last_seq: part.partition.last_seq,
            allowed: &part.allowed,
            threads: &*part.columns,
            context: self.query.context,
        };
        let containing = terms.iter().map(|term| term.postings.len()).collect();
        let hot = HotWords { documents: corpus.documents, terms: corpus.terms, containing };
        Ok((words::score(&corpus, &terms), hot))
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
        let vector = if part.by_previous { &self.previous } else { &self.vector };
        let (Some(vector), Some(leg)) = (vector, &part.vectors) else { return Ok(HashMap::new()) };
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

    /// The best of each leg in the cold segments of a partition.
    fn cold_candidates(
        &self,
        shared: &Shared,
        cold: &[cold::Part],
        partition: usize,
        hot: &HotWords,
        take: usize,
    ) -> Vec<cold::Candidate> {
        if cold.is_empty() {
            return Vec::new();
        }
        let vector = self.vector.as_deref().zip(shared.embedder.as_deref().map(Embedder::id));
        cold::candidates(cold, partition, &keyword::distinct(&self.terms), hot, vector, take)
    }

    /// The vectors of the model that was used before, while they serve and it embedded the query.
    fn vectors_before(
        &self,
        read: &ReadTx<'_>,
        shared: &Shared,
        partition: &Partition,
    ) -> Result<Option<Leg>, StoreError> {
        let (Some(_), Some(model)) = (&self.previous, shared.change.serving(&partition.id)) else { return Ok(None) };
        let current = shared.vectors.current(read, &partition.id, model.id(), model.dimensions());
        current.map(|current| Some(Leg::Local(current)))
    }

    /// What the query's vector is compared with in a partition; `None` when the query has none.
    fn vectors(&self, read: &ReadTx<'_>, shared: &Shared, partition: &Partition) -> Result<Option<Leg>, StoreError> {
        let (Some(_), Some(embedder)) = (&self.vector, &shared.embedder) else { return Ok(None) };
        if let (Some(link), Some(answer)) = (shared.remote.get(), self.asked.answer(&partition.id)) {
            let space = Space { embedder: embedder.id().to_owned(), dimensions: embedder.dimensions() };
            return RemoteLeg::new(read, link, &partition.id, &space, answer).map(|leg| Some(Leg::Remote(leg)));
        }
        let current = shared.vectors.current(read, &partition.id, embedder.id(), embedder.dimensions());
        current.map(|current| Some(Leg::Local(current)))
    }

    /// Weighs the candidates by importance and age, reads the rows of the best, and weighs these again with how often
    /// they were used, which only their ids tell.
    fn hits(
        &self,
        read: &ReadTx<'_>,
        parts: &[Part<'_>],
        cold: &[cold::Part],
        scale: &Scale,
        candidates: &BTreeMap<Place, Raw>,
        now: TimeMs,
    ) -> Result<Vec<Hit>, StoreError> {
        let mut scored: Vec<(f32, Place, Standing)> = Vec::with_capacity(candidates.len());
        let stands: Vec<Stand<'_>> = {
            let cold = cold.iter().map(|part| &part.loaded.columns);
            parts.iter().map(|part| &*part.columns).chain(cold).map(|columns| Stand::new(columns, now)).collect()
        };
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
            let (item, of) = match parts.get(index).map(|part| &part.partition.id) {
                Some(id) => {
                    let key = values![&id.tenant, id.namespace.as_str(), seq];
                    (read.query_optional(&sql, &key, rows::item)?, index)
                }
                None => {
                    let part = &cold[index - parts.len()];
                    (part.item(seq), part.partition)
                }
            };
            let Some(item) = item else { continue };
            let standing = uses[of].applied(read, &item.id, standing, now)?;
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
