//! The embedding port: texts in, unit vectors out. It owns the check of what an embedder answers.
//!
//! Invariant: a vector that passed [`unit_vectors`] has the stated dimension, only finite values, and length one.

use async_trait::async_trait;

use crate::EmbedError;

/// Turns texts into vectors whose dot product says how close their meanings are.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Names the model and its version. Vectors are only ever compared with vectors of the same id.
    fn id(&self) -> &str;

    /// Length of every vector.
    fn dimensions(&self) -> usize;

    /// One vector for each text, in order. Texts longer than the model's window are cut, never refused.
    ///
    /// # Errors
    /// When the model is missing or fails. No partial answer.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The same for texts that are searched for: some models read a query differently, and a query does not wait for
    /// what is embedded in the background.
    ///
    /// # Errors
    /// As [`Embedder::embed`].
    async fn embed_queries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed(texts).await
    }

    /// Whether the model has words for this text. One that was trained on other scripts still gives a vector, which
    /// says little; a query that it cannot read is searched for by its words. Asked after the text was embedded.
    fn reads(&self, text: &str) -> bool {
        let _ = text;
        true
    }
}

/// Embeds texts that are kept, and checks and normalises what came back.
pub(crate) async fn unit_vectors(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
    checked(embedder, texts.len(), embedder.embed(texts).await?)
}

/// Embeds a query, and checks and normalises what came back.
pub(crate) async fn unit_query(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>, EmbedError> {
    let vectors = embedder.embed_queries(&[text.to_owned()]).await?;
    let mut vectors = checked(embedder, 1, vectors)?;
    // `checked` made sure that there is one.
    Ok(vectors.swap_remove(0))
}

fn checked(embedder: &dyn Embedder, texts: usize, vectors: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, EmbedError> {
    if vectors.len() != texts {
        return Err(EmbedError::Failed {
            id: embedder.id().to_owned(),
            problem: format!("{} vectors came back for {texts} texts", vectors.len()),
        });
    }
    let unit = |(index, vector): (usize, Vec<f32>)| {
        normalised(vector, embedder.dimensions()).map_err(|problem| EmbedError::BadVector {
            id: embedder.id().to_owned(),
            index,
            problem,
        })
    };
    vectors.into_iter().enumerate().map(unit).collect()
}

pub(crate) fn normalised(mut vector: Vec<f32>, dimensions: usize) -> Result<Vec<f32>, String> {
    if vector.len() != dimensions {
        return Err(format!("{} dimensions instead of {dimensions}", vector.len()));
    }
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err("a value is not a finite number".to_owned());
    }
    if length < 1e-12 {
        return Err("its length is zero".to_owned());
    }
    for value in &mut vector {
        *value = (f64::from(*value) / length) as f32;
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn a_vector_comes_out_with_length_one_or_not_at_all() {
        assert_eq!(normalised(vec![3.0, 4.0], 2), Ok(vec![0.6, 0.8]));
        assert_eq!(normalised(vec![f32::MAX, 0.0], 2), Ok(vec![1.0, 0.0]));
        for bad in [vec![1.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![0.0, 0.0]] {
            assert!(normalised(bad.clone(), 2).is_err(), "{bad:?} was accepted");
        }
    }
}
