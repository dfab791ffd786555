//! Two pictures of the same thing: which part of their pixels differs. A pixel differs when one of its colours does by
//! more than an eye sees at an edge, so that smoothing of letters does not count.

use std::{collections::BTreeMap, io::Cursor};

/// Accepted pictures (PNG) by their names within a feature.
pub type Baselines = BTreeMap<String, Vec<u8>>;

/// Difference of a colour, of 255, that does not count.
const COLOUR_TOLERANCE: u8 = 24;
/// Most bytes of a decoded picture.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A decoded picture: width and height in pixels, and four bytes a pixel.
struct Picture {
    width: u32,
    height: u32,
    rgba: Vec<u8>,
}

/// The part of the pixels that differ, from 0 to 1.
///
/// # Errors
/// When the pictures are of different sizes, or one cannot be read.
pub(super) fn difference(accepted: &[u8], now: &[u8]) -> Result<f64, String> {
    if accepted == now {
        return Ok(0.0);
    }
    let (accepted, now) = (decode(accepted)?, decode(now)?);
    if (accepted.width, accepted.height) != (now.width, now.height) {
        return Err(format!(
            "it has {}×{} pixels, accepted were {}×{}",
            now.width, now.height, accepted.width, accepted.height
        ));
    }
    let pairs = accepted.rgba.chunks_exact(4).zip(now.rgba.chunks_exact(4));
    let differs =
        |(one, other): &(&[u8], &[u8])| one.iter().zip(*other).any(|(a, b)| a.abs_diff(*b) > COLOUR_TOLERANCE);
    let different = pairs.filter(differs).count();
    let all = (accepted.rgba.len() / 4).max(1);
    Ok(different as f64 / all as f64)
}

fn decode(png: &[u8]) -> Result<Picture, String> {
    let failed = |error: png::DecodingError| format!("a picture cannot be read: {error}");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(png), png::Limits { bytes: BYTES_MAX });
    decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(failed)?;
    let size = reader.output_buffer_size().filter(|size| *size <= BYTES_MAX).ok_or("a picture is too large")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(failed)?;
    pixels.truncate(info.buffer_size());
    let rgba = match info.color_type {
        png::ColorType::Rgba => pixels,
        png::ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|p| [p[0], p[0], p[0], p[1]]).collect(),
        png::ColorType::Rgb => pixels.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect(),
        png::ColorType::Grayscale => pixels.iter().flat_map(|p| [*p, *p, *p, 255]).collect(),
        png::ColorType::Indexed => return Err("a picture has a palette that was not resolved".to_owned()),
    };
    Ok(Picture { width: info.width, height: info.height, rgba })
}
