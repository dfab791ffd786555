//! `longhaul memory stats`: how much there is, of what, and what is not derived yet.

use clap::Args;
use longhaul::memory::{Namespace, Stats as Figures};
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    show::thousands,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, print_line},
};

/// See how much is remembered, of what kind, and what waits to be embedded
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory stats
  longhaul memory stats -n research --json")]
pub(super) struct Stats {
    /// Of this namespace; may be given several times [default: all that you may read]
    #[arg(long, short, value_name = "NAME")]
    namespace: Vec<Namespace>,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Stats) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let all = memories.stats(&command.namespace).await?;
    if global.json {
        let model = json!({ "embedder": memories.embedder(), "no_model": memories.no_model() });
        print_line(&json!({ "namespaces": all, "model": model }).to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for figures in &all {
        for line in lines(style, figures) {
            print_line(&line)?;
        }
    }
    if all.is_empty() {
        print_line("nothing has been remembered here yet: longhaul memory add TEXT")?;
    }
    let model = memories.embedder().map_or_else(
        || {
            format!(
                "{} {}",
                style.glyph(Glyph::Notice),
                style.fit_after(2, memories.no_model().unwrap_or("no embedding model"))
            )
        },
        |model| style.paint(Ink::Faint, &style.fit_after(0, &format!("embedded by {model}"))),
    );
    print_line(&model)?;
    Ok(Exit::Done)
}

fn lines(style: Style, figures: &Figures) -> Vec<String> {
    let size = match figures.content_bytes {
        bytes @ 0..=9_999 => format!("{bytes} bytes"),
        bytes @ 10_000..=9_999_999 => format!("{} KB", bytes / 1_000),
        bytes => format!("{} MB", bytes / 1_000_000),
    };
    let many = thousands(figures.memories);
    let mut lines =
        vec![format!("{} {many} memories, {size} of text", style.paint(Ink::Strong, figures.namespace.as_str()))];
    let mut row = |name: &str, value: String| {
        lines.push(format!("  {} {}", style.paint(Ink::Faint, &format!("{name:<12}")), style.fit_after(15, &value)));
    };
    let counted = |counts: &std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(name, many)| format!("{name} {}", thousands(*many))).collect::<Vec<_>>().join(style.dot())
    };
    row("kinds", counted(&figures.kinds));
    row("collections", counted(&figures.collections));
    if figures.unembedded > 0 {
        row("to embed", format!("{}: longhaul memory index", thousands(figures.unembedded)));
    }
    lines
}
