//! Taking memories in: entry by entry from a file of any size, a batch in a transaction.

use std::{collections::HashSet, fmt, io::BufRead};

use longhaul_core::{MemoryId, Scope, TimeMs, UserId};
use longhaul_store::{StoreError, Tx, values};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Position, TransferError,
    foreign::{self, Defaults},
    reading,
    record::{FORMAT, Record, VERSION, VectorRecord},
};
use crate::{
    Fact, Item, Kind, Memory, MemoryError, Namespace, NewMemory, Prepared, Source,
    access::{self, Numbers, Right},
    keyword, life,
    namespace::PartitionId,
    rows,
};

/// Memories written by one transaction.
const BATCH: usize = 256;
/// Problems that are kept to be shown; all are counted.
const PROBLEMS_MAX: usize = 1_000;

/// How to import.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Into this namespace, wherever an entry says it was; `None` for where it says, else `main`.
    pub into: Option<Namespace>,
    /// Give every memory a new id, which follows from the old one and the namespace: for a copy beside the original.
    pub new_ids: bool,
    /// End at the first entry that cannot be taken.
    pub strict: bool,
    /// Collection of entries that name none.
    pub collection: String,
    /// Kind of entries that name none.
    pub kind: Kind,
    /// Source of entries that name none.
    pub source: Source,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            into: None,
            new_ids: false,
            strict: false,
            collection: "imported".to_owned(),
            kind: Kind::Note,
            source: Source::Outside,
        }
    }
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// Entries read, without the first line of an export.
    pub read: u64,
    /// Memories written.
    pub written: u64,
    /// Memories that were there already.
    pub already: u64,
    /// Of these, how many have another text here than in the file. They were left as they are here.
    pub differing: u64,
    /// Entries that were not taken.
    pub refused: u64,
    /// Why they were not, as far as they are kept.
    pub problems: Vec<Problem>,
}

/// An entry that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub position: Position,
    /// What is wrong with it, in words that follow its place.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.position, self.problem)
    }
}

impl Imported {
    fn refuse(&mut self, position: Position, problem: String) {
        self.refused += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { position, problem });
        }
    }
}

/// A memory that passed every check, and its place in the file.
struct Ready {
    position: Position,
    item: Item,
    prepared: Prepared,
    vectors: Vec<(String, Vec<u8>)>,
    /// It is not from an export of ours.
    is_new: bool,
}

impl Memory {
    /// Reads memories from an export, from lines of `{"text": …}`, or from a document with a list of them, and writes
    /// those that are not there yet. `progress` is told after every batch.
    ///
    /// Who owns a namespace keeps the recorded users of its memories; who may only write to it imports as themselves.
    ///
    /// # Errors
    /// Those of the input and of the store, [`TransferError::Newer`], and with `strict` [`TransferError::Refused`].
    pub async fn import(
        &self,
        scope: &Scope,
        options: &ImportOptions,
        input: impl BufRead + Send + 'static,
        mut progress: impl FnMut(&Imported) + Send,
    ) -> Result<Imported, TransferError> {
        let (sender, mut entries) = mpsc::channel(BATCH);
        let reader = tokio::task::spawn_blocking(move || {
            reading::read(input, &mut |position, entry| sender.blocking_send((position, entry)).is_ok())
        });
        let defaults = Defaults {
            scope: scope.clone(),
            namespace: options.into.clone().unwrap_or_default(),
            collection: options.collection.clone(),
            kind: options.kind,
            source: options.source,
        };
        let mut done = Imported::default();
        let mut page = Vec::with_capacity(BATCH);
        while entries.recv_many(&mut page, BATCH).await > 0 {
            let mut batch = Vec::with_capacity(page.len());
            for (position, entry) in page.drain(..) {
                match understood(entry, &defaults, options)? {
                    Understood::Header => continue,
                    Understood::Memory { read, is_new } => match ready(position, *read, is_new) {
                        Ok(ready) => batch.push(ready),
                        Err(problem) => done.refuse(position, problem),
                    },
                    Understood::Nothing(problem) => done.refuse(position, problem),
                }
                done.read += 1;
                if options.strict && done.refused > 0 {
                    break;
                }
            }
            self.write_batch(scope, batch, &mut done).await?;
            progress(&done);
            if options.strict
                && let Some(first) = done.problems.first()
            {
                return Err(TransferError::Refused(first.clone()));
            }
        }
        match reader.await {
            Ok(read) => read?,
            Err(error) => return Err(std::io::Error::other(error).into()),
        }
        Ok(done)
    }

