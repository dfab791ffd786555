//! The forward pass of BERT and XLM-RoBERTa on the CPU: tokens in, one vector for each text out. Synchronous, on the
//! calling thread; the caller bounds a batch.
//!
//! The rows of all texts stand below each other for everything that looks at one token at a time, and only attention
//! goes text by text, so nothing is padded and a text has the same vector alone and among others.
//! After Devlin et al., "BERT" (<https://arxiv.org/abs/1810.04805>), and Conneau et al., "Unsupervised Cross-lingual
//! Representation Learning at Scale" (<https://arxiv.org/abs/1911.02116>). Invariant: nothing is read from the weights
//! but rows of words once this is loaded.

mod attention;
mod kernels;
mod matrix;

use super::{
    config::{Bend, Dense, Pooling, Shape},
    weights::{Table, Weights},
};
use crate::EmbedError;
use attention::Attention;
use kernels::{Activation, Level, add_and_normalise};
use matrix::{Packed, Rows, Scratch, Target};

/// Rows that pass through the inner layer at a time: what bounds its memory for long texts.
const INNER_ROWS: usize = 240;

/// A loaded model.
pub(super) struct Encoder {
    level: Level,
    shape: Shape,
    words: Table,
    positions: Vec<f32>,
    /// Row of the first token type, which is every token's here.
    kind: Vec<f32>,
    embedded: Norm,
    layers: Vec<Layer>,
    dense: Vec<Packed>,
}

struct Layer {
    /// Query, key and value side by side; the query already divided by the root of a head's width.
    attention: Packed,
    attended: Packed,
    attention_norm: Norm,
    inner: Packed,
    outer: Packed,
    outer_norm: Norm,
}

struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    fn load(weights: &Weights, name: &str, width: usize, epsilon: f32) -> Result<Self, EmbedError> {
        // Models converted from TensorFlow use the older names.
        let read = |new: &str, old: &str| {
            let (new, old) = (format!("{name}.{new}"), format!("{name}.{old}"));
            weights.read(if weights.has(&old) { &old } else { &new }, &[width])
        };
        Ok(Self { scale: read("weight", "gamma")?, shift: read("bias", "beta")?, epsilon })
    }

    fn apply(&self, level: Level, row: &mut [f32], residual: &[f32]) {
        add_and_normalise(level, row, residual, &self.scale, &self.shift, self.epsilon);
    }
}

fn activation(bend: Bend) -> Activation {
    match bend {
        Bend::None => Activation::None,
        Bend::Gelu => Activation::Gelu,
        Bend::GeluTanh => Activation::GeluTanh,
        Bend::Relu => Activation::Relu,
        Bend::Tanh => Activation::Tanh,
    }
}

impl Encoder {
    /// Reads and packs the weights. `dense` holds the open files of the layers after the pooling.
    pub(super) fn load(shape: Shape, weights: &Weights, dense: &[(Dense, Weights)]) -> Result<Self, EmbedError> {
        let level = Level::best();
        let prefix = weights.prefix()?;
        let at = |name: &str| format!("{prefix}embeddings.{name}");
        let mut kinds = weights.read(&at("token_type_embeddings.weight"), &[shape.kinds, shape.width])?;
        kinds.truncate(shape.width);
        let layers = (0..shape.layers)
            .map(|number| Layer::load(level, &shape, weights, &format!("{prefix}encoder.layer.{number}")));
        let dense = dense.iter().map(|(dense, weights)| {
            let matrix = weights.read("linear.weight", &[dense.outputs, dense.inputs])?;
            let bias =
                if dense.bias { weights.read("linear.bias", &[dense.outputs])? } else { vec![0.0; dense.outputs] };
            Ok(Packed::linear(level, &matrix, &bias, 1.0, activation(dense.bend)))
        });
        Ok(Self {
            level,
            words: weights.table(&at("word_embeddings.weight"), shape.words, shape.width)?,
            positions: weights.read(&at("position_embeddings.weight"), &[shape.positions, shape.width])?,
            kind: kinds,
            embedded: Norm::load(weights, &at("LayerNorm"), shape.width, shape.epsilon)?,
            layers: layers.collect::<Result<_, _>>()?,
            dense: dense.collect::<Result<_, EmbedError>>()?,
            shape,
        })
    }

    /// Bytes of memory the weights take.
    pub(super) fn bytes(&self) -> usize {
        let layer = |layer: &Layer| {
            layer.attention.bytes() + layer.attended.bytes() + layer.inner.bytes() + layer.outer.bytes()
        };
        let packed: usize =
            self.layers.iter().map(layer).sum::<usize>() + self.dense.iter().map(Packed::bytes).sum::<usize>();
        packed + size_of_val(self.positions.as_slice())
    }

    /// One vector of length one for each text, in order. Each text has a token, and no more than the model's window.
    pub(super) fn forward(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut hidden = self.embed(texts)?;
        let mut scratch = Scratch::default();
        let mut attention = Attention::new(self.level, self.shape.heads, self.shape.width);
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        for layer in &self.layers {
            layer.forward(self.level, &lengths, &mut hidden, &mut attention, &mut scratch);
        }
        let mut first = 0;
        let pooled = texts.iter().map(|text| {
            let rows = &hidden[first * self.shape.width..(first + text.len()) * self.shape.width];
            first += text.len();
            self.dense.iter().fold(pool(&self.shape.pooling, rows, self.shape.width), |vector, dense| {
                let mut output = vec![0.0; dense.columns];
                let rows = Rows { values: &vector, stride: vector.len(), count: 1 };
                dense.multiply(rows, Target { values: &mut output, stride: dense.columns }, &mut scratch);
                output
            })
        });
        Ok(pooled.map(unit).collect())
    }

