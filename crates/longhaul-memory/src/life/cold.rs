//! Reading cold segments: a bounded cache of whole segments, and what of them answers a query.
//!
//! A search asks for the segments it needs before it takes its snapshot, and counts in the snapshot what of them is
//! still remembered. Invariants: a segment that cannot be read is a note and hides nothing else; nothing is given out
//! that the snapshot does not know as cold; one search waits a bounded time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt;
use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, StoreError};

use crate::{
    Fact, Index, Item, Namespace, Query, Tier, access::Partition, bits::Bits, columns::Columns, filter::Filter,
    item::counted, namespace::PartitionId, vectors::dot,
};

use super::{
    ColdError,
    objects::Objects,
    segment::{ColdRow, Segment},
    shelf::{self, Removed, Shelved},
};

/// RAM for segments that were read lately.
const CACHE_BYTES_MAX: usize = 96 * 1024 * 1024;
/// Segments read at once.
const AT_ONCE: usize = 8;
/// Most segments that one search reads; the newest come first.
const SEGMENTS_MAX: usize = 512;
/// Longest time that a search waits for segments.
const SEARCH_MS_MAX: u64 = 2_000;
/// After a place was out of reach, how long searches do without it.
const REST: Duration = Duration::from_secs(5);
/// Saturation of repeats and weight of a text's length in BM25, as in the keyword index.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The open cold place, and what was read from it lately.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) objects: Objects,
    cache: Mutex<Cache>,
    /// When it was last out of reach, and why.
    down: Mutex<Option<(Instant, String)>>,
}

#[derive(Debug, Default)]
struct Cache {
    held: HashMap<String, (u64, Arc<Loaded>)>,
    bytes: usize,
    uses: u64,
}

/// A segment in RAM, ready to be searched. Its memories have the numbers 1, 2, … in the columns.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) segment: Segment,
    pub(crate) columns: Columns,
    words: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    terms: u64,
    bytes: usize,
}

impl Loaded {
    fn new(segment: Segment) -> Self {
        let columns = Columns::of_cold(&segment.rows);
        let mut words: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        let (mut lengths, mut occurrences) = (Vec::with_capacity(segment.rows.len()), 0);
        for (place, row) in (0..).zip(&segment.rows) {
            let mut length = 0;
            if Index::from_stored(row.indexed).has_words() {
                let (terms, of_row) = counted(&row.content);
                length = of_row;
                occurrences += terms.len();
                for (term, count) in terms {
                    words.entry(term).or_default().push((place, count));
                }
            }
            lengths.push(length);
        }
        let terms = lengths.iter().map(|length| u64::from(*length)).sum();
        let bytes = segment.bytes() + columns.bytes() + words.len() * 96 + occurrences * 8;
        Self { segment, columns, words, lengths, terms, bytes }
    }

    /// The vectors of this embedder, one for each row.
    fn vectors(&self, embedder: &str, dimensions: usize) -> Option<&[Option<Vec<f32>>]> {
        let of = self.segment.vectors.iter().find(|of| of.embedder == embedder && of.dimensions == dimensions)?;
        Some(&of.of_row)
    }
}

/// What a search has of the cold tier: segments it could read, and notes on those it could not.
#[derive(Debug, Default)]
pub(crate) struct View {
    loaded: HashMap<String, Arc<Loaded>>,
    /// Objects that were tried and could not be read, or were too many.
    without: BTreeSet<String>,
    unasked: Unasked,
    pub(crate) notes: Vec<String>,
}

/// What becomes of segments that the snapshot has and nobody asked for before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Unasked {
    /// Begin again and ask for them.
    #[default]
    Ask,
    /// Leave them out and say so.
    Note,
    /// The cold tier is not searched.
    Leave,
}

/// One segment as the search's snapshot has it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) namespace: Namespace,
    /// Place of its partition among those searched.
    pub(crate) partition: usize,
    removed: Removed,
    pub(crate) allowed: Bits,
}

/// A cold memory that may answer: the place of its segment among the parts and its number in there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) part: usize,
    pub(crate) number: i64,
    pub(crate) bm25: f32,
    pub(crate) cosine: Option<f32>,
}

/// What the hot rows of a partition say of the query's words, so that rare is rare in both tiers.
#[derive(Debug, Clone, Default)]
pub(crate) struct HotWords {
    pub(crate) documents: i64,
    pub(crate) terms: i64,
    /// For each of the query's distinct terms, how many hot memories have it.
    pub(crate) containing: Vec<usize>,
}

impl Cold {
    pub(crate) fn new(objects: Objects) -> Self {
        Self { objects, cache: Mutex::default(), down: Mutex::new(None) }
    }