    async fn write_batch(&self, scope: &Scope, batch: Vec<Ready>, done: &mut Imported) -> Result<(), MemoryError> {
        if batch.is_empty() {
            return Ok(());
        }
        let scope = scope.clone();
        let write = move |tx: &mut Tx<'_>| {
            let mut outcome = Imported::default();
            for group in batch.chunk_by(|a, b| a.item.namespace == b.item.namespace) {
                write_group(tx, &scope, group, &mut outcome)?;
            }
            Ok::<_, MemoryError>(outcome)
        };
        let outcome = self.shared.store.write(write).await?;
        done.written += outcome.written;
        done.already += outcome.already;
        done.differing += outcome.differing;
        for Problem { position, problem } in outcome.problems {
            done.refuse(position, problem);
        }
        if outcome.written > 0 {
            self.shared.wake.notify_one();
        }
        Ok(())
    }
}

/// An entry and what was made of it.
enum Understood {
    Header,
    Memory { read: Box<(Item, Vec<VectorRecord>)>, is_new: bool },
    Nothing(String),
}

fn understood(
    entry: Result<Value, String>,
    defaults: &Defaults,
    options: &ImportOptions,
) -> Result<Understood, TransferError> {
    let entry = match entry {
        Ok(Value::Object(entry)) => entry,
        Ok(Value::String(text)) => serde_json::Map::from_iter([("text".to_owned(), Value::String(text))]),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            return Ok(Understood::Nothing("is no memory: an object with a text was expected".to_owned()));
        }
        Err(problem) => return Ok(Understood::Nothing(problem)),
    };
    if entry.get("format").and_then(Value::as_str) == Some(FORMAT) {
        let v = entry.get("v").and_then(Value::as_u64).unwrap_or(0);
        let reads = v <= u64::from(VERSION);
        return if reads { Ok(Understood::Header) } else { Err(TransferError::Newer { v, newest: VERSION }) };
    }
    let own = entry.get("type").and_then(Value::as_str) == Some("memory") && entry.contains_key("namespace");
    let read = if own {
        let record = serde_json::from_value::<Record>(Value::Object(entry));
        record.map(Record::into_item).map_err(|error| format!("is no memory of an export: {error}"))
    } else {
        foreign::item(entry, defaults).map(|item| (item, Vec::new()))
    };
    let (mut item, vectors) = match read {
        Ok(read) => read,
        Err(problem) => return Ok(Understood::Nothing(problem)),
    };
    if let Some(into) = &options.into {
        item.namespace = into.clone();
    }
    if options.new_ids {
        let new = |id: &MemoryId, item: &Item| foreign::derived(&[item.namespace.as_str(), id.as_str()]);
        item.superseded_by = item.superseded_by.as_ref().map(|by| new(by, &item));
        item.id = new(&item.id, &item);
    }
    Ok(Understood::Memory { read: Box::new((item, vectors)), is_new: !own })
}

/// Passes a memory through the checks of every memory.
fn ready(position: Position, (item, vectors): (Item, Vec<VectorRecord>), is_new: bool) -> Result<Ready, String> {
    let memory = NewMemory {
        namespace: item.namespace.clone(),
        tags: item.tags.clone(),
        meta: item.meta.clone(),
        importance: item.importance,
        pinned: item.pinned,
        task: item.task.clone(),
        thread: item.thread.clone(),
        happened_at: (item.happened_at.0 != 0).then_some(item.happened_at),
        expires_at: item.expires_at,
        fact: item.fact.as_ref().map(|fact| checked_fact(fact, item.superseded_at.is_some())),
        index: item.index,
        ..NewMemory::new(&item.collection, item.kind, item.source, item.content.clone())
    };
    let prepared = memory.prepare().map_err(|error| format!("cannot be taken: {error}"))?;
    let stored = |record: VectorRecord| Ok((record.embedder.clone(), record.stored()?));
    let vectors = vectors.into_iter().map(stored).collect::<Result<_, String>>()?;
    Ok(Ready { position, item, prepared, vectors, is_new })
}

/// A fact as it is checked: one that was superseded may have been closed where it began, which no new fact may be.
fn checked_fact(fact: &Fact, superseded: bool) -> Fact {
    if superseded { Fact { valid_from: None, valid_to: None, ..fact.clone() } } else { fact.clone() }
}

