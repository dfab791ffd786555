//! The command line as types; its help is the manual. What a command does is in [`crate::commands`].

use std::path::{Path, PathBuf};

use clap::{Args, Parser, builder::styling};
use indicatif::ProgressBar;
use longhaul::settings::{Settings, Sources};

use crate::{
    commands::Command,
    exit::{Exit, Refusal},
    progress::{Detail, Progress, Style, spinner},
};

const LONG_ABOUT: &str = "\
Longhaul gives an agent a project and keeps it at work for as long as the project takes.

One sentence becomes a list of features, each with the steps that prove it. Coding sessions then build them one after \
the other. A feature counts as done only when its steps have been carried out in a real browser; what the model says \
about it changes nothing. Every session is committed with git, remembered for the next, and can be interrupted at any \
moment: `longhaul run` goes on where it stopped.";

const AFTER_HELP: &str = "\
Examples:
  longhaul demo                                   see it work, without a model or a key
  longhaul init \"A recipe book with search\" --dir recipes --model openai:gpt-4o
  longhaul run --dir recipes                      build it; Ctrl-C and run again whenever you like
  longhaul status --dir recipes                   how far it is
  longhaul verify F03 --dir recipes               carry out its steps now
  longhaul report --dir recipes                   one page with everything that happened, to look at
  longhaul doctor                                 what this machine lacks, and how to get it

To leave it alone, and to have a say:
  longhaul run --dir recipes --until 8h --max-tokens 2000000
  longhaul init --adopt shop \"Add gift cards\"    take over an existing repository
  longhaul features add | split | retire          change the plan, with a reason; proposals of agents too
  longhaul steer \"use the old icons\" --dir recipes  a word to the session at work
  longhaul pause, resume, take-over               stop at the next step; edit the folder yourself
  longhaul run --agent acp:claude-agent-acp       have another agent do the coding: docs/agents.md
  longhaul verify --junit report.xml              the checks of any feature_list.json, in CI
  longhaul skills list                            what its agents know beside their tools

Executions of graphs, of this or any other program:
  longhaul executions                             which there are, and where each stands
  longhaul waits                                  what somebody has to answer
  longhaul approve WAIT --note \"looks good\"      say yes; longhaul reject WAIT says no
  longhaul retry THREAD                           what keeps it from going on
  longhaul where TASK                             phase, open questions, next step, where it resumes
  longhaul explain ID                             what an id is, how it came about, what comes next
  longhaul eval run cases/ --program ./shop       recorded executions as a regression gate
  longhaul tail TASK                              what happens to it, live
  longhaul records TASK                           what was kept; longhaul show REF prints one
  longhaul backup DIR                             a copy of everything, while work goes on
  longhaul store verify                           is everything whole?
  longhaul erase --subject X                      whatever is left of a user, a task, a session, with a receipt

Long-term memory, of agents and of yours:
  longhaul memory add \"Ada prefers tea\"          remember; it is found at once
  longhaul memory search \"what does Ada drink\"   by words, by meaning, with --explain
  longhaul memory --help                          correct, forget, export, import
  longhaul knowledge add docs/ --corpus guide     documents to look things up in, with citations
  longhaul context \"what comes next\" --task T    what is kept of a task, within a budget of tokens
  longhaul conversations search \"last month\"     what was said, and in which session
  longhaul review list                            what agents propose as shared knowledge
  longhaul mcp                                    all of it for any MCP client: docs/mcp.md

For other programs and other people:
  longhaul serve                                  all of it over HTTP; prints the first key once
  longhaul keys create --role viewer              a key for somebody else

Networks of agents:
  longhaul network init research                  a folder that can be served; prints a password once
  longhaul network start research                 over HTTP, gRPC, MCP, A2A; agents join and leave
  longhaul network events research --follow       what is said, live; status, agents, top, kick
  longhaul network chat --as ada                  take part from the terminal
  longhaul agent start helper.yaml                an agent of a file joins, and answers
  longhaul demo network                           a community answers questions together

Environment:
  OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL   the model's service (any OpenAI-compatible one)
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL           the same for anthropic:NAME
  LONGHAUL_HOME                                   where the store and the evidence live
  LONGHAUL_STORE                                  another store, as a folder or a postgres:// URL
  LONGHAUL_LOG                                    what is logged, as in longhaul=debug
  NO_COLOR                                        no colours
  Every key of longhaul.toml has a variable and --set KEY=VALUE: docs/configuration.md.
  Order: flags, environment, .env, the project's longhaul.toml, the user's, defaults.

Exit codes:
  0    done
  1    failed
  2    wrong usage: a flag, a setting or a folder makes no sense
  3    not finished: stopped by a limit, features are parked or do not pass
  4    this machine lacks something; `longhaul doctor` says what
  130  interrupted (Ctrl-C or SIGTERM); nothing is lost, run again";

/// Agents that work for days, and prove what they did
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, long_about = LONG_ABOUT, after_long_help = AFTER_HELP, styles = STYLES)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "`longhaul --help` explains more and lists examples, environment and exit codes.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Yellow.on_default())
    .usage(styling::AnsiColor::Yellow.on_default())
    .literal(styling::Style::new().bold())
    .placeholder(styling::Style::new());

/// Flags of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print JSON: one object, or one per line while work goes on
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where the store and the evidence live [default: ~/.local/share/longhaul]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// No colours, and no status line
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Show every answer and every tool call too
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Set any key of longhaul.toml; may be given several times
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Global {
    pub(crate) fn style(&self) -> Style {
        Style::detect(self.no_color)
    }

    pub(crate) fn progress(&self) -> Progress {
        let detail = if self.verbose { Detail::Verbose } else { Detail::Normal };
        Progress::new(self.json, self.style(), detail)
    }

    /// Something that moves on standard error while one thing takes its time; nothing where nobody would see it.
    pub(crate) fn spinner(&self, message: &'static str) -> ProgressBar {
        let bar = spinner(self.style(), self.json);
        bar.set_message(message);
        bar
    }

    /// For what is over: no status line.
    pub(crate) fn quiet_progress(&self) -> Progress {
        let detail = if self.verbose { Detail::Verbose } else { Detail::Normal };
        Progress::new(self.json, Style { columns: None, ..self.style() }, detail)
    }

    /// The settings of a command that works in `project`, with its own flags last. Notices go to standard error.
    pub(crate) fn settings(
        &self,
        project: Option<&Path>,
        flags: &[(&str, Option<&str>, &str)],
    ) -> anyhow::Result<Settings> {
        let mut sources = Sources::of_this_process(project.map(Path::to_owned));
        for assignment in &self.set {
            let (key, value) = assignment.split_once('=').ok_or_else(|| {
                Refusal::because(
                    Exit::Usage,
                    format!("--set {assignment}: write --set KEY=VALUE, as in --set harness.turns_max=80"),
                )
            })?;
            sources = sources.with_flag(key, value, "--set");
        }
        if let Some(home) = self.home.as_deref() {
            let home = home.to_str().ok_or_else(|| Refusal::because(Exit::Usage, "--home: the path is not UTF-8"))?;
            sources = sources.with_flag("home", home, "--home");
        }
        for (key, value, flag) in flags {
            if let Some(value) = value {
                sources = sources.with_flag(key, value, flag);
            }
        }
        let settings = Settings::load(&sources)?;
        for notice in &settings.notices {
            eprintln!("longhaul: note: {notice}");
        }
        Ok(settings)
    }
}