    /// Reads a segment, from the cache if it is there.
    pub(crate) async fn load(&self, shelved: &Shelved) -> Result<Arc<Loaded>, ColdError> {
        if let Some(loaded) = self.cached(&shelved.object) {
            return Ok(loaded);
        }
        let bytes = self.objects.get(&shelved.object).await?;
        let damaged = |problem| ColdError::Damaged { key: shelved.object.clone(), problem };
        let segment = Segment::decode(&bytes, &shelved.digest).map_err(damaged)?;
        if segment.segment != shelved.segment
            || segment.tenant != shelved.id.tenant.as_str()
            || segment.namespace != shelved.id.namespace.as_str()
        {
            return Err(damaged("it is the segment of something else".to_owned()));
        }
        let loaded = Arc::new(Loaded::new(segment));
        self.keep(&shelved.object, &loaded);
        Ok(loaded)
    }

    /// [`Self::load`] with the object's name; owning its argument, so that the futures of a search can move to any thread.
    async fn load_named(&self, shelved: Shelved) -> (String, Result<Arc<Loaded>, ColdError>) {
        let loaded = self.load(&shelved).await;
        (shelved.object, loaded)
    }

    fn cached(&self, object: &str) -> Option<Arc<Loaded>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.uses += 1;
        let now = cache.uses;
        let (used, loaded) = cache.held.get_mut(object)?;
        *used = now;
        Some(loaded.clone())
    }

    fn keep(&self, object: &str, loaded: &Arc<Loaded>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.uses += 1;
        let now = cache.uses;
        if cache.held.insert(object.to_owned(), (now, loaded.clone())).is_none() {
            cache.bytes += loaded.bytes;
        }
        while cache.bytes > CACHE_BYTES_MAX && cache.held.len() > 1 {
            let Some(oldest) = cache.held.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone()) else {
                break;
            };
            if let Some((_, dropped)) = cache.held.remove(&oldest) {
                cache.bytes -= dropped.bytes;
            }
        }
    }

    /// Forgets what was read of an object that is gone.
    pub(crate) fn drop_cached(&self, object: &str) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, dropped)) = cache.held.remove(object) {
            cache.bytes -= dropped.bytes;
        }
    }

    fn resting(&self) -> Option<String> {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        down.as_ref().filter(|(since, _)| since.elapsed() < REST).map(|(_, why)| why.clone())
    }

    fn set_down(&self, why: Option<String>) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = why.map(|why| (Instant::now(), why));
    }

    /// Reads the segments that a query needs, as far as they come in time.
    pub(crate) async fn view(&self, mut wanted: Vec<Shelved>) -> View {
        let mut view = View::default();
        let too_many: Vec<Shelved> = wanted.split_off(wanted.len().min(SEGMENTS_MAX));
        if !too_many.is_empty() {
            view.notes.push(format!(
                "{} older cold segments were not looked at; narrow the search by time, thread or collection",
                too_many.len()
            ));
            view.without.extend(too_many.into_iter().map(|shelved| shelved.object));
        }
        let mut missing = Vec::new();
        for shelved in wanted {
            match self.cached(&shelved.object) {
                Some(loaded) => drop(view.loaded.insert(shelved.object, loaded)),
                None => missing.push(shelved),
            }
        }
        if missing.is_empty() {
            return view;
        }
        if let Some(why) = self.resting() {
            view.leave_out(missing.iter(), &why);
            return view;
        }
        let mut left: BTreeSet<String> = missing.iter().map(|shelved| shelved.object.clone()).collect();
        let mut failed: Vec<(String, ColdError)> = Vec::new();
        {
            let mut reading =
                futures::stream::iter(missing).map(|shelved| self.load_named(shelved)).buffer_unordered(AT_ONCE);
            let deadline = tokio::time::Instant::now() + Duration::from_millis(SEARCH_MS_MAX);
            while let Ok(Some((object, outcome))) = tokio::time::timeout_at(deadline, reading.next()).await {
                left.remove(&object);
                match outcome {
                    Ok(loaded) => drop(view.loaded.insert(object, loaded)),
                    Err(error) => {
                        let is_of_the_place = error.is_of_the_place();
                        failed.push((object, error));
                        if is_of_the_place {
                            break;
                        }
                    }
                }
            }
        }
        self.note(&mut view, failed, left);
        view
    }

    fn note(&self, view: &mut View, failed: Vec<(String, ColdError)>, left: BTreeSet<String>) {
        let of_place = failed.iter().find(|(_, error)| error.is_of_the_place()).map(|(_, error)| error.to_string());
        let slow = (!left.is_empty() && of_place.is_none())
            .then(|| format!("{} did not answer within {SEARCH_MS_MAX} ms", self.objects.place()));
        self.set_down(of_place.clone().or_else(|| slow.clone()));
        let mut unread: BTreeSet<String> = left;
        for (object, error) in failed {
            if !error.is_of_the_place() {
                view.notes.push(error.to_string());
                view.without.insert(object);
            } else {
                unread.insert(object);
            }
        }
        if let Some(why) = of_place.or(slow) {
            tracing::warn!(segments = unread.len(), why, "cold segments could not be read");
            view.notes.push(format!("{} cold segments could not be read: {why}", unread.len()));
            view.without.extend(unread);
        }
    }
}

