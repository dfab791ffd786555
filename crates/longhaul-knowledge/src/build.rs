//! Building a version: files to chunks to rows of a partition that is frozen when all of them are in.
//!
//! Each transaction writes some chunks of one file and how far that file is, under a lease; so a build that was killed
//! goes on where it stopped. Invariant: nobody finds a version before the transaction that freezes it, and nothing of a
//! complete version is touched by building another.

use std::{collections::HashMap, path::Path};

use longhaul_core::{MemoryId, Scope};
use longhaul_memory::{Kind, NewMemory, Prepared, Source};
use longhaul_store::{LeaseToken, Tx, values};
use serde_json::{Value, json};

use crate::{
    CorpusName, FileInfo, Knowledge, KnowledgeError, Selection, State, Version,
    knowledge::{VERSION_COLUMNS, files_of, version_row},
    parse::PARSER_VERSION,
    reading::{Candidate, Piece, examined, read_pieces},
    walk::{self, Found},
};

/// Tokens of a chunk for a model whose window is not known: all-MiniLM-L6-v2 reads 256.
pub const CHUNK_TOKENS: usize = 230;
/// Chunks written in one transaction.
const BATCH: usize = 64;
/// What every chunk is filed under.
pub(crate) const COLLECTION: &str = "knowledge";
const THREAD_CHARS_MAX: usize = 256;
const ROW_VERSION: u32 = 1;

/// What to add.
#[derive(Debug, Clone)]
pub struct Addition {
    /// A file or a folder.
    pub path: std::path::PathBuf,
    /// The corpus it becomes a version of.
    pub corpus: CorpusName,
    /// Which files of a folder.
    pub selection: Selection,
    /// Tokens of a chunk, its headings included; no more than the embedding model reads.
    pub chunk_tokens: usize,
}

impl Addition {
    /// Everything below a path.
    #[must_use]
    pub fn new(path: impl Into<std::path::PathBuf>, corpus: CorpusName) -> Self {
        Self { path: path.into(), corpus, selection: Selection::default(), chunk_tokens: CHUNK_TOKENS }
    }
}

/// How far building is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// Files were found and are being compared with the version before.
    Comparing {
        /// How many there are.
        files: usize,
    },
    /// A file is being read.
    Reading {
        /// Files done.
        done: usize,
        /// Files in all.
        files: usize,
        /// Its name.
        name: String,
    },
}

/// What adding came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The version that holds it now.
    pub version: Version,
    /// Nothing had changed since that version, so no other was made.
    pub unchanged: bool,
    /// An earlier attempt's work was taken up.
    pub resumed: bool,
    /// Files whose content was in the version before.
    pub files_reused: usize,
    /// Chunks whose vector was in the version before.
    pub vectors_reused: u64,
    /// Files that could not be taken, and why.
    pub refused: Vec<(String, String)>,
}

/// A version being built, and the one before it.
struct Work {
    scope: Scope,
    corpus: CorpusName,
    version: u32,
    token: LeaseToken,
    /// The newest complete version, with its files by digest.
    before: Option<(u32, HashMap<String, FileInfo>)>,
    /// Whether its chunks were made by the same rules, so that they need not be made again.
    same_recipe: bool,
    chunk_tokens: usize,
}

impl Knowledge {
    /// Adds a path as a new version of a corpus. Files that cannot be taken are told and left out. Told to stop (by
    /// `going` being false), or killed, it leaves an unfinished version that nobody finds and that the same call goes on
    /// with. Embedding follows in the background; until then chunks are found by their words.
    ///
    /// # Errors
    /// [`KnowledgeError`]; what was complete before is as it was.
    pub async fn add(
        &self,
        scope: &Scope,
        addition: &Addition,
        mut going: impl FnMut(BuildProgress) -> bool,
    ) -> Result<Added, KnowledgeError> {
        let (path, selection) = (addition.path.clone(), addition.selection.clone());
        let walked = blocking(move || walk::walk(&path, &selection)).await??;
        going(BuildProgress::Comparing { files: walked.files.len() });
        let mut candidates = blocking(move || walked.files.into_iter().map(examined).collect::<Vec<_>>()).await?;
        let outside = walked.refused.into_iter().map(|(name, refusal)| Candidate {
            found: Found { path: name.clone().into(), name },
            digest: String::new(),
            bytes: 0,
            refusal: Some(refusal),
        });
        candidates.extend(outside);
        let lease = self.lease(scope, &addition.corpus).await?;
        let added = self.add_leased(scope, addition, candidates, lease.token().clone(), &mut going).await;
        lease.release().await?;
        added
    }

