//! Made-up vectors in clusters, always the same: for measuring size, not recall, as real sentences lie in no clear groups.

/// `count` unit vectors of `dimensions` around so many centres; `noise` is their usual distance from it before they are
/// brought to length one.
#[must_use]
pub fn clustered(count: usize, dimensions: usize, clusters: usize, noise: f32) -> Vec<Vec<f32>> {
    // xorshift (Marsaglia, 2003); each number gives four parts, whose sum is nearly normal.
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let parts = |bits: u64| (0..4).map(|part| (bits >> (16 * part) & 0xFFFF) as f32 / 32_768.0 - 1.0).sum::<f32>();
    let mut normal = || 0.866 * parts(next());
    let centres: Vec<Vec<f32>> = (0..clusters).map(|_| unit((0..dimensions).map(|_| normal()).collect())).collect();
    let spread = noise / (dimensions as f32).sqrt();
    let near = |index: usize| {
        let centre = &centres[index * 7919 % clusters];
        unit(centre.iter().map(|value| value + spread * normal()).collect())
    };
    (0..count).map(near).collect()
}

/// The vector brought to length one.
#[must_use]
pub fn unit(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.into_iter().map(|value| value / length).collect()
}
