//! `longhaul knowledge add`: a path becomes a version of a corpus.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use longhaul::{
    CancellationToken, Memories,
    knowledge::{Added, Addition, BuildProgress, CorpusName, Selection},
};
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, count, print_line},
};

/// Files that could not be taken, as long as not all of them are asked for.
const REFUSED_SHOWN: usize = 8;

/// Read a file or a folder into a new version of a corpus
///
/// Reads text, Markdown, HTML, PDF, tables and source code in any encoding, divides them along their headings, and
/// embeds what is new. Hidden files and what .gitignore and .ignore exclude are left out. Files that cannot be taken are
/// named, and the others go on. If nothing has changed there is no new version. Stopped in the middle, the same command
/// goes on where it stopped; until it is complete, nobody finds anything of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge add docs/ --corpus guide
  longhaul knowledge add . --corpus code --include '*.rs' --include '*.md' --exclude 'target/**'
  longhaul knowledge add ~/papers --corpus papers --no-embed      found by words until `longhaul memory index`")]
pub(super) struct Add {
    /// A file or a folder
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The corpus: a-z, 0-9, `_`, `.`, `-`
    #[arg(long, value_name = "NAME")]
    corpus: String,
    /// Only files that match, as in a .gitignore; may be given several times
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Without files that match; may be given several times
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Hidden and ignored files too
    #[arg(long)]
    everything: bool,
    /// Do not wait for embeddings; passages are found by words until `longhaul memory index` has run
    #[arg(long)]
    no_embed: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Add) -> anyhow::Result<Exit> {
    let corpus: CorpusName = command.corpus.parse()?;
    let memories = command.place.open(global, Model::Wanted, true).await?;
    let addition = Addition {
        selection: Selection {
            include: command.include.clone(),
            exclude: command.exclude.clone(),
            everything: command.everything,
        },
        ..Addition::new(std::path::absolute(&command.path)?, corpus.clone())
    };
    let stop = CancellationToken::new();
    let mut signals = work::Signals::listen()?;
    let asked = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        asked.cancel();
    });
    let bar = Arc::new(global.spinner("looking for files"));
    let showing = bar.clone();
    let going = move |progress: BuildProgress| {
        match progress {
            BuildProgress::Comparing { files } => {
                showing.set_message(format!("comparing {}", count(files as u64, "file")))
            }
            BuildProgress::Reading { done, files, name } => {
                showing.set_message(format!("reading {} of {files}: {name}", done + 1));
            }
        }
        !stop.is_cancelled()
    };
    let added = memories.knowledge().add(memories.scope(), &addition, going).await;
    let embedded = match &added {
        Ok(_) if !command.no_embed => embed(&memories, &bar).await,
        Ok(_) | Err(_) => Ok(()),
    };
    bar.finish_and_clear();
    let added = added?;
    if global.json {
        let refused: Vec<_> =
            added.refused.iter().map(|(name, problem)| json!({ "file": name, "problem": problem })).collect();
        let object = json!({ "version": added.version, "unchanged": added.unchanged, "resumed": added.resumed,
            "files_reused": added.files_reused, "vectors_reused": added.vectors_reused, "refused": refused,
            "not_embedded": embedded.err() });
        print_line(&object.to_string())?;
        return Ok(Exit::Done);
    }
    show(global, &added)?;
    if let Err(reason) = embedded {
        let style = global.style();
        print_line(&format!("{} found by words only: {reason}", style.glyph(Glyph::Notice)))?;
    }
    Ok(Exit::Done)
}

/// Waits for the vectors of what was added; how many are left is shown.
async fn embed(memories: &Memories, bar: &indicatif::ProgressBar) -> Result<(), String> {
    if let Some(reason) = memories.no_model() {
        return Err(reason.to_owned());
    }
    let work = async { memories.memory().index_pending().await.map(drop).map_err(|error| error.to_string()) };
    let watch = async {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            every.tick().await;
            if let Ok(left) = memories.memory().backlog(memories.scope()).await {
                bar.set_message(format!("embedding; {} left", count(left, "passage")));
            }
        }
    };
    tokio::select! {
        done = work => done,
        () = watch => Ok(()),
    }
}

fn show(global: &Global, added: &Added) -> anyhow::Result<()> {
    let style = global.style();
    let version = &added.version;
    let what = format!("{}, {}", count(version.files, "file"), count(version.chunks, "passage"));
    let name = format!("{}@{}", version.corpus, version.version);
    if added.unchanged {
        print_line(&format!("{} nothing has changed since {name} ({what})", style.glyph(Glyph::Pass)))?;
    } else {
        let mut kept = String::new();
        if added.files_reused > 0 {
            kept = format!("; {} taken from the version before", count(added.files_reused as u64, "unchanged file"));
        }
        print_line(&format!("{} {name}: {what}{kept}", style.glyph(Glyph::Pass)))?;
    }
    for (file, problem) in added.refused.iter().take(REFUSED_SHOWN) {
        let mark = style.glyph(Glyph::Notice);
        print_line(&format!("  {mark} {}", style.fit_after(4, &format!("left out {file}: {problem}"))))?;
    }
    if added.refused.len() > REFUSED_SHOWN {
        let more = (added.refused.len() - REFUSED_SHOWN) as u64;
        print_line(&format!(
            "  … and {} more; `longhaul knowledge versions {} --files` lists all",
            count(more, "file"),
            version.corpus
        ))?;
    }
    Ok(())
}