    async fn add_leased(
        &self,
        scope: &Scope,
        addition: &Addition,
        candidates: Vec<Candidate>,
        token: LeaseToken,
        going: &mut impl FnMut(BuildProgress) -> bool,
    ) -> Result<Added, KnowledgeError> {
        let name = &addition.corpus;
        let all = self.all_versions(scope, name).await?;
        if let Some(foreign) = all.iter().find(|version| version.0.owner != scope.user) {
            return Err(KnowledgeError::NotYours { name: name.to_string(), owner: foreign.0.owner.to_string() });
        }
        let recipe = recipe(addition);
        let before = all.iter().rev().find(|(version, _)| version.state == State::Ready);
        let files_before = match before {
            Some((version, _)) => self.files_by_name(scope, name, version.version).await?,
            None => HashMap::new(),
        };
        let same_recipe = before.is_some_and(|(_, of)| *of == recipe);
        if let Some((version, _)) = before.filter(|_| same_recipe && same_files(&candidates, &files_before)) {
            let refused = refusals(&files_before);
            return Ok(Added {
                version: version.clone(),
                unchanged: true,
                resumed: false,
                files_reused: candidates.len(),
                vectors_reused: 0,
                refused,
            });
        }
        let (version, resumed) = self.begin(scope, addition, &all, &recipe, &candidates, &token).await?;
        let by_digest = files_before.into_values().filter(|file| file.problem.is_none());
        let work = Work {
            scope: scope.clone(),
            corpus: name.clone(),
            version,
            token,
            before: before
                .map(|(version, _)| (version.version, by_digest.map(|file| (file.digest.clone(), file)).collect())),
            same_recipe,
            chunk_tokens: addition.chunk_tokens,
        };
        let (files_reused, vectors_reused) = self.fill(&work, candidates, going).await?;
        let version = self.complete(&work, &addition.path).await?;
        let refused = refusals(&self.files_by_name(scope, name, version.version).await?);
        Ok(Added { version, unchanged: false, resumed, files_reused, vectors_reused, refused })
    }

    /// All versions that ever were, oldest first, each with its recipe.
    async fn all_versions(&self, scope: &Scope, name: &CorpusName) -> Result<Vec<(Version, String)>, KnowledgeError> {
        let (scope, name) = (scope.clone(), name.clone());
        let sql = format!(
            "SELECT {VERSION_COLUMNS}, recipe FROM knowledge_versions WHERE tenant_id = ?1 AND corpus = ?2 ORDER BY version"
        );
        let row = |row: &longhaul_store::Row<'_>| Ok((version_row(row)?, row.get::<String>(11)?));
        Ok(self.store.read(move |read| read.query(&sql, &values![&scope.tenant, name.as_str()], row)).await?)
    }

    async fn files_by_name(
        &self,
        scope: &Scope,
        name: &CorpusName,
        version: u32,
    ) -> Result<HashMap<String, FileInfo>, KnowledgeError> {
        let (scope, name) = (scope.clone(), name.clone());
        let files = self.store.read(move |read| files_of(read, &scope, &name, version)).await?;
        Ok(files.into_iter().map(|file| (file.name.clone(), file)).collect())
    }

