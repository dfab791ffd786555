//! A sequence of pictures of a flow: one after each check that is about the page, for as long as it was so. It is kept as
//! one animated WebP, which any browser plays. The pictures are encoded by the browser; here they are only put together.

use std::time::Duration;

use longhaul_tools::browser::{BrowserError, Page};
use tokio::time::Instant;

/// Most pictures of a film.
const FRAMES_MAX: usize = 300;
/// Longest time that one picture is shown, so that a slow check does not make a dull film.
const SHOWN_MAX: Duration = Duration::from_secs(2);
/// Shortest time, so that each can be seen.
const SHOWN_MIN: Duration = Duration::from_millis(300);
/// Where the length of a chunk ends, after its name of four bytes.
const CHUNK_HEAD: usize = 8;

/// A film under way.
#[derive(Default)]
pub(super) struct Film {
    /// A picture (WebP), and when it was taken.
    frames: Vec<(Vec<u8>, Option<Instant>)>,
}

impl Film {
    /// Takes the next picture. One like the last only makes that one last longer.
    pub(super) async fn take(&mut self, page: &Page) -> Result<(), BrowserError> {
        if self.frames.len() >= FRAMES_MAX {
            return Ok(());
        }
        match page.thumbnail().await {
            Ok(picture) if self.frames.last().is_some_and(|(last, _)| *last == picture) => Ok(()),
            Ok(picture) => {
                self.frames.push((picture, Some(Instant::now())));
                Ok(())
            }
            // A page that is just changing has no picture; the next check will have one.
            Err(BrowserError::Refused { .. } | BrowserError::NoTab) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The film, if there is anything in it.
    pub(super) fn develop(self) -> Option<Vec<u8>> {
        let now = Instant::now();
        let ends = self.frames.iter().skip(1).filter_map(|(_, at)| *at).chain([now]);
        let frames: Vec<(&[u8], Duration)> = self
            .frames
            .iter()
            .zip(ends)
            .map(|((picture, at), end)| {
                let shown = at.map_or(SHOWN_MIN, |at| end.saturating_duration_since(at));
                (picture.as_slice(), shown.clamp(SHOWN_MIN, SHOWN_MAX))
            })
            .collect();
        animate(&frames)
    }
}

/// Still WebP pictures of one size as one animated WebP (RIFF chunks VP8X, ANIM, ANMF; developers.google.com/speed/webp,
/// "WebP Container Specification").
fn animate(frames: &[(&[u8], Duration)]) -> Option<Vec<u8>> {
    let (width, height) = frames.iter().find_map(|(picture, _)| size(picture))?;
    let mut body = b"WEBP".to_vec();
    let mut canvas = vec![0b0000_0010, 0, 0, 0]; // the animation flag
    canvas.extend(three_bytes(width - 1));
    canvas.extend(three_bytes(height - 1));
    chunk(&mut body, *b"VP8X", &canvas);
    chunk(&mut body, *b"ANIM", &[255, 255, 255, 255, 0, 0]); // on white, for ever
    for (picture, shown) in frames {
        let image: Vec<u8> = image_chunks(picture).into_iter().flatten().copied().collect();
        if size(picture) != Some((width, height)) || image.is_empty() {
            continue;
        }
        let ms = u32::try_from(shown.as_millis()).unwrap_or(u32::MAX);
        let mut frame = Vec::with_capacity(image.len() + 16);
        for number in [0, 0, width - 1, height - 1, ms] {
            frame.extend(three_bytes(number));
        }
        frame.push(0b0000_0010); // drawn over the last one without blending
        frame.extend(image);
        chunk(&mut body, *b"ANMF", &frame);
    }
    let mut file = b"RIFF".to_vec();
    file.extend(u32::try_from(body.len()).ok()?.to_le_bytes());
    file.extend(body);
    Some(file)
}

fn three_bytes(number: u32) -> [u8; 3] {
    let bytes = number.to_le_bytes();
    [bytes[0], bytes[1], bytes[2]]
}

fn chunk(into: &mut Vec<u8>, name: [u8; 4], content: &[u8]) {
    into.extend(name);
    into.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend(content);
    if content.len() % 2 == 1 {
        into.push(0);
    }
}

/// The chunks of a WebP file, each with its head.
fn chunks(picture: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = picture.get(12..).unwrap_or_default();
    while let Some(length) = rest.get(4..CHUNK_HEAD) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        let Ok(length) = usize::try_from(length) else { break };
        let end = (CHUNK_HEAD + length + length % 2).min(rest.len());
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

/// The chunks that are the picture itself.
fn image_chunks(picture: &[u8]) -> Vec<&[u8]> {
    chunks(picture)
        .into_iter()
        .filter(|c| [b"VP8 ", b"VP8L", b"ALPH"].iter().any(|name| c.starts_with(*name)))
        .collect()
}

/// Width and height in pixels.
fn size(picture: &[u8]) -> Option<(u32, u32)> {
    chunks(picture).into_iter().find_map(|c| {
        let at = |n: usize| c.get(CHUNK_HEAD + n).copied().map(u32::from);
        if c.starts_with(b"VP8 ") {
            // After three bytes of frame tag and the start code 9d 01 2a: fourteen bits each.
            return Some(((at(6)? | at(7)? << 8) & 0x3fff, (at(8)? | at(9)? << 8) & 0x3fff));
        }
        if c.starts_with(b"VP8L") {
            let bits = at(1)? | at(2)? << 8 | at(3)? << 16 | at(4)? << 24;
            return Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1));
        }
        None
    })
}