impl View {
    /// Of a store that has no place for cold memory, or one that is out of reach.
    pub(crate) fn unreadable(wanted: &[Shelved], why: &str) -> Self {
        let mut view = Self::default();
        if !wanted.is_empty() {
            view.leave_out(wanted.iter(), why);
        }
        view
    }

    pub(crate) fn with_unasked(&mut self, unasked: Unasked) {
        self.unasked = unasked;
    }

    fn leave_out<'a>(&mut self, left: impl Iterator<Item = &'a Shelved>, why: &str) {
        let before = self.without.len();
        self.without.extend(left.map(|shelved| shelved.object.clone()));
        self.notes.push(format!("{} cold segments could not be read: {why}", self.without.len() - before));
    }

    /// The segments as the snapshot has them; `None` when there is one that was not asked for, because it came into
    /// being since: then ask again.
    pub(crate) fn parts(
        &mut self,
        read: &ReadTx<'_>,
        partitions: &[Partition],
        query: &Query,
    ) -> Result<Option<Vec<Part>>, StoreError> {
        let (mut parts, mut left_out) = (Vec::new(), 0);
        for (place, partition) in partitions.iter().enumerate() {
            for shelved in shelf::live(read, &partition.id)? {
                if let Some(loaded) = self.loaded.get(&shelved.object) {
                    parts.push(Part {
                        loaded: loaded.clone(),
                        namespace: shelved.id.namespace,
                        partition: place,
                        removed: shelved.removed,
                        allowed: Bits::default(),
                    });
                } else if !self.without.contains(&shelved.object) && shelved.may_match(query) {
                    match self.unasked {
                        Unasked::Ask => return Ok(None),
                        Unasked::Note => left_out += 1,
                        Unasked::Leave => {}
                    }
                }
            }
        }
        if left_out > 0 {
            self.notes.push(format!("{left_out} cold segments were being written meanwhile; ask again"));
        }
        Ok(Some(parts))
    }
}

impl Part {
    /// Where it is, for putting segments into an order.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.loaded.segment.segment)
    }

    /// Decides which of its memories the query may look at.
    pub(crate) fn allow(&mut self, filter: &Filter) {
        let mut allowed = filter.run(&self.loaded.columns);
        for place in 0..self.loaded.segment.rows.len() {
            if self.removed.has(place) {
                allowed.remove(place as i64 + 1);
            }
        }
        self.allowed = allowed;
    }

    /// How many of the allowed have a vector.
    pub(crate) fn known(&self, embedder: &str, dimensions: usize) -> usize {
        let Some(vectors) = self.loaded.vectors(embedder, dimensions) else { return 0 };
        self.allowed.iter().filter(|number| vectors.get(*number as usize - 1).is_some_and(Option::is_some)).count()
    }

    pub(crate) fn row(&self, number: i64) -> Option<&ColdRow> {
        self.loaded.segment.rows.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The memory under this number.
    pub(crate) fn item(&self, number: i64) -> Option<Item> {
        item(self.row(number)?, &self.namespace)
    }
}

/// The best of each leg in all segments of one partition, each with what both legs say of it.
pub(crate) fn candidates(
    parts: &[Part],
    partition: usize,
    terms: &[&String],
    hot: &HotWords,
    vector: Option<(&[f32], &str)>,
    take: usize,
) -> Vec<Candidate> {
    let bm25 = score(parts, partition, terms, hot);
    let mut found: HashMap<(usize, i64), Candidate> = HashMap::new();
    for ((part, number), bm25) in best(bm25.iter().map(|(place, bm25)| (*place, *bm25)).collect(), take) {
        found.insert((part, number), Candidate { part, number, bm25, cosine: None });
    }
    let Some((vector, embedder)) = vector else { return found.into_values().collect() };
    let cosine = |part: &Part, number: i64| {
        let vectors = part.loaded.vectors(embedder, vector.len())?;
        vectors.get(number as usize - 1)?.as_ref().map(|other| dot(vector, other))
    };
    let mut near: Vec<((usize, i64), f32)> = Vec::new();
    for (place, part) in of(parts, partition) {
        near.extend(part.allowed.iter().filter_map(|number| Some(((place, number), cosine(part, number)?))));
    }
    for ((part, number), _) in best(near, take) {
        let bm25 = bm25.get(&(part, number)).copied().unwrap_or(0.0);
        found.entry((part, number)).or_insert(Candidate { part, number, bm25, cosine: None });
    }
    for candidate in found.values_mut() {
        candidate.cosine = cosine(&parts[candidate.part], candidate.number);
    }
    found.into_values().collect()
}

