//! A sentence model in a folder, on the CPU: when it is loaded, and how texts are grouped into passes.
//!
//! Queries and documents have a lane each. A pass is one thread's work on a bounded number of tokens; requests that wait
//! for a turn at the same time share the next pass. Invariants: a query never waits for documents, documents leave a
//! core free where there is more than one, and every text that was accepted is answered or its request has gone away.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::available_parallelism,
};

use async_trait::async_trait;
use tokenizers::{Tokenizer, TruncationParams};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{
    config::{Description, Prompts},
    encoder::Encoder,
    files,
    weights::Weights,
};
use crate::{EmbedError, Embedder};

/// Tokens of one text that the default model reads; what follows is cut.
pub const TOKENS_MAX: usize = 256;
/// Characters that are tokenised for each token of the window: more than any prose has.
const CHARS_OF_TOKEN: usize = 16;
/// Tokens of one pass, as estimated from the texts. Bounds a pass to some tens of milliseconds with a small model.
const PASS_TOKENS_MAX: usize = 512;
/// Part of a text's pieces that may be unknown to a model that reads it. Of Chinese and Thai questions an English model
/// does not know half; of Russian or Arabic it knows every letter.
const UNKNOWN_MAX: f32 = 0.3;
/// Bytes of a text that make a token at the least, nearly always: Chinese has three, English five.
const TOKEN_BYTES: usize = 3;

/// The local embedding model. Cheap to clone; clones share the loaded weights.
#[derive(Clone)]
pub struct LocalModel {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    id: String,
    description: Description,
    loaded: Mutex<Option<Arc<Loaded>>>,
    queries: Arc<Lane>,
    documents: Arc<Lane>,
}

struct Loaded {
    tokenizer: Tokenizer,
    encoder: Encoder,
}

/// Texts that wait, and the right to run a pass over them.
struct Lane {
    waiting: Mutex<VecDeque<Job>>,
    turns: Arc<Semaphore>,
}

struct Job {
    text: String,
    answer: oneshot::Sender<Result<Vec<f32>, EmbedError>>,
}

impl LocalModel {
    /// Prepares the model in this folder: `model.safetensors`, `tokenizer.json`, `config.json`, and what
    /// sentence-transformers puts beside them. Reads a few hundred kilobytes to identify it; the weights are read when
    /// the first text is embedded.
    ///
    /// # Errors
    /// When a file is missing, or says something that is not supported.
    pub fn open(dir: &Path) -> Result<Self, EmbedError> {
        Self::open_with(dir, None)
    }

