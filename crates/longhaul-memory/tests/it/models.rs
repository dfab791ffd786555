//! Models by path: vectors that were computed elsewhere, refusals by name, and files that break at any moment.
//!
//! The models, the texts and the vectors come from `tests/models/reference.py`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use longhaul_memory::{
    EmbedError, Embedder, LocalModel, Mode,
    embedding::{Cached, Prompts},
};
use tempfile::TempDir;

use crate::place::{Place, model, model_dir};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
}

fn texts() -> Vec<String> {
    let texts = fs::read_to_string(here("texts.txt")).unwrap();
    texts.strip_suffix('\n').unwrap().split('\n').map(str::to_owned).collect()
}

fn vectors(file: &str, dimensions: usize) -> Vec<Vec<f32>> {
    let bytes = fs::read(here(file)).unwrap();
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    values.chunks(dimensions).map(<[f32]>::to_vec).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn same(found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(cosine(found, expected) > 0.99999, "{what}, text {at}: {}", cosine(found, expected));
    }
}

/// A copy of one of the small models, to be changed.
fn copy(name: &str) -> TempDir {
    fn copy_all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, target) = {
                let entry = entry.unwrap();
                (entry.path(), to.join(entry.file_name()))
            };
            if path.is_dir() { copy_all(&path, &target) } else { fs::copy(path, target).map(drop).unwrap() }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy_all(&here(name), folder.path());
    folder
}