    /// Takes an unfinished version of the same files up, or drops it and begins another.
    async fn begin(
        &self,
        scope: &Scope,
        addition: &Addition,
        all: &[(Version, String)],
        recipe: &str,
        candidates: &[Candidate],
        token: &LeaseToken,
    ) -> Result<(u32, bool), KnowledgeError> {
        let source = addition.path.display().to_string();
        for (version, of) in all.iter().filter(|(version, _)| version.state == State::Building) {
            let begun = self.files_by_name(scope, &addition.corpus, version.version).await?;
            let now: HashMap<&str, &str> =
                candidates.iter().map(|file| (file.found.name.as_str(), file.digest.as_str())).collect();
            let fits = begun.values().all(|file| now.get(file.name.as_str()) == Some(&file.digest.as_str()));
            if fits && of == recipe && version.source == source {
                return Ok((version.version, true));
            }
            self.drop_version(scope, &addition.corpus, version.version, State::Removed).await?;
        }
        let number = all.iter().map(|(version, _)| version.version).max().unwrap_or(0) + 1;
        let namespace = addition.corpus.namespace(number)?;
        let selection = json!({ "include": addition.selection.include, "exclude": addition.selection.exclude,
                                "everything": addition.selection.everything })
        .to_string();
        let (memory, scope, corpus) = (self.memory.clone(), scope.clone(), addition.corpus.clone());
        let (recipe, token) = (recipe.to_owned(), token.clone());
        let begin = move |tx: &mut Tx<'_>| {
            tx.check_lease(&token)?;
            memory.create_partition(tx, &scope, &namespace, COLLECTION)?;
            let now = tx.now();
            tx.execute(
                "INSERT INTO knowledge_versions (tenant_id, corpus, version, v, owner, state, source, selection, recipe,
                                                 files, refused, chunks, bytes, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'building', ?6, ?7, ?8, 0, 0, 0, 0, ?9)",
                &values![&scope.tenant, corpus.as_str(), number, ROW_VERSION, &scope.user, &source, &selection, &recipe, now],
            )?;
            Ok::<_, KnowledgeError>((number, false))
        };
        self.store.write(begin).await
    }

    /// Writes what is missing of every file. Gives the number of files and of vectors taken from the version before.
    async fn fill(
        &self,
        work: &Work,
        candidates: Vec<Candidate>,
        going: &mut impl FnMut(BuildProgress) -> bool,
    ) -> Result<(usize, u64), KnowledgeError> {
        let begun = self.progress_of(work).await?;
        let files = candidates.len();
        let (mut files_reused, mut vectors_reused) = (0, 0);
        for (done, candidate) in candidates.into_iter().enumerate() {
            let name = candidate.found.name.clone();
            if !going(BuildProgress::Reading { done, files, name: name.clone() }) {
                return Err(KnowledgeError::Stopped { name: work.corpus.to_string(), version: work.version });
            }
            let already = begun.get(&name).copied();
            if already.is_some_and(|(chunks, done)| chunks == done) {
                continue;
            }
            let reused = self.fill_file(work, candidate, already.map_or(0, |(_, done)| done)).await?;
            files_reused += usize::from(reused.0);
            vectors_reused += reused.1;
        }
        Ok((files_reused, vectors_reused))
    }

    /// Of each file that was begun: its chunks, and how many of them are written.
    async fn progress_of(&self, work: &Work) -> Result<HashMap<String, (u64, u64)>, KnowledgeError> {
        let key = values![&work.scope.tenant, work.corpus.as_str(), work.version];
        let sql =
            "SELECT name, chunks, done FROM knowledge_files WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3";
        let rows = self.store.read(move |read| {
            read.query(sql, &key, |row| Ok((row.get::<String>(0)?, (row.get::<u64>(1)?, row.get::<u64>(2)?))))
        });
        Ok(rows.await?.into_iter().collect())
    }

    async fn fill_file(&self, work: &Work, candidate: Candidate, done: u64) -> Result<(bool, u64), KnowledgeError> {
        let Candidate { found, digest, bytes, refusal } = candidate;
        let mut file = FileInfo {
            name: found.name.clone(),
            digest,
            format: String::new(),
            title: None,
            bytes,
            chunks: 0,
            problem: refusal.map(|refusal| refusal.to_string()),
        };
        let mut reused = false;
        let mut pieces = Vec::new();
        if file.problem.is_none() {
            let known = match work.known(&file.digest) {
                Some((before, old)) => Some((old, self.pieces_of(work, before, &old.name).await?)),
                None => None,
            };
            // Passages that nobody asked for may be in cold storage; then the file is read again.
            if let Some((old, of_old)) = known.filter(|(old, of_old)| of_old.len() as u64 == old.chunks) {
                pieces = of_old;
                (file.format, file.title) = (old.format.clone(), old.title.clone());
                reused = true;
            } else {
                let (path, tokens, digest) = (found.path, work.chunk_tokens, file.digest.clone());
                let name = file.name.clone();
                match blocking(move || read_pieces(&path, &name, &digest, tokens)).await? {
                    Ok((format, title, made)) => {
                        (file.format, file.title) = (format.as_str().to_owned(), title);
                        pieces = made;
                    }
                    Err(refusal) => file.problem = Some(refusal.to_string()),
                }
            }
        }
        file.chunks = pieces.len() as u64;
        let vectors = self.write_file(work, file, pieces, done).await?;
        Ok((reused, vectors))
    }

    /// The pieces of a file as the version before has them.
    async fn pieces_of(&self, work: &Work, version: u32, name: &str) -> Result<Vec<Piece>, KnowledgeError> {
        let key = values![&work.scope.tenant, work.corpus.as_str(), version, name];
        let rows = self.store.read(move |read| {
            read.query(
                "SELECT c.digest, m.content, m.meta FROM knowledge_chunks c
                 JOIN memories m ON m.tenant_id = c.tenant_id AND m.memory_id = c.memory_id
                 WHERE c.tenant_id = ?1 AND c.corpus = ?2 AND c.version = ?3 AND c.name = ?4 ORDER BY c.position",
                &key,
                |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<String>(2)?)),
            )
        });
        let piece = |(digest, content, meta): (String, String, String)| Piece {
            digest,
            content,
            meta: serde_json::from_str(&meta).unwrap_or_default(),
        };
        Ok(rows.await?.into_iter().map(piece).collect())
    }

    /// Writes the pieces from the `done`th on, some in each transaction. Gives how many came with a vector.
    async fn write_file(
        &self,
        work: &Work,
        file: FileInfo,
        pieces: Vec<Piece>,
        done: u64,
    ) -> Result<u64, KnowledgeError> {
        let mut vectors = 0;
        let mut at = usize::try_from(done).unwrap_or(usize::MAX).min(pieces.len());
        let mut pieces = pieces.into_iter().skip(at).peekable();
        loop {
            let batch: Vec<Piece> = pieces.by_ref().take(BATCH).collect();
            let count = batch.len();
            vectors += self.write_batch(work, &file, batch, at).await?;
            at += count;
            if pieces.peek().is_none() {
                return Ok(vectors);
            }
        }
    }

    async fn write_batch(
        &self,
        work: &Work,
        file: &FileInfo,
        batch: Vec<Piece>,
        at: usize,
    ) -> Result<u64, KnowledgeError> {
        let namespace = work.corpus.namespace(work.version)?;
        let memory = self.memory.clone();
        let (scope, corpus, version, token) =
            (work.scope.clone(), work.corpus.clone(), work.version, work.token.clone());
        let before = work.before.as_ref().map(|(version, _)| *version);
        let file = file.clone();
        let write = move |tx: &mut Tx<'_>| {
            tx.check_lease(&token)?;
            let mut vectors = 0;
            let mut prepared: Vec<Prepared> = Vec::with_capacity(batch.len());
            for piece in &batch {
                let mut new = NewMemory::new(COLLECTION, Kind::Fact, Source::Outside, piece.content.clone());
                new.namespace = namespace.clone();
                new.thread = Some(file.name.chars().filter(|char| !char.is_control()).take(THREAD_CHARS_MAX).collect());
                new.meta = piece.meta.clone();
                new.meta.insert("path".to_owned(), Value::from(file.name.clone()));
                if let Some(version) = before
                    && let Some(same) = same_chunk(tx, &scope, &corpus, version, &piece.digest)?
                {
                    new.vector = memory.vector(tx, &scope, &same)?;
                    vectors += u64::from(new.vector.is_some());
                }
                prepared.push(new.prepare()?);
            }
            let ids = memory.insert_all(tx, &scope, &prepared)?;
            for (position, (piece, id)) in (at..).zip(batch.iter().zip(&ids)) {
                tx.execute(
                    "INSERT INTO knowledge_chunks (tenant_id, corpus, version, digest, name, position, memory_id)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    &values![&scope.tenant, corpus.as_str(), version, &piece.digest, &file.name, position, id],
                )?;
            }
            tx.execute(
                "INSERT INTO knowledge_files (tenant_id, corpus, version, name, digest, format, title, bytes, chunks, done, problem)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (tenant_id, corpus, version, name) DO UPDATE SET done = excluded.done",
                &values![&scope.tenant, corpus.as_str(), version, &file.name, &file.digest, &file.format,
                         file.title.as_ref(), file.bytes, file.chunks, at + ids.len(), file.problem.as_ref()],
            )?;
            Ok::<_, KnowledgeError>(vectors)
        };
        self.store.write(write).await
    }

    /// Freezes the partition and shows the version, in one transaction.
    async fn complete(&self, work: &Work, path: &Path) -> Result<Version, KnowledgeError> {
        let files = self.files_by_name(&work.scope, &work.corpus, work.version).await?;
        let taken: Vec<&FileInfo> = files.values().filter(|file| file.problem.is_none() && file.chunks > 0).collect();
        if taken.is_empty() {
            self.drop_version(&work.scope, &work.corpus, work.version, State::Removed).await?;
            let first = refusals(&files).into_iter().next();
            let reason =
                first.map_or_else(|| "it has no files".to_owned(), |(name, problem)| format!("{name}: {problem}"));
            return Err(KnowledgeError::NothingToAdd { path: path.to_owned(), reason });
        }
        let chunks: u64 = taken.iter().map(|file| file.chunks).sum();
        let bytes: u64 = taken.iter().map(|file| file.bytes).sum();
        let (taken, refused) = (taken.len(), files.len() - taken.len());
        let (memory, scope, corpus, version) =
            (self.memory.clone(), work.scope.clone(), work.corpus.clone(), work.version);
        let (token, before) = (work.token.clone(), work.before.as_ref().map(|(version, _)| *version));
        let complete = move |tx: &mut Tx<'_>| {
            tx.check_lease(&token)?;
            let namespace = corpus.namespace(version)?;
            if let Some(before) = before {
                memory.copy_grants(tx, &scope, &corpus.namespace(before)?, &namespace)?;
            }
            memory.freeze(tx, &scope, &namespace, true)?;
            let now = tx.now();
            tx.execute(
                "UPDATE knowledge_versions SET state = 'ready', files = ?4, refused = ?5, chunks = ?6, bytes = ?7,
                     completed_at = ?8
                 WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3",
                &values![&scope.tenant, corpus.as_str(), version, taken, refused, chunks, bytes, now],
            )?;
            let sql = format!(
                "SELECT {VERSION_COLUMNS} FROM knowledge_versions WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3"
            );
            Ok::<_, KnowledgeError>(tx.query_one(
                &sql,
                &values![&scope.tenant, corpus.as_str(), version],
                version_row,
            )?)
        };
        self.store.write(complete).await
    }
}

