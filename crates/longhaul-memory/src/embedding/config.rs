//! What the files beside the weights say about a model: its shape, its window, how rows become one vector, and what is
//! put before texts. Nothing here is computed with.
//!
//! The layout is that of sentence-transformers (<https://www.sbert.net/docs/package_reference/sentence_transformer/models.html>);
//! a folder with only a configuration, a tokenizer and weights is read as mean pooling. Invariant: what we do not
//! implement is refused by its name, never ignored.

use std::path::{Path, PathBuf};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::files;
use crate::EmbedError;

/// Largest window believed, in tokens: that of the longest models of this kind.
const WINDOW_MAX: usize = 8192;
/// Window of a folder that states none.
const WINDOW_DEFAULT: usize = 512;

/// Sizes and kinds of the layers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) width: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) inner: usize,
    pub(super) bend: Bend,
    pub(super) epsilon: f32,
    pub(super) words: usize,
    pub(super) positions: usize,
    pub(super) kinds: usize,
    /// Row of the first token's position: 0 for BERT, after that of padding for RoBERTa.
    pub(super) position_first: usize,
    /// RoBERTa's mark for padding, which is not counted.
    pub(super) padding: Option<u32>,
    /// At least one.
    pub(super) pooling: Vec<Pooling>,
}

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bend {
    None,
    Gelu,
    GeluTanh,
    Relu,
    Tanh,
}

/// How a text's rows become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    First,
    Last,
    Mean,
    /// The sum divided by the root of the count.
    MeanOfRoot,
    /// Later tokens weigh more.
    Weighted,
    Greatest,
}

/// A layer after the pooling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dense {
    pub(super) dir: PathBuf,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) bias: bool,
    pub(super) bend: Bend,
}

/// What is put before texts: some models want to be told whether they read a question or a passage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompts {
    /// Before a query.
    pub query: String,
    /// Before what is stored.
    pub document: String,
}

/// All that a folder says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    pub(super) shape: Shape,
    pub(super) dense: Vec<Dense>,
    pub(super) prompts: Prompts,
    /// Tokens of one text that the model reads.
    pub(super) window: usize,
    /// Whether texts are lower-cased before the tokenizer sees them.
    pub(super) lower_case: bool,
}

impl Description {
    /// Length of the vectors.
    pub(super) fn dimensions(&self) -> usize {
        let pooled = self.shape.width * self.shape.pooling.len();
        self.dense.last().map_or(pooled, |dense| dense.outputs)
    }

    /// A short name of its kind.
    pub(super) fn family(&self) -> &'static str {
        if self.shape.padding.is_some() { "roberta" } else { "bert" }
    }

    /// All that decides the vectors beside weights and tokenizer, as text that is the same at every start. A query's
    /// prompt is not in it: stored vectors do not depend on it.
    pub(super) fn stated(&self) -> String {
        let Shape { heads, bend, epsilon, position_first, pooling, .. } = &self.shape;
        let dense: Vec<_> = self.dense.iter().map(|dense| (dense.inputs, dense.outputs, dense.bend)).collect();
        let (window, lower, document) = (self.window, self.lower_case, &self.prompts.document);
        format!("{heads} {bend:?} {epsilon:e} {position_first} {pooling:?} {dense:?} {window} {lower} {document}")
    }

    /// Reads what the folder says.
    pub(super) fn read(dir: &Path) -> Result<Self, EmbedError> {
        files::require(dir)?;
        let mut shape = shape(dir)?;
        let mut dense = Vec::new();
        if let Some(modules) = optional::<Vec<Module>>(&dir.join("modules.json"))? {
            shape.pooling.clear();
            for module in modules {
                module.read(dir, &mut shape, &mut dense)?;
            }
            if shape.pooling.is_empty() {
                let problem = "it names no Pooling module, so a text would have many vectors".to_owned();
                return Err(unusable(&dir.join("modules.json"), problem));
            }
        } else if let Some(pooling) = optional(&dir.join("1_Pooling/config.json"))? {
            shape.pooling = read_pooling(&dir.join("1_Pooling/config.json"), &pooling, shape.width)?;
        }
        let mut inputs = shape.width * shape.pooling.len();
        for layer in &dense {
            if layer.inputs != inputs {
                let problem = format!("it takes {} values and is given {inputs}", layer.inputs);
                return Err(unusable(&layer.dir.join(files::CONFIG), problem));
            }
            inputs = layer.outputs;
        }
        let settings: Settings = optional(&dir.join("sentence_bert_config.json"))?.unwrap_or_default();
        let room = shape.positions - shape.position_first;
        let window = settings.max_seq_length.unwrap_or(WINDOW_DEFAULT).min(room).min(WINDOW_MAX);
        if window < 3 {
            let problem = format!("a window of {window} tokens holds no text between its two marks");
            return Err(unusable(&dir.join("sentence_bert_config.json"), problem));
        }
        let prompts = optional::<Named>(&dir.join("config_sentence_transformers.json"))?.unwrap_or_default().prompts();
        Ok(Self { shape, dense, prompts, window, lower_case: settings.do_lower_case })
    }
}

