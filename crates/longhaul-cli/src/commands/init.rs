//! `longhaul init`: one sentence becomes a plan that can be verified, in a new folder.

use std::path::PathBuf;

use clap::Args;
use longhaul::{CancellationToken, InitRequest};

use super::work;
use crate::{args::Global, exit::Exit};

/// Turn a request into features with verifiable steps, in a new folder
///
/// The initializer writes the feature list, locks how each feature will be verified, makes an init.sh that starts the
/// application, and the first commit. Interrupted, it goes on when asked again. Nothing is built yet: `longhaul run`
/// does that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul init \"A recipe book with search\" --dir recipes --model openai:gpt-4o
  longhaul init \"做一个待办事项应用\" --dir todo --model openai:qwen3 --base-url http://127.0.0.1:8080/v1")]
pub(crate) struct Init {
    /// What to build, in any language
    request: String,
    /// The folder to build it in: new or empty
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    model: ModelFlags,
}

/// Which model works.
#[derive(Debug, Args)]
pub(crate) struct ModelFlags {
    /// The model: openai:NAME, anthropic:NAME, openai-responses:NAME, cassette:FILE or cassette:demo [default:
    /// OPENAI_MODEL, or the project's]
    #[arg(long, value_name = "SPEC")]
    model: Option<String>,
    /// Where the model's service is, up to and including /v1 [default: OPENAI_BASE_URL or ANTHROPIC_BASE_URL, or OpenAI's
    /// or Anthropic's own]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

impl ModelFlags {
    /// The address is meant for the model's service, whichever protocol that speaks.
    pub(super) fn assignments(&self) -> [(&'static str, Option<&str>, &'static str); 3] {
        let base_url = self.base_url.as_deref();
        [
            ("model.spec", self.model.as_deref(), "--model"),
            ("model.base_url", base_url, "--base-url"),
            ("model.anthropic_url", base_url, "--base-url"),
        ]
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Init) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &command.model.assignments())?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let asked = InitRequest { request: command.request.clone(), dir: command.dir.clone() };
        let outcome = work::watch(&longhaul, &mut progress, &cancel, longhaul.init(asked, cancel.clone())).await;
        progress.finish();
        work::conclude(global, &outcome?)
    })
}