impl Work {
    /// The file of the version before that has this content, if its chunks can be taken as they are.
    fn known(&self, digest: &str) -> Option<(u32, &FileInfo)> {
        let (version, files) = self.before.as_ref().filter(|_| self.same_recipe)?;
        files.get(digest).map(|file| (*version, file))
    }
}

/// The rules by which chunks are made: other rules, other chunks.
fn recipe(addition: &Addition) -> String {
    format!("parser {PARSER_VERSION}, {} tokens", addition.chunk_tokens)
}

fn same_chunk(
    tx: &Tx<'_>,
    scope: &Scope,
    corpus: &CorpusName,
    version: u32,
    digest: &str,
) -> Result<Option<MemoryId>, KnowledgeError> {
    let sql = "SELECT memory_id FROM knowledge_chunks
               WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3 AND digest = ?4 LIMIT 1";
    Ok(tx.query_optional(sql, &values![&scope.tenant, corpus.as_str(), version, digest], |row| row.get(0))?)
}

fn same_files(candidates: &[Candidate], before: &HashMap<String, FileInfo>) -> bool {
    let same = |file: &Candidate| before.get(&file.found.name).is_some_and(|old| old.digest == file.digest);
    candidates.len() == before.len() && candidates.iter().all(same)
}

fn refusals(files: &HashMap<String, FileInfo>) -> Vec<(String, String)> {
    let refused = files.values().filter_map(|file| Some((file.name.clone(), file.problem.clone()?)));
    let mut refused: Vec<_> = refused.collect();
    refused.sort();
    refused
}

/// Work that reads files or computes, off the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, KnowledgeError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| KnowledgeError::Interrupted { problem: error.to_string() })
}
