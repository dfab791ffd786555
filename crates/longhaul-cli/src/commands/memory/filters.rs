//! Flags that say which memories are meant.

use clap::Args;
use longhaul::{
    Filters, TaskId, UserId,
    memory::{Kind, Namespace, Tiers},
};

/// Which memories.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which memories")]
pub(super) struct FilterFlags {
    /// Of this namespace; may be given several times [default: main]
    #[arg(long, short, value_name = "NAME")]
    namespace: Vec<Namespace>,
    /// Only of this collection; may be given several times
    #[arg(long, value_name = "NAME")]
    collection: Vec<String>,
    /// Only of this kind: progress, commit, episode, note, lesson, decision, fact, preference
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Only with this tag; given several times, with all of them
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only of this conversation, session or document
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Only of this task
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Only what this user wrote or had written for them
    #[arg(long, value_name = "USER")]
    by: Option<UserId>,
    /// Only what happened from then on
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what happened until then; a day, week or month counts whole
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what happened within this time: yesterday, "last week", 2026-10..2026-11
    #[arg(long, value_name = "PERIOD")]
    when: Option<String>,
    /// Only where this holds of the metadata: session=3, stars>=4, lang!=en, draft, !draft
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// Only facts about this subject
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Facts as they were true at that time
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// As we believed at that time: nothing learned later counts
    #[arg(long, value_name = "TIME")]
    known_at: Option<String>,
    /// Facts that newer ones have replaced as well
    #[arg(long)]
    history: bool,
    /// Where to look
    #[arg(long, value_name = "TIER", default_value = "all")]
    tier: TierWord,
}

/// Tiers as they are typed.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum TierWord {
    #[default]
    All,
    Hot,
    Cold,
}

impl FilterFlags {
    pub(super) fn given(&self) -> Filters {
        Filters {
            namespaces: self.namespace.clone(),
            collections: self.collection.clone(),
            kinds: self.kind.clone(),
            tags: self.tag.clone(),
            thread: self.thread.clone(),
            task: self.task.clone(),
            user: self.by.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            when: self.when.clone(),
            conditions: self.conditions.clone(),
            subject: self.subject.clone(),
            as_of: self.as_of.clone(),
            known_at: self.known_at.clone(),
            history: self.history,
            tiers: match self.tier {
                TierWord::All => Tiers::All,
                TierWord::Hot => Tiers::Hot,
                TierWord::Cold => Tiers::Cold,
            },
        }
    }

    /// Whether any flag narrows the choice within the namespaces.
    pub(super) fn narrows(&self) -> bool {
        !(self.collection.is_empty() && self.kind.is_empty() && self.tag.is_empty() && self.conditions.is_empty())
            || self.thread.is_some()
            || self.task.is_some()
            || self.by.is_some()
            || self.since.is_some()
            || self.until.is_some()
            || self.when.is_some()
            || self.subject.is_some()
    }
}
