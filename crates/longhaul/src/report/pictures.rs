//! Puts the kept screenshots on the page, within a bound for all of them together. What does not fit is said to be left
//! out; a picture that can no longer be read is said to be so.

use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_harness::verification::Evidence;
use longhaul_workspace::UserWorkspace;

use super::{
    data::{Picture, Pixels},
    gather::Gathered,
};

/// Most characters of all pictures of a page together.
const PICTURES_CHARS_MAX: usize = 10 * 1024 * 1024;
/// Share of it that features keep from what did not pass at first.
const KEPT_FOR_FEATURES: usize = PICTURES_CHARS_MAX / 3 * 2;
const PNG_MARK: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Reads pictures until the bound is reached.
pub(super) struct Album<'a> {
    workspace: &'a UserWorkspace,
    left: usize,
    left_out: usize,
}

impl<'a> Album<'a> {
    pub(super) fn new(workspace: &'a UserWorkspace) -> Self {
        Self { workspace, left: PICTURES_CHARS_MAX, left_out: 0 }
    }

    /// Fills in the pictures of a page: first those of what went wrong, within their share, then those of the features.
    pub(super) async fn fill(mut self, gathered: &mut Gathered) {
        let data = &mut gathered.data;
        let refusals = data.refusals.iter_mut().map(|claim| &mut claim.finding).zip(&gathered.refusals);
        let regressions = data.regressions.iter_mut().map(|found| &mut found.finding).zip(&gathered.regressions);
        for (finding, wanted) in refusals.chain(regressions) {
            finding.picture = self.show(wanted.as_ref(), KEPT_FOR_FEATURES).await;
        }
        for (feature, wanted) in data.features.iter_mut().zip(&gathered.features) {
            feature.picture = self.show(wanted.as_ref(), 0).await;
        }
        if self.left_out > 0 {
            data.notes.push(format!(
                "{} left out of this page to keep it small; the project's evidence holds all of them.",
                if self.left_out == 1 { "1 picture is".to_owned() } else { format!("{} pictures are", self.left_out) }
            ));
        }
    }

    async fn show(&mut self, wanted: Option<&Evidence>, keep: usize) -> Option<Picture> {
        let wanted = wanted?;
        let content = match self.workspace.read(&wanted.record).await {
            Err(error) => Pixels::LeftOut(format!("the picture cannot be read any more: {error}")),
            Ok((_, png)) => match size_of(&png) {
                None => Pixels::LeftOut("what was kept is not a picture".to_owned()),
                Some(_) if (png.len().div_ceil(3) * 4).saturating_add(keep) > self.left => {
                    self.left_out += 1;
                    Pixels::LeftOut("left out to keep this page small".to_owned())
                }
                Some((width, height)) => {
                    let base64 = STANDARD.encode(&png);
                    self.left -= base64.len();
                    Pixels::Shown { base64, width, height }
                }
            },
        };
        Some(Picture { caption: wanted.summary.clone(), content })
    }
}

/// Width and height of a PNG; see the PNG specification, section 11.2.2 (IHDR comes first).
fn size_of(png: &[u8]) -> Option<(u32, u32)> {
    let header = png.strip_prefix(PNG_MARK)?;
    let number = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    Some((number(8)?, number(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_picture_is_read_from_its_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x05\0\0\0\x03\x20\x08";
        assert_eq!(size_of(png), Some((1280, 800)));
        assert_eq!(size_of(b"<svg/>"), None);
        assert_eq!(size_of(&png[..20]), None);
    }
}