/// Writes the memories of one namespace that are not there yet.
fn write_group(tx: &mut Tx<'_>, scope: &Scope, group: &[Ready], outcome: &mut Imported) -> Result<(), MemoryError> {
    let namespace = &group[0].item.namespace;
    let owner = match access::open(tx, scope, namespace, Right::Write) {
        Ok(partition) => partition.is_none_or(|partition| partition.owner == scope.user),
        Err(error @ (MemoryError::NoAccess { .. } | MemoryError::Frozen { .. })) => {
            for ready in group {
                outcome.refuse(ready.position, format!("cannot be taken: {error}"));
            }
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut new: Vec<&Ready> = Vec::with_capacity(group.len());
    let mut seen: HashSet<&MemoryId> = HashSet::new();
    for ready in group {
        match existing(tx, scope, &ready.item)? {
            _ if !seen.insert(&ready.item.id) => outcome.already += 1,
            Existing::None => new.push(ready),
            Existing::Same => outcome.already += 1,
            Existing::Differs => {
                outcome.already += 1;
                outcome.differing += 1;
            }
            Existing::Elsewhere => {
                let id = &ready.item.id;
                let problem = format!("has the id {id}, which is taken in another namespace; import with new ids");
                outcome.refuse(ready.position, problem);
            }
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    let length = new.iter().map(|ready| u64::from(ready.prepared.length)).sum();
    let first = access::next(tx, scope, namespace, new.len(), length)?;
    let id = PartitionId::new(&scope.tenant, namespace);
    for (offset, ready) in (0..).zip(&new) {
        let numbers = Numbers { seq: first.seq + offset, change: first.change + offset };
        let user = if owner { &ready.item.user } else { &scope.user };
        restore(tx, &id, numbers, user, ready)?;
    }
    keyword::add(tx, &id, first.seq, &new.iter().map(|ready| &ready.prepared).collect::<Vec<_>>())?;
    outcome.written += new.len() as u64;
    Ok(())
}

/// Whether a memory is there already.
enum Existing {
    None,
    Same,
    Differs,
    Elsewhere,
}

fn existing(tx: &Tx<'_>, scope: &Scope, item: &Item) -> Result<Existing, StoreError> {
    let Some(found) = rows::find(tx, &scope.tenant, &item.id)? else {
        // Its text is in the cold place, which no transaction waits for.
        return Ok(match life::place_of(tx, &scope.tenant, &item.id)? {
            None => Existing::None,
            Some(place) if place.namespace == item.namespace => Existing::Same,
            Some(_) => Existing::Elsewhere,
        });
    };
    if found.id.namespace != item.namespace {
        return Ok(Existing::Elsewhere);
    }
    let content: String = tx.query_one(
        "SELECT content FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
        &values![&scope.tenant, found.id.namespace.as_str(), found.seq],
        |row| row.get(0),
    )?;
    Ok(if content == item.content { Existing::Same } else { Existing::Differs })
}

/// Writes a row as it was, with its own id and times.
fn restore(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    numbers: Numbers,
    user: &UserId,
    ready: &Ready,
) -> Result<(), StoreError> {
    let item = &ready.item;
    rows::insert(tx, id, user, numbers, &item.id, &ready.prepared)?;
    let created = if item.created_at == TimeMs(0) { tx.now() } else { item.created_at };
    let fact = item.fact.as_ref();
    tx.execute(
        "UPDATE memories SET created_at = ?4, superseded_by = ?5, superseded_at = ?6, valid_from = ?7, valid_to = ?8
         WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
        &values![
            &id.tenant,
            id.namespace.as_str(),
            numbers.seq,
            created,
            item.superseded_by.as_ref(),
            item.superseded_at,
            fact.and_then(|fact| fact.valid_from),
            fact.and_then(|fact| fact.valid_to)
        ],
    )?;
    // A fact from elsewhere is new here and meets what is believed; one of an export brings what became of it.
    if let Some(fact) = fact.filter(|_| ready.is_new) {
        life::facts::settle(
            tx,
            id,
            numbers.seq,
            &item.id,
            fact,
            ready.prepared.memory.happened_at.unwrap_or(tx.now()),
        )?;
    }
    for (embedder, stored) in &ready.vectors {
        let (numbers_of, _) = stored.as_chunks::<4>();
        let vector: Vec<f32> = numbers_of.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        // Vectors are compared as if they had length one; another length would outweigh everything. It is embedded again.
        if (vector.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() > 1e-2 {
            continue;
        }
        rows::keep_vectors(tx, id, embedder, &[(numbers.seq, &vector)])?;
    }
    Ok(())
}
