//! The arithmetic of the local model: tokens in, mean-pooled unit vectors out. Synchronous; the caller bounds a batch.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use serde::Deserialize;
use tokenizers::{Tokenizer, TruncationParams};

use super::{TOKENS_MAX, files};
use crate::EmbedError;

/// Largest header of a weights file that is believed, in bytes; the model's own has 11 thousand.
const HEADER_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(super) struct Bert {
    model: BertModel,
    tokenizer: Tokenizer,
}

/// One entry of a safetensors header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Bert {
    pub(super) fn load(dir: &Path) -> Result<Self, EmbedError> {
        let unusable = |file: &str, problem: String| EmbedError::Unusable { path: dir.join(file), problem };
        let config = files::read(&dir.join(files::CONFIG))?;
        let config: Config =
            serde_json::from_slice(&config).map_err(|error| unusable(files::CONFIG, error.to_string()))?;

        let tokenizer = files::read(&dir.join(files::TOKENIZER))?;
        let mut tokenizer =
            Tokenizer::from_bytes(tokenizer).map_err(|error| unusable(files::TOKENIZER, error.to_string()))?;
        // The file says 128 tokens, padded: what the model was trained with. It reads 256, and padding is ours.
        let window = TruncationParams { max_length: TOKENS_MAX, ..TruncationParams::default() };
        tokenizer
            .with_truncation(Some(window))
            .map_err(|error| unusable(files::TOKENIZER, error.to_string()))?
            .with_padding(None);

        let weights = read_weights(&dir.join(files::WEIGHTS))?;
        let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let model = BertModel::load(weights, &config).map_err(|error| unusable(files::WEIGHTS, error.to_string()))?;
        Ok(Self { model, tokenizer })
    }

    /// Token ids of each text, each at most [`TOKENS_MAX`] long, begin and end marks included.
    pub(super) fn tokenise(&self, texts: &[String]) -> Result<Vec<Vec<u32>>, String> {
        let ids = |text: &String| {
            let encoding = self.tokenizer.encode_fast(text.as_str(), true).map_err(|error| error.to_string())?;
            Ok(encoding.get_ids().to_vec())
        };
        texts.iter().map(ids).collect()
    }

    /// One unit vector for each list of tokens.
    pub(super) fn forward(&self, tokens: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, String> {
        self.pooled(tokens).and_then(|vectors| vectors.to_vec2()).map_err(|error| error.to_string())
    }

    fn pooled(&self, tokens: &[Vec<u32>]) -> candle_core::Result<Tensor> {
        let rows = tokens.len();
        let width = tokens.iter().map(Vec::len).max().unwrap_or(0);
        let mut ids = vec![0_u32; rows * width];
        let mut mask = vec![0_f32; rows * width];
        for (row, tokens) in tokens.iter().enumerate() {
            ids[row * width..][..tokens.len()].copy_from_slice(tokens);
            mask[row * width..][..tokens.len()].fill(1.0);
        }
        let ids = Tensor::from_vec(ids, (rows, width), &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, (rows, width), &Device::Cpu)?;
        let hidden = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        let weight = mask.unsqueeze(2)?;
        let mean = hidden.broadcast_mul(&weight)?.sum(1)?.broadcast_div(&mask.sum_keepdim(1)?)?;
        mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)
    }
}

/// Reads the tensors one by one, so that the file is never in memory a second time as a whole.
/// Format: 8 bytes of header length, a JSON header, then the data (<https://huggingface.co/docs/safetensors>).
fn read_weights(path: &Path) -> Result<HashMap<String, Tensor>, EmbedError> {
    let io = |source: io::Error| EmbedError::Io { action: "read", path: path.to_owned(), source };
    let unusable = |problem: String| EmbedError::Unusable { path: path.to_owned(), problem };
    let mut file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX || length + 8 > size {
        return Err(unusable(format!("its header claims {length} bytes")));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(io)?;
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|error| unusable(error.to_string()))?;

    let mut tensors = HashMap::new();
    for (name, entry) in header {
        if name == "__metadata__" {
            continue;
        }
        let entry: Entry = serde_json::from_value(entry).map_err(|error| unusable(format!("{name}: {error}")))?;
        let dtype = match entry.dtype.as_str() {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            _ => continue, // `position_ids`, which the model derives by itself
        };
        let (from, to) = entry.data_offsets;
        let bytes = to.checked_sub(from).filter(|_| to <= size - length - 8);
        let Some(bytes) = bytes else { return Err(unusable(format!("{name} lies outside the file"))) };
        let mut data = vec![0; bytes as usize];
        file.seek(SeekFrom::Start(8 + length + from)).map_err(io)?;
        file.read_exact(&mut data).map_err(io)?;
        let tensor = Tensor::from_raw_buffer(&data, dtype, &entry.shape, &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(DType::F32))
            .map_err(|error| unusable(format!("{name}: {error}")))?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}