    /// The same with other prompts than the folder states, for models whose prompts are only in their description.
    ///
    /// # Errors
    /// As [`LocalModel::open`].
    pub fn open_with(dir: &Path, prompts: Option<Prompts>) -> Result<Self, EmbedError> {
        let mut description = Description::read(dir)?;
        if let Some(prompts) = prompts {
            description.prompts = prompts;
        }
        if files::is_default(dir)? {
            description.window = description.window.min(TOKENS_MAX);
        }
        let id = files::identity(dir, &description)?;
        let cores = available_parallelism().map_or(1, usize::from);
        let shared = Shared {
            dir: dir.to_owned(),
            id,
            description,
            loaded: Mutex::new(None),
            queries: Lane::new(cores),
            documents: Lane::new(cores.saturating_sub(1).max(1)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Prepares and loads the model at once. Blocks for the time that takes.
    ///
    /// # Errors
    /// As [`LocalModel::open`], and when the weights cannot be read.
    pub fn load(dir: &Path) -> Result<Self, EmbedError> {
        let model = Self::open(dir)?;
        model.shared.loaded()?;
        Ok(model)
    }

    /// Bytes of memory its weights take; loads them if that has not happened.
    ///
    /// # Errors
    /// When the weights cannot be read.
    pub fn bytes(&self) -> Result<usize, EmbedError> {
        Ok(self.shared.loaded()?.encoder.bytes())
    }

    /// Embeds on the calling thread, which it blocks; for programs without a runtime, and for measuring.
    ///
    /// # Errors
    /// When the weights cannot be read.
    pub fn embed_now(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let prompt = &self.shared.description.prompts.document;
        let texts: Vec<String> = texts.iter().map(|text| self.shared.prepared(prompt, text)).collect();
        self.shared.pass(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    async fn through(&self, lane: &Arc<Lane>, prompt: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut answers = Vec::with_capacity(texts.len());
        {
            let mut waiting = lane.lock();
            for text in texts {
                let (answer, answered) = oneshot::channel();
                waiting.push_back(Job { text: self.shared.prepared(prompt, text), answer });
                answers.push(answered);
            }
        }
        let mut vectors = Vec::with_capacity(texts.len());
        for mut answer in answers {
            let vector = loop {
                tokio::select! {
                    biased;
                    vector = &mut answer => break vector,
                    turn = lane.turns.clone().acquire_owned() => {
                        let jobs = lane.take(self.shared.description.window);
                        match (turn, jobs.is_empty()) {
                            (Ok(turn), false) => self.start(turn, jobs),
                            // What waits for an answer is in a pass already; nothing is left to start, and the turn
                            // is another's.
                            (turn, _) => {
                                drop(turn);
                                break (&mut answer).await;
                            }
                        }
                    }
                }
            };
            let gone = |_| self.shared.failed("the pass ended without an answer".to_owned());
            vectors.push(vector.map_err(gone)??);
        }
        Ok(vectors)
    }

    /// Runs a pass in its own thread, which answers whether or not anybody still waits here.
    fn start(&self, turn: OwnedSemaphorePermit, jobs: Vec<Job>) {
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let result = shared.pass(&jobs.iter().map(|job| job.text.as_str()).collect::<Vec<_>>());
            match result {
                Ok(vectors) => {
                    for (job, vector) in jobs.into_iter().zip(vectors) {
                        // Whoever asked may have gone away.
                        let _ = job.answer.send(Ok(vector));
                    }
                }
                Err(error) => {
                    let problem = error.to_string();
                    let mut first = Some(error);
                    for job in jobs {
                        let error = first.take().unwrap_or_else(|| shared.failed(problem.clone()));
                        let _ = job.answer.send(Err(error));
                    }
                }
            }
        });
    }
}

impl Lane {
    fn new(turns: usize) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), turns: Arc::new(Semaphore::new(turns)) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Job>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The texts of the next pass: those that waited longest, within its bound.
    fn take(&self, window: usize) -> Vec<Job> {
        let mut waiting = self.lock();
        let (mut jobs, mut tokens) = (Vec::new(), 0);
        while let Some(job) = waiting.pop_front() {
            if job.answer.is_closed() {
                continue;
            }
            tokens += estimated_tokens(&job.text, window);
            if tokens > PASS_TOKENS_MAX && !jobs.is_empty() {
                waiting.push_front(job);
                break;
            }
            jobs.push(job);
        }
        jobs
    }
}

fn estimated_tokens(text: &str, window: usize) -> usize {
    (text.len() / TOKEN_BYTES + 2).min(window)
}

impl Shared {
    /// The text as the tokenizer gets it: no more of it than can count.
    fn prepared(&self, prompt: &str, text: &str) -> String {
        let chars_max = self.description.window * CHARS_OF_TOKEN;
        let chars = prompt.chars().chain(text.chars()).take(chars_max);
        if self.description.lower_case { chars.flat_map(char::to_lowercase).collect() } else { chars.collect() }
    }

    fn pass(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let loaded = self.loaded()?;
        let tokens = texts.iter().map(|text| {
            let encoding = loaded.tokenizer.encode_fast(*text, true).map_err(|error| self.failed(error.to_string()))?;
            let ids = encoding.get_ids();
            // A tokenizer without marks gives nothing for an empty text; the model needs a row to give a vector.
            Ok(if ids.is_empty() { vec![0] } else { ids.to_vec() })
        });
        let tokens = tokens.collect::<Result<Vec<_>, EmbedError>>()?;
        let mut vectors = Vec::with_capacity(texts.len());
        for group in groups(&tokens) {
            match loaded.encoder.forward(group) {
                Ok(some) => vectors.extend(some),
                Err(error) => {
                    // The next request looks at the folder again, and works if somebody has mended it.
                    *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return Err(error);
                }
            }
        }
        Ok(vectors)
    }

    fn loaded(&self) -> Result<Arc<Loaded>, EmbedError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_ref() {
            return Ok(loaded.clone());
        }
        let fresh = Arc::new(self.load()?);
        *loaded = Some(fresh.clone());
        Ok(fresh)
    }

    fn load(&self) -> Result<Loaded, EmbedError> {
        let unusable = |file: &str, problem: String| EmbedError::Unusable { path: self.dir.join(file), problem };
        files::require(&self.dir)?;
        let weights = Weights::open(&self.dir.join(files::WEIGHTS))?;
        let dense = self
            .description
            .dense
            .iter()
            .map(|dense| Ok((dense.clone(), Weights::open(&dense.dir.join(files::WEIGHTS))?)));
        let dense = dense.collect::<Result<Vec<_>, EmbedError>>()?;
        let encoder = Encoder::load(self.description.shape.clone(), &weights, &dense)?;
        // Compared after reading, so that what was read is what the id names.
        if files::identity(&self.dir, &self.description)? != self.id {
            let problem = format!("it holds another model than {} now; start the program again", self.id);
            return Err(unusable(files::WEIGHTS, problem));
        }
        let tokenizer = files::read(&self.dir.join(files::TOKENIZER))?;
        let mut tokenizer =
            Tokenizer::from_bytes(tokenizer).map_err(|error| unusable(files::TOKENIZER, error.to_string()))?;
        // The file may say fewer tokens, padded: what the model was trained with. Padding is not needed here.
        let window = TruncationParams { max_length: self.description.window, ..TruncationParams::default() };
        tokenizer
            .with_truncation(Some(window))
            .map_err(|error| unusable(files::TOKENIZER, error.to_string()))?
            .with_padding(None);
        let (words, rows) = (tokenizer.get_vocab_size(true), self.description.shape.words);
        if words > rows {
            return Err(unusable(files::TOKENIZER, format!("it knows {words} words and the model {rows}")));
        }
        Ok(Loaded { tokenizer, encoder })
    }

    fn failed(&self, problem: String) -> EmbedError {
        EmbedError::Failed { id: self.id.clone(), problem }
    }
}

/// The texts in order, cut into runs of at most [`PASS_TOKENS_MAX`] tokens, or one text.
fn groups(tokens: &[Vec<u32>]) -> impl Iterator<Item = &[Vec<u32>]> {
    let mut rest = tokens;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |text: &&Vec<u32>| {
            sum += text.len();
            sum <= PASS_TOKENS_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (group, others) = rest.split_at(count);
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

#[async_trait]
impl Embedder for LocalModel {
    fn id(&self) -> &str {
        &self.shared.id
    }

    fn dimensions(&self) -> usize {
        self.shared.description.dimensions()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(&self.shared.documents, &self.shared.description.prompts.document, texts).await
    }

    async fn embed_queries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(&self.shared.queries, &self.shared.description.prompts.query, texts).await
    }

    fn reads(&self, text: &str) -> bool {
        // Where the model cannot be loaded there is no vector either.
        self.shared.loaded().map_or(true, |loaded| loaded.reads(&self.shared.prepared("", text)))
    }
}

impl Loaded {
    /// Whether most of the text is made of pieces that the tokenizer knows.
    fn reads(&self, text: &str) -> bool {
        let unknown = ["[UNK]", "<unk>"].into_iter().find_map(|name| self.tokenizer.token_to_id(name));
        let (Some(unknown), Ok(encoding)) = (unknown, self.tokenizer.encode_fast(text, false)) else { return true };
        let ids = encoding.get_ids();
        ids.iter().filter(|id| **id == unknown).count() as f32 <= UNKNOWN_MAX * ids.len() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, Lane, PASS_TOKENS_MAX, groups, oneshot};

    #[test]
    fn runs_hold_every_text_once_in_order_and_stay_bounded() {
        let tokens: Vec<Vec<u32>> = (0..100).map(|n| vec![n; 2 + (n as usize * 37) % 600]).collect();
        let groups: Vec<_> = groups(&tokens).collect();
        assert_eq!(groups.concat(), tokens);
        for group in &groups {
            assert!(group.len() == 1 || group.iter().map(Vec::len).sum::<usize>() <= PASS_TOKENS_MAX);
        }
    }

    #[test]
    fn a_pass_takes_what_waited_longest_and_leaves_out_who_went_away() {
        let lane = Lane::new(1);
        let mut kept = Vec::new();
        for n in 0..30 {
            let (answer, answered) = oneshot::channel();
            lane.lock().push_back(Job { text: n.to_string().repeat(60), answer });
            if n != 1 {
                kept.push(answered);
            }
        }
        let first = lane.take(256);
        assert!(first.len() > 5 && first.len() < 29);
        assert!(first[0].text.starts_with('0') && first[1].text.starts_with('2'));
        assert_eq!(first.len() + lane.lock().len(), 29);
        lane.lock().push_front(Job { text: "x".repeat(100_000), answer: oneshot::channel().0 });
        assert!(!lane.take(8192).is_empty());
    }
}