fn unusable(path: &Path, problem: String) -> EmbedError {
    EmbedError::Unusable { path: path.to_owned(), problem }
}

fn parsed<T: DeserializeOwned>(path: &Path) -> Result<T, EmbedError> {
    serde_json::from_slice(&files::read(path)?).map_err(|error| unusable(path, error.to_string()))
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, EmbedError> {
    if path.exists() { parsed(path).map(Some) } else { Ok(None) }
}

#[derive(Deserialize)]
struct Config {
    model_type: Option<String>,
    #[serde(default)]
    architectures: Option<Vec<String>>,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default)]
    layer_norm_eps: Option<f32>,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    pad_token_id: Option<u32>,
    #[serde(default)]
    is_decoder: Option<bool>,
}

fn shape(dir: &Path) -> Result<Shape, EmbedError> {
    let path = dir.join(files::CONFIG);
    let config: Config = parsed(&path)?;
    let refuse = |what: String| {
        let problem =
            format!("{what}; longhaul runs BERT, RoBERTa and XLM-RoBERTa, other models behind `embedding.url`");
        Err(unusable(&path, problem))
    };
    let named = config.model_type.clone().or_else(|| config.architectures.as_ref()?.first().cloned());
    let named = named.unwrap_or_default();
    let roberta = match named.as_str() {
        "bert" | "BertModel" | "" => false,
        "roberta" | "xlm-roberta" | "camembert" | "RobertaModel" | "XLMRobertaModel" | "CamembertModel" => true,
        other => return refuse(format!("the model is of type {other}")),
    };
    let bend = match config.hidden_act.as_str() {
        "gelu" => Bend::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Bend::GeluTanh,
        "relu" => Bend::Relu,
        other => return refuse(format!("its activation is {other}")),
    };
    match config.position_embedding_type.as_deref() {
        None | Some("absolute") => {}
        Some(other) => return refuse(format!("its positions are {other}")),
    }
    if config.is_decoder == Some(true) {
        return refuse("it is a decoder".to_owned());
    }
    let sides = [
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        config.vocab_size,
        config.max_position_embeddings,
        config.type_vocab_size,
    ];
    // Larger sides than any model of this kind, small enough that no product of two overflows.
    if sides.iter().any(|side| !(1..=1 << 24).contains(side)) || config.num_hidden_layers > 1 << 10 {
        return refuse("a size is zero or beyond any model".to_owned());
    }
    if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
        let (width, heads) = (config.hidden_size, config.num_attention_heads);
        return refuse(format!("{width} values do not divide among {heads} heads"));
    }
    let padding = roberta.then(|| config.pad_token_id.unwrap_or(1));
    let position_first = padding.map_or(0, |padding| padding as usize + 1);
    if position_first >= config.max_position_embeddings {
        return refuse(format!("no position is left after that of padding, {position_first}"));
    }
    Ok(Shape {
        width: config.hidden_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        inner: config.intermediate_size,
        bend,
        epsilon: config.layer_norm_eps.unwrap_or(1e-12),
        words: config.vocab_size,
        positions: config.max_position_embeddings,
        kinds: config.type_vocab_size,
        position_first,
        padding,
        pooling: vec![Pooling::Mean],
    })
}