    /// Word, position and type of each token, added and normalised.
    fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<f32>, EmbedError> {
        self.words.check()?;
        let width = self.shape.width;
        let mut hidden = Vec::with_capacity(texts.iter().map(Vec::len).sum::<usize>() * width);
        let (mut bytes, mut word) = (Vec::new(), Vec::with_capacity(width));
        for text in texts {
            let mut position = self.shape.position_first;
            for token in text {
                // As in RoBERTa, a mark for padding inside a text stands at the place of padding and is not counted.
                let at = if self.shape.padding == Some(*token) { position.min(*token as usize) } else { position };
                position += usize::from(self.shape.padding != Some(*token));
                self.words.row((*token as usize).min(self.words.rows - 1), &mut bytes, &mut word)?;
                for (value, kind) in word.iter_mut().zip(&self.kind) {
                    *value += kind;
                }
                let at = at.min(self.shape.positions - 1) * width;
                self.embedded.apply(self.level, &mut word, &self.positions[at..at + width]);
                hidden.extend_from_slice(&word);
            }
        }
        Ok(hidden)
    }
}

impl Layer {
    fn load(level: Level, shape: &Shape, weights: &Weights, name: &str) -> Result<Self, EmbedError> {
        let (width, inner) = (shape.width, shape.inner);
        let linear = |part: &str, outputs: usize, inputs: usize, bend: Activation| {
            let matrix = weights.read(&format!("{name}.{part}.weight"), &[outputs, inputs])?;
            let bias = weights.read(&format!("{name}.{part}.bias"), &[outputs])?;
            Ok(Packed::linear(level, &matrix, &bias, 1.0, bend))
        };
        let norm = |part: &str| Norm::load(weights, &format!("{name}.{part}.LayerNorm"), width, shape.epsilon);
        let head_width = (width / shape.heads) as f32;
        let (mut matrix, mut bias) = (Vec::with_capacity(3 * width * width), Vec::with_capacity(3 * width));
        for (part, factor) in [("query", 1.0 / head_width.sqrt()), ("key", 1.0), ("value", 1.0)] {
            let part = format!("{name}.attention.self.{part}");
            matrix.extend(weights.read(&format!("{part}.weight"), &[width, width])?.iter().map(|value| value * factor));
            bias.extend(weights.read(&format!("{part}.bias"), &[width])?.iter().map(|value| value * factor));
        }
        Ok(Self {
            attention: Packed::linear(level, &matrix, &bias, 1.0, Activation::None),
            attended: linear("attention.output.dense", width, width, Activation::None)?,
            attention_norm: norm("attention.output")?,
            inner: linear("intermediate.dense", inner, width, activation(shape.bend))?,
            outer: linear("output.dense", width, inner, Activation::None)?,
            outer_norm: norm("output")?,
        })
    }

    fn forward(
        &self,
        level: Level,
        lengths: &[usize],
        hidden: &mut [f32],
        attention: &mut Attention,
        scratch: &mut Scratch,
    ) {
        let width = self.outer.columns;
        let attended = attention.apply(&self.attention, lengths, hidden, scratch);
        let mut output = vec![0.0; INNER_ROWS * width];
        let mut inner = vec![0.0; INNER_ROWS.min(hidden.len() / width) * self.inner.columns];
        let (hidden_chunks, attended_chunks) =
            (hidden.chunks_mut(INNER_ROWS * width), attended.chunks(INNER_ROWS * width));
        for (hidden, attended) in hidden_chunks.zip(attended_chunks) {
            let count = hidden.len() / width;
            let left = Rows { values: attended, stride: width, count };
            self.attended.multiply(left, Target { values: &mut output, stride: width }, scratch);
            add_rows(level, &self.attention_norm, hidden, &output);
            let left = Rows { values: hidden, stride: width, count };
            self.inner.multiply(left, Target { values: &mut inner, stride: self.inner.columns }, scratch);
            let left = Rows { values: &inner, stride: self.inner.columns, count };
            self.outer.multiply(left, Target { values: &mut output, stride: width }, scratch);
            add_rows(level, &self.outer_norm, hidden, &output);
        }
    }
}

/// Each row of `hidden` plus its row of `added`, normalised.
fn add_rows(level: Level, norm: &Norm, hidden: &mut [f32], added: &[f32]) {
    let width = norm.scale.len();
    for (row, added) in hidden.chunks_exact_mut(width).zip(added.chunks_exact(width)) {
        norm.apply(level, row, added);
    }
}

/// The vector brought to length one; one without a direction stays as it is, and is refused by who asked for it.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
    vector
}

/// One vector out of a text's rows: each kind of pooling in turn, side by side.
fn pool(kinds: &[Pooling], rows: &[f32], width: usize) -> Vec<f32> {
    let count = rows.len() / width;
    let weighted = |weight: &dyn Fn(usize) -> f32, divisor: f32| {
        let mut sums = vec![0.0; width];
        for (at, row) in rows.chunks_exact(width).enumerate() {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value * weight(at);
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= divisor);
        sums
    };
    let pooled = kinds.iter().map(|kind| match kind {
        Pooling::First => rows[..width].to_vec(),
        Pooling::Last => rows[rows.len() - width..].to_vec(),
        Pooling::Mean => weighted(&|_| 1.0, count as f32),
        Pooling::MeanOfRoot => weighted(&|_| 1.0, (count as f32).sqrt()),
        Pooling::Weighted => weighted(&|at| (at + 1) as f32, (count * (count + 1)) as f32 / 2.0),
        Pooling::Greatest => rows[width..].chunks_exact(width).fold(rows[..width].to_vec(), |mut most, row| {
            most.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(*value));
            most
        }),
    });
    pooled.flatten().collect()
}
