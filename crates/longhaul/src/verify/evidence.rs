//! What was seen, as files for whoever looks at a build: a folder a feature with its pictures and its log, `report.json`
//! with all verdicts, and `index.html` that shows them.
//!
//! Invariant: of an earlier report in the same place nothing is left that a reader could take for this one's.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_harness::verification::{Evidence, RecordedVerdict};
use longhaul_workspace::TaskWorkspace;
use serde_json::json;

use super::VerdictView;
use crate::{LonghaulError, report::html::text};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c1c1e}\
    h2{font-size:1.05rem;margin:2rem 0 .3rem}.passed{color:#1a7f37}.refused{color:#b42318}.unchecked{color:#666}\
    p{margin:.2rem 0}figure{display:inline-block;margin:.5rem .8rem .5rem 0;width:20rem;vertical-align:top}\
    img{width:100%;border:1px solid #ccc}figcaption{font-size:.85rem;color:#444}";

/// Copies the evidence of these verdicts out of the store, notes in the views where it is, and writes the report.
pub(super) async fn export(
    kept: &TaskWorkspace,
    place: &Path,
    verdicts: &[RecordedVerdict],
    views: &mut [VerdictView],
) -> Result<(), LonghaulError> {
    for verdict in verdicts {
        let name = verdict.feature().as_str();
        let folder = place.join(name);
        let failed = |source| LonghaulError::ReportNotWritten { path: folder.clone(), source };
        remove(&folder).map_err(failed)?;
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut files = Vec::new();
        for (number, piece) in verdict.evidence().iter().enumerate() {
            let (_, content) = kept.read(&piece.record.id).await?;
            let file = file_name(piece, number);
            fs::write(folder.join(&file), content).map_err(failed)?;
            files.push(format!("{name}/{file}"));
        }
        if let Some(view) = views.iter_mut().find(|view| view.feature == name) {
            view.evidence = files;
        }
    }
    write_report(place, views)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// `step-3.png` for the picture of a sentence; the number tells others apart.
fn file_name(piece: &Evidence, number: usize) -> String {
    let ending = match piece.media_type.as_str() {
        "image/png" => "png",
        "image/webp" => "webp",
        "image/jpeg" => "jpg",
        "application/json" => "json",
        "application/pdf" => "pdf",
        _ => "bin",
    };
    let step = piece.summary.strip_prefix("step ").and_then(|rest| rest.split(':').next());
    match step.and_then(|step| step.parse::<u32>().ok()) {
        Some(step) => format!("step-{step}.{ending}"),
        None if number == 0 => format!("flow.{ending}"),
        None => format!("piece-{number}.{ending}"),
    }
}

/// Writes `report.json` and `index.html`.
pub(super) fn write_report(place: &Path, views: &[VerdictView]) -> Result<(), LonghaulError> {
    let passed = views.iter().filter(|view| view.passed).count();
    let report = json!({"schema": 1, "passed": passed, "of": views.len(), "features": views});
    let report = serde_json::to_vec_pretty(&report).expect("texts and numbers always print");
    for (name, content) in [("report.json", report), ("index.html", page(views, passed).into_bytes())] {
        let path = place.join(name);
        let failed = |source| LonghaulError::ReportNotWritten { path: path.clone(), source };
        fs::create_dir_all(place).map_err(failed)?;
        fs::write(&path, content).map_err(failed)?;
    }
    Ok(())
}

fn page(views: &[VerdictView], passed: usize) -> String {
    let mut html = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{passed} of {} features verified</title><style>{STYLE}</style>\n\
         <h1>{passed} of {} features verified</h1>\n",
        views.len(),
        views.len()
    );
    for view in views {
        let outcome = match (view.passed, view.unchecked) {
            (true, _) => "passed",
            (false, true) => "unchecked",
            (false, false) => "refused",
        };
        // Writing to a String never fails.
        let _ = writeln!(
            html,
            "<h2><span class=\"{outcome}\">{outcome}</span> {} {}</h2>",
            text(&view.feature),
            text(&view.description)
        );
        if !view.passed {
            let _ = writeln!(html, "<p>{}</p>", text(&view.reason()));
        }
        for file in &view.evidence {
            let caption = Path::new(file).file_stem().map(PathBuf::from).unwrap_or_default();
            let is_picture = Path::new(file).extension().is_some_and(|ending| ending == "png");
            let (file, caption) = (text(file), caption.to_string_lossy().into_owned());
            let caption = text(&caption);
            let _ = if is_picture {
                writeln!(
                    html,
                    "<figure><a href=\"{file}\"><img src=\"{file}\" alt=\"{caption}\" loading=\"lazy\"></a><figcaption>{caption}</figcaption></figure>"
                )
            } else {
                writeln!(html, "<p><a href=\"{file}\">{file}</a></p>")
            };
        }
    }
    html
}