fn of(parts: &[Part], partition: usize) -> impl Iterator<Item = (usize, &Part)> {
    parts.iter().enumerate().filter(move |(_, part)| part.partition == partition)
}

/// BM25 of every allowed memory that shares a term with the query, counting both tiers as one corpus.
fn score(parts: &[Part], partition: usize, terms: &[&String], hot: &HotWords) -> HashMap<(usize, i64), f32> {
    let cold = |of_part: &dyn Fn(&Part) -> usize| of(parts, partition).map(|(_, part)| of_part(part)).sum::<usize>();
    let documents = (hot.documents.max(0) as usize + cold(&|part| part.loaded.segment.rows.len())).max(1) as f32;
    let length_mean =
        ((hot.terms.max(0) as usize + cold(&|part| part.loaded.terms as usize)) as f32 / documents).max(1.0);
    let mut scores: HashMap<(usize, i64), f32> = HashMap::new();
    for (index, term) in terms.iter().enumerate() {
        let here = cold(&|part| part.loaded.words.get(*term).map_or(0, Vec::len));
        let containing = ((hot.containing.get(index).copied().unwrap_or(0) + here) as f32).min(documents);
        let rarity = ((documents - containing + 0.5) / (containing + 0.5)).ln_1p();
        for (place, part) in of(parts, partition) {
            for (position, count) in part.loaded.words.get(*term).into_iter().flatten() {
                let number = i64::from(*position) + 1;
                if !part.allowed.has(number) {
                    continue;
                }
                let length = part.loaded.lengths.get(*position as usize).copied().unwrap_or(0) as f32 / length_mean;
                let count = *count as f32;
                let score = rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
                *scores.entry((place, number)).or_insert(0.0) += score;
            }
        }
    }
    scores
}

/// The `take` highest, in no order.
fn best(mut scored: Vec<((usize, i64), f32)>, take: usize) -> Vec<((usize, i64), f32)> {
    if scored.len() > take {
        scored.select_nth_unstable_by(take, |a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        scored.truncate(take);
    }
    scored
}

/// A cold row as everybody else sees a memory; `None` for one that a damaged or newer program wrote.
pub(crate) fn item(row: &ColdRow, namespace: &Namespace) -> Option<Item> {
    let fact = row.subject.clone().zip(row.attribute.clone()).map(|(subject, attribute)| Fact {
        subject,
        attribute,
        valid_from: row.valid_from.map(TimeMs),
        valid_to: row.valid_to.map(TimeMs),
    });
    Some(Item {
        id: row.memory_id.parse().ok()?,
        namespace: namespace.clone(),
        collection: row.collection.clone(),
        kind: row.kind.parse().ok()?,
        source: row.source.parse().ok()?,
        content: row.content.clone(),
        meta: serde_json::from_str(&row.meta).ok()?,
        tags: serde_json::from_str(&row.tags).ok()?,
        importance: row.importance,
        pinned: row.pinned,
        user: row.user_id.parse().ok()?,
        task: row.task_id.as_ref().map(|task| task.parse()).transpose().ok()?,
        thread: row.thread.clone(),
        created_at: TimeMs(row.created_at),
        happened_at: TimeMs(row.happened_at),
        expires_at: row.expires_at.map(TimeMs),
        fact,
        superseded_by: row.superseded_by.as_ref().map(|id| id.parse()).transpose().ok()?,
        superseded_at: row.superseded_at.map(TimeMs),
        index: Index::from_stored(row.indexed),
        tier: Tier::Cold,
    })
}

/// The segments of these partitions that a query may have to read.
pub(crate) fn wanted(read: &ReadTx<'_>, ids: &[PartitionId], query: &Query) -> Result<Vec<Shelved>, StoreError> {
    let mut wanted = Vec::new();
    for id in ids {
        wanted.extend(shelf::live(read, id)?.into_iter().filter(|shelved| shelved.may_match(query)));
    }
    Ok(wanted)
}