#[derive(Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Module {
    fn read(&self, dir: &Path, shape: &mut Shape, dense: &mut Vec<Dense>) -> Result<(), EmbedError> {
        let modules = dir.join("modules.json");
        // A module's folder is below the model's own: nothing here may lead elsewhere.
        if Path::new(&self.path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(unusable(&modules, format!("the module path {:?} leads out of the folder", self.path)));
        }
        let config = dir.join(&self.path).join(files::CONFIG);
        match self.kind.rsplit('.').next().unwrap_or_default() {
            "Transformer" if self.path.is_empty() => Ok(()),
            "Transformer" => {
                let problem =
                    format!("its Transformer is in {:?}; point to that folder's parts laid out flat", self.path);
                Err(unusable(&modules, problem))
            }
            // Every vector is brought to length one in any case.
            "Normalize" => Ok(()),
            "Pooling" => {
                shape.pooling = read_pooling(&config, &parsed(&config)?, shape.width)?;
                Ok(())
            }
            "Dense" => {
                let layer: DenseConfig = parsed(&config)?;
                dense.push(layer.read(dir.join(&self.path), &config)?);
                Ok(())
            }
            other => {
                let problem = format!(
                    "its module {other} is not one of Transformer, Pooling, Dense and Normalize, which longhaul runs"
                );
                Err(unusable(&modules, problem))
            }
        }
    }
}

/// The kinds of pooling whose switch is on.
fn read_pooling(path: &Path, config: &Value, width: usize) -> Result<Vec<Pooling>, EmbedError> {
    if config["include_prompt"] == Value::Bool(false) {
        let problem = "it leaves the prompt out of the pooling, which longhaul does not do".to_owned();
        return Err(unusable(path, problem));
    }
    for field in ["word_embedding_dimension", "embedding_dimension"] {
        if config[field].as_u64().is_some_and(|stated| stated != width as u64) {
            return Err(unusable(path, format!("its {field} is {}, and the model has {width}", config[field])));
        }
    }
    const SWITCHES: [(&str, &str, Pooling); 6] = [
        ("pooling_mode_cls_token", "cls", Pooling::First),
        ("pooling_mode_max_tokens", "max", Pooling::Greatest),
        ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::MeanOfRoot),
        ("pooling_mode_weightedmean_tokens", "weightedmean", Pooling::Weighted),
        ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
    ];
    let named: Vec<&str> = match &config["pooling_mode"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_on = |switch: &&(&str, &str, Pooling)| config[switch.0] == Value::Bool(true) || named.contains(&switch.1);
    let kinds: Vec<Pooling> = SWITCHES.iter().filter(is_on).map(|switch| switch.2).collect();
    if let Some(name) = named.iter().find(|name| SWITCHES.iter().all(|switch| switch.1 != **name)) {
        return Err(unusable(path, format!("longhaul does not know the pooling {name:?}")));
    }
    if kinds.is_empty() {
        return Err(unusable(path, "no kind of pooling is switched on".to_owned()));
    }
    Ok(kinds)
}

#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    activation_function: String,
}

fn yes() -> bool {
    true
}

impl DenseConfig {
    fn read(self, dir: PathBuf, path: &Path) -> Result<Dense, EmbedError> {
        let bend = match self.activation_function.rsplit('.').next().unwrap_or_default() {
            "Identity" => Bend::None,
            "Tanh" => Bend::Tanh,
            "GELU" => Bend::Gelu,
            "ReLU" => Bend::Relu,
            other => return Err(unusable(path, format!("longhaul does not know the activation {other}"))),
        };
        if [self.in_features, self.out_features].iter().any(|side| !(1..=1 << 24).contains(side)) {
            return Err(unusable(path, "a size is zero or beyond any model".to_owned()));
        }
        Ok(Dense { dir, inputs: self.in_features, outputs: self.out_features, bias: self.bias, bend })
    }
}

#[derive(Deserialize, Default)]
struct Settings {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    prompts: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

impl Named {
    /// As sentence-transformers' `encode_query` and `encode_document` choose them.
    fn prompts(&self) -> Prompts {
        let default = self.default_prompt_name.as_ref().and_then(|name| self.prompts.get(name));
        let first = |names: &[&str]| {
            let found = names.iter().find_map(|name| self.prompts.get(*name)).or(default);
            found.cloned().unwrap_or_default()
        };
        Prompts { query: first(&["query"]), document: first(&["document", "passage", "corpus"]) }
    }
}