/// Replaces a text in a file of the folder.
fn change(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[tokio::test]
async fn the_default_model_gives_the_vectors_of_an_independent_computation() {
    let found = model().embed(&texts()).await.unwrap();
    same(&found, &vectors("minilm.f32", 384), "all-MiniLM-L6-v2");
}

#[tokio::test]
async fn any_bert_or_roberta_folder_gives_the_vectors_of_an_independent_computation() {
    for (name, dimensions, id) in [("bert", 9, "bert-"), ("xlm-roberta", 24, "roberta-"), ("roberta", 64, "roberta-")] {
        let model = LocalModel::open(&here(name)).unwrap();
        assert_eq!(model.dimensions(), dimensions, "{name}");
        assert!(model.id().starts_with(id), "{}", model.id());
        let expected = vectors(&format!("{name}/expected.f32"), dimensions);
        let (documents, queries) = expected.split_at(texts().len());
        same(&model.embed(&texts()).await.unwrap(), documents, name);
        // Only one of them puts other words before a query.
        let queries = if queries.is_empty() { documents } else { queries };
        same(&model.embed_queries(&texts()).await.unwrap(), queries, name);
        for (text, expected) in texts().into_iter().zip(documents) {
            same(&model.embed(&[text]).await.unwrap(), std::slice::from_ref(expected), name);
        }
    }
}

#[test]
fn what_decides_the_vectors_decides_the_name() {
    let original = LocalModel::open(&here("xlm-roberta")).unwrap().id().to_owned();
    let id = |folder: &TempDir| LocalModel::open(folder.path()).unwrap().id().to_owned();
    assert_eq!(id(&copy("xlm-roberta")), original);
    for (file, from, to) in [
        ("sentence_bert_config.json", "30", "29"),
        ("config_sentence_transformers.json", "passage: ", "text: "),
        ("tokenizer.json", "-5.0", "-5.5"),
        ("config.json", "1e-05", "1e-06"),
    ] {
        let folder = copy("xlm-roberta");
        change(&folder, file, from, to);
        assert_ne!(id(&folder), original, "{file}");
    }
    let prompts = Prompts { query: "q: ".to_owned(), document: String::new() };
    assert_ne!(LocalModel::open_with(&here("xlm-roberta"), Some(prompts)).unwrap().id(), original);
}

#[test]
fn what_cannot_be_run_is_refused_by_its_name() {
    for (file, from, to, named) in [
        ("config.json", r#""bert""#, r#""mpnet""#, "mpnet"),
        ("config.json", r#""gelu""#, r#""swish""#, "swish"),
        ("config.json", "absolute", "relative_key", "relative_key"),
        ("config.json", r#""is_decoder": false"#, r#""is_decoder": true"#, "decoder"),
        ("config.json", r#""num_attention_heads": 2"#, r#""num_attention_heads": 3"#, "3 heads"),
        ("config.json", r#""hidden_size": 20"#, r#""hidden_size": 0"#, "size is zero"),
        ("config.json", "{", "", "config.json"),
        ("modules.json", "models.Dense", "models.LSTM", "LSTM"),
        ("modules.json", "1_Pooling", "../outside", "out of the folder"),
        ("modules.json", "models.Pooling", "models.Normalize", "Pooling"),
        ("1_Pooling/config.json", "true", "false", "pooling"),
        ("1_Pooling/config.json", "{", r#"{"include_prompt": false, "#, "prompt"),
        ("1_Pooling/config.json", "{", r#"{"pooling_mode": "attention", "#, "attention"),
        ("2_Dense/config.json", "Tanh", "Softsign", "Softsign"),
        ("2_Dense/config.json", r#""in_features": 20"#, r#""in_features": 21"#, "21"),
    ] {
        let folder = copy("bert");
        change(&folder, file, from, to);
        let error = LocalModel::open(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(named), "{file} with {to}: {error}");
        assert!(error.to_string().contains("point to another folder"), "{error}");
    }
    for other in ["pytorch_model.bin", "model.safetensors.index.json"] {
        let folder = copy("bert");
        fs::rename(folder.path().join("model.safetensors"), folder.path().join(other)).unwrap();
        let error = LocalModel::open(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains("model.safetensors"), "{error}");
    }
}

#[tokio::test]
async fn weights_that_do_not_fit_their_description_are_an_error() {
    for (file, from, to, named) in [
        ("config.json", r#""intermediate_size": 36"#, r#""intermediate_size": 37"#, "intermediate"),
        ("config.json", r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 3"#, "layer.2"),
        ("config.json", r#""vocab_size": "#, r#""vocab_size": 1"#, "word_embeddings"),
        ("tokenizer.json", "{", "", "tokenizer.json"),
    ] {
        let folder = copy("bert");
        change(&folder, file, from, to);
        let error = LocalModel::load(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(named), "{file} with {to}: {error}");
    }
    let folder = copy("bert");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let mut cut = 0;
    while cut < whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(LocalModel::load(folder.path()).is_err(), "{cut} bytes of the weights were loaded");
        cut += 997;
    }
    let mut spoiled = whole.clone();
    let end = spoiled.len();
    spoiled[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, spoiled).unwrap();
    let error = LocalModel::load(folder.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("not a finite number"), "{error}");
}

#[tokio::test]
async fn a_model_that_breaks_while_it_is_used_says_so_and_works_again_once_mended() {
    let folder = copy("bert");
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let model = LocalModel::open(folder.path()).unwrap();
    let before = model.embed(&texts()).await.unwrap();

    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for _ in 0..2 {
        let error = model.embed(&texts()).await.unwrap_err();
        assert!(matches!(&error, EmbedError::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains("model.safetensors"), "{error}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(model.embed(&texts()).await.unwrap(), before);

    // Another model in its place is not taken for the one that was opened.
    let mut other = whole.clone();
    let end = other.len();
    other[end - 1024..end - 1020].copy_from_slice(&0.25_f32.to_le_bytes());
    fs::write(&path, &other).unwrap();
    // A file of the same size that was written within the same tick of the file system's clock cannot be told apart.
    let later = fs::metadata(&path).unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let first = model.embed(&texts()).await.unwrap_err();
    let second = model.embed(&texts()).await.unwrap_err();
    assert!(first.to_string().contains("changed") && second.to_string().contains("another model"), "{first}; {second}");
}

#[tokio::test]
async fn without_its_files_a_search_goes_by_words_and_says_why() {
    let folder = copy("bert");
    let place = Place::new(Some(Arc::new(LocalModel::open(folder.path()).unwrap()))).await;
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let id = place.memory.add(&place.scope, crate::place::note("the login page keeps the session")).await.unwrap();
    assert!(place.memory.index_pending().await.is_err());
    let recall = place.search("session", 3).await;
    assert_eq!(recall.hits[0].item.id, id);
    let Mode::Keyword { reason } = recall.mode else { panic!("the query was embedded without a model") };
    assert!(reason.contains("model.safetensors is missing"), "{reason}");
}

#[tokio::test]
async fn many_queries_at_once_are_answered_each_with_its_own_vector() {
    let model = LocalModel::open(&here("bert")).unwrap();
    let expected = model.embed(&texts()).await.unwrap();
    let ask = |at: usize| {
        let (model, text) = (model.clone(), texts()[at % expected.len()].clone());
        tokio::spawn(async move { (at, model.embed_queries(&[text]).await.unwrap()) })
    };
    let asked: Vec<_> = (0..200).map(ask).collect();
    // Requests that are given up do not take their neighbours with them.
    for given_up in asked.iter().skip(3).step_by(7) {
        given_up.abort();
    }
    let mut answered = 0;
    for request in asked {
        if let Ok((at, vectors)) = request.await {
            assert!(cosine(&vectors[0], &expected[at % expected.len()]) > 0.99999);
            answered += 1;
        }
    }
    assert!(answered >= 170, "{answered}");
}

/// Counts what it is asked for.
#[derive(Default)]
struct Counting {
    asked: Mutex<Vec<String>>,
    failures: AtomicUsize,
}

#[async_trait]
impl Embedder for Counting {
    fn id(&self) -> &str {
        "counting"
    }

    fn dimensions(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.fetch_sub(1, Ordering::Relaxed);
            return Err(EmbedError::Failed { id: "counting".to_owned(), problem: "as told".to_owned() });
        }
        self.asked.lock().unwrap().extend_from_slice(texts);
        Ok(texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect())
    }
}

#[tokio::test]
async fn a_cache_asks_once_within_its_bytes_and_remembers_no_failure() {
    let inner = Arc::new(Counting::default());
    let cached = Cached::new(inner.clone(), 1_000);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    inner.failures.store(1, Ordering::Relaxed);
    assert!(cached.embed(&texts(&["a"])).await.is_err());
    assert_eq!(cached.embed(&texts(&["a", "bb"])).await.unwrap(), [[1.0, 1.0], [2.0, 1.0]]);
    assert_eq!(cached.embed(&texts(&["bb", "ccc", "a"])).await.unwrap(), [[2.0, 1.0], [3.0, 1.0], [1.0, 1.0]]);
    assert_eq!(*inner.asked.lock().unwrap(), ["a", "bb", "ccc"]);
    // A query may have another vector than the same text as a document.
    cached.embed_queries(&texts(&["a"])).await.unwrap();
    assert_eq!(inner.asked.lock().unwrap().len(), 4);

    for n in 0..1_000 {
        cached.embed(&[n.to_string()]).await.unwrap();
        assert!(cached.bytes() <= 1_000);
    }
    let before = inner.asked.lock().unwrap().len();
    cached.embed(&texts(&["999", "a"])).await.unwrap();
    assert_eq!(inner.asked.lock().unwrap()[before..], ["a"], "what was used last is kept");
}

#[test]
fn the_default_model_takes_the_memory_that_the_documents_say() {
    let megabytes = model().bytes().unwrap() / 1_000_000;
    assert!((40..50).contains(&megabytes), "{megabytes} MB");
    assert!(model_dir().join("model.safetensors").metadata().unwrap().len() > 90_000_000);
}
