//! The local model: right vectors, bounded input, and files that are checked.

use std::{fs, path::Path};

use longhaul_memory::{EmbedError, Embedder, LocalModel, embedding};

use crate::place::{model, model_dir};

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn vectors_agree_with_the_reference_implementation() {
    let model = model();
    assert_eq!((model.id(), model.dimensions()), ("all-MiniLM-L6-v2", 384));
    // sentence-transformers gives these cosines for its own example sentences.
    let vectors = model
        .embed(&texts(&["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]))
        .await
        .unwrap();
    for (a, b, expected) in [(0, 1, 0.6660), (0, 2, 0.1046), (1, 2, 0.1411)] {
        let found = dot(&vectors[a], &vectors[b]);
        assert!((found - expected).abs() < 2e-4, "cosine of {a} and {b} is {found}, not {expected}");
    }
}

#[tokio::test]
async fn a_text_has_the_same_vector_alone_and_among_others() {
    let model = model();
    let long = "The session cookie is renewed at every request. ".repeat(40);
    let batch = texts(&["login", &long, "The refresh token of a JWT is rotated", "会话", ""]);
    let together = model.embed(&batch).await.unwrap();
    for (text, together) in batch.iter().zip(&together) {
        let alone = model.embed(std::slice::from_ref(text)).await.unwrap();
        assert!(dot(&alone[0], together) > 0.9999, "{text:.20} differs");
        assert!((dot(together, together) - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn a_text_of_ten_megabytes_is_cut_and_not_refused() {
    let head = "rotate the refresh token ".repeat(200);
    let long = format!("{head}{}", "x ".repeat(5_000_000));
    let vectors = model().embed(&[long, head]).await.unwrap();
    assert!(dot(&vectors[0], &vectors[1]) > 0.9999);
}

#[test]
fn a_folder_without_a_model_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(embedding::locate(None, folder.path()), Err(EmbedError::NotInstalled { .. })));
    fs::write(folder.path().join("model.safetensors"), "x").unwrap();
    let error = embedding::locate(Some(folder.path()), Path::new("/nowhere")).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json is missing"), "{error}");
    assert!(LocalModel::open(folder.path()).is_err());
}

#[test]
fn weights_that_are_not_weights_are_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "config.json"] {
        fs::copy(model_dir().join(name), folder.path().join(name)).unwrap();
    }
    let huge = u64::MAX.to_le_bytes();
    let outside = br#"{"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#;
    let outside = [&(outside.len() as u64).to_le_bytes()[..], outside].concat();
    for wrong in [&b""[..], b"short", &huge, b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0[]", &outside] {
        fs::write(folder.path().join("model.safetensors"), wrong).unwrap();
        assert!(LocalModel::load(folder.path()).is_err(), "{wrong:?} was loaded");
    }
}

#[tokio::test]
async fn the_same_model_in_another_folder_has_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    copy_model(folder.path());
    let dir = embedding::locate(Some(folder.path()), Path::new("/nowhere")).unwrap();
    assert_eq!(LocalModel::open(&dir).unwrap().id(), "all-MiniLM-L6-v2");
    let weights = dir.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    bytes.truncate(bytes.len() - 4);
    fs::write(&weights, bytes).unwrap();
    assert!(LocalModel::open(&dir).unwrap().id().starts_with("bert-"));
}

#[test]
fn a_damaged_model_is_noticed_and_an_untouched_one_is_not_read_again() {
    let models = tempfile::tempdir().unwrap();
    let dir = models.path().join("all-MiniLM-L6-v2");
    fs::create_dir(&dir).unwrap();
    copy_model(&dir);
    assert_eq!(embedding::locate(None, models.path()).unwrap(), dir);

    let weights = dir.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let changed = fs::metadata(&weights).unwrap().modified().unwrap();
    fs::write(&weights, &bytes).unwrap();
    let error = embedding::locate(None, models.path()).unwrap_err();
    assert!(matches!(&error, EmbedError::Corrupt { path, .. } if *path == weights), "{error:?}");
    assert!(error.to_string().contains("run `longhaul setup`"));

    // With size and time as they were checked, the digest is not computed again: that is what makes a start cheap.
    fs::File::options().write(true).open(&weights).unwrap().set_modified(changed).unwrap();
    assert!(embedding::locate(None, models.path()).is_ok());
}

#[test]
fn an_installation_that_is_there_is_left_alone_by_many_at_once() {
    let models = model_dir().parent().unwrap().to_owned();
    let before = fs::metadata(model_dir().join("model.safetensors")).unwrap().modified().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(embedding::install(&models, &mut |_| ()).unwrap(), model_dir()));
        }
    });
    assert_eq!(fs::metadata(model_dir().join("model.safetensors")).unwrap().modified().unwrap(), before);
}

fn copy_model(to: &Path) {
    for name in ["model.safetensors", "tokenizer.json", "config.json"] {
        fs::copy(model_dir().join(name), to.join(name)).expect("the model can be copied");
    }
}
