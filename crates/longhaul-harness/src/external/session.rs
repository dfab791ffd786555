//! One session of an external agent: prompt, turn, claim, verdict, until one ends it; recorded as one step.

use std::{sync::Arc, time::Duration};

use longhaul_agent::{
    Conversed, Ending, Purse, Reservation, Reserved, Wanted,
    acp::{AcpError, AcpLimits, AskedPermission, Cancelled, StopReason, TurnEnd},
};
use longhaul_core::{EventDraft, ToolCall};
use longhaul_durable::{NodeError, StepError, Wait};
use longhaul_memory::actions::Action;
use longhaul_model::{ChatResponse, Finish, Usage};
use longhaul_tools::files::ProjectFiles;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::{
    desk::Desk,
    permission::Decision,
    program::{self, Connected},
    settings::ExternalAgent,
    terminals::Terminals,
    words,
};
use crate::{
    application::explain,
    claim::{Accepted, quality_now, refused_event, verify_now},
    closing::SessionResult,
    deeds,
    features::Feature,
    host::tamper_event,
    people::People,
    sitting::Sitting,
    stray::clear,
    verification::{Occasion, RecordedVerdict},
    work_tree::TreeId,
};

/// The step that a session is.
const STEP: &str = "agent";
/// Questions of one session to a person.
const QUESTIONS_MAX: usize = 20;
const TITLE_SHOWN_CHARS: usize = 60;
/// How often a turn under way looks whether somebody wants the folder.
const LOOK: Duration = Duration::from_millis(250);

/// What a session's work came to.
pub(crate) struct Worked {
    pub(crate) conversed: Conversed,
    pub(crate) result: SessionResult,
    pub(crate) refused_claims: u32,
}

/// The recorded step.
#[derive(Debug, Serialize, Deserialize)]
struct Sat {
    /// The agent's name and version, as it told them.
    agent: String,
    end: End,
    /// Verdicts of its claims, the last one's included.
    verdicts: Vec<RecordedVerdict>,
    refused: u32,
    turns: u32,
    prompt_tokens: u64,
    answer_tokens: u64,
    cached_tokens: u64,
    tokens_estimated: bool,
    /// The folder as it left it.
    tree: TreeId,
    deeds: Vec<Action>,
    #[serde(skip)]
    events: Vec<EventDraft>,
    /// What its turns cost, in place of what was reserved for them.
    #[serde(skip)]
    paid: Vec<(Reservation, ChatResponse)>,
}

/// How it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The last verdict passed.
    Verified { summary: String },
    /// Nothing advances.
    HandedOver { note: String, why: String },
    /// Nothing advances, and nothing is said by that about the feature: a limit of the budget ended it.
    OutOfBudget { note: String, why: String },
    /// The same, because a person wants the folder.
    CalledOff { note: String, why: String },
    /// A person must decide first; the folder is at the last commit.
    Asked { kind: String, title: String, input: String },
}

/// Has the agent work on a feature.
pub(crate) async fn work(
    s: &Sitting<'_>,
    agent: &ExternalAgent,
    feature: &Feature,
    prompt: &str,
) -> Result<Worked, NodeError> {
    let mut decisions: Vec<Decision> = Vec::new();
    loop {
        let sat = sit(s, agent, feature, prompt, &decisions).await?;
        s.left(sat.tree.clone());
        let End::Asked { kind, title, input } = sat.end.clone() else { return worked(sat, feature) };
        if decisions.len() >= QUESTIONS_MAX {
            let note = format!("it asked {QUESTIONS_MAX} times; the last time about {title}");
            let end = End::HandedOver { note, why: "too many questions".to_owned() };
            return worked(Sat { end, ..sat }, feature);
        }
        let shown: String = title.chars().take(TITLE_SHOWN_CHARS).collect();
        let question = Wait::approval(&format!("may the agent do this: {shown}")).payload(json!({
            "feature": feature.id(), "kind": kind, "title": title, "input": input,
        }));
        let is_allowed = s.ctx.pause_for::<bool>(question).await?.into_value().unwrap_or(false);
        decisions.push(Decision { kind, title, input, is_allowed });
    }
}

fn worked(sat: Sat, feature: &Feature) -> Result<Worked, NodeError> {
    let usage = Usage {
        prompt_tokens: sat.prompt_tokens,
        answer_tokens: sat.answer_tokens,
        cached_tokens: sat.cached_tokens,
        written_tokens: 0,
        estimated: sat.tokens_estimated,
        ..Usage::default()
    };
    let feature = Box::new(feature.clone());
    let (ending, result) = match (sat.end, sat.verdicts.last().filter(|verdict| verdict.passed())) {
        (End::Verified { summary }, Some(verdict)) => {
            let accepted = Accepted { summary, commit_message: None, verdict: Some(verdict.clone()) };
            (Ending::Done, SessionResult::Verified(accepted, feature, Box::new(verdict.clone())))
        }
        (End::HandedOver { note, why }, _) => {
            let ending = Ending::HandOver { note: note.clone(), why: why.clone() };
            (ending, SessionResult::HandedOver { note: format!("{why}: {note}"), feature: Some(feature) })
        }
        (End::OutOfBudget { note, why }, _) => {
            let ending = Ending::OutOfBudget { note: note.clone(), why: why.clone() };
            (ending, SessionResult::HandedOver { note: format!("{why}: {note}"), feature: None })
        }
        (End::CalledOff { note, why }, _) => {
            let ending = Ending::CalledOff { note: note.clone(), why: why.clone() };
            (ending, SessionResult::HandedOver { note: format!("{why}: {note}"), feature: None })
        }
        (End::Verified { .. } | End::Asked { .. }, _) => {
            let why = "the agent's session has no passing verdict".to_owned();
            let ending = Ending::HandOver { note: String::new(), why: why.clone() };
            (ending, SessionResult::HandedOver { note: why, feature: Some(feature) })
        }
    };
    Ok(Worked {
        conversed: Conversed { ending, text: String::new(), turns: sat.turns, usage },
        result,
        refused_claims: sat.refused,
    })
}

/// The step: from the folder as the session found it to a verdict, a note or a question.
async fn sit(
    s: &Sitting<'_>,
    agent: &ExternalAgent,
    feature: &Feature,
    prompt: &str,
    decisions: &[Decision],
) -> Result<Sat, NodeError> {
    let (owner, session, memory) = (s.owner(), s.session, s.harness.memory.clone());
    let step = s.ctx.step_id(STEP).within();
    let purse = s.harness.spending.purse(s.owner(), s.session);
    let work = async {
        let found = match s.tree() {
            Some(tree) => tree,
            None => s.snapshot().await?,
        };
        let outcome = attempt(s, agent, feature, &words::first(prompt, decisions), decisions, &step).await;
        if outcome.is_err() {
            // What a failed attempt left is not what the next one begins with.
            s.work_tree.forget().await;
            s.left(found);
        }
        outcome
    };
    s.record_with(
        STEP,
        work,
        |sat: &Sat| sat.events.clone(),
        move |tx, sat: &Sat| {
            deeds::capture(tx, &memory, &owner, &sat.deeds)?;
            sat.paid.iter().try_for_each(|(reservation, answer)| purse.settle(tx, reservation, answer))?;
            sat.verdicts.iter().try_for_each(|verdict| verdict.commit(tx, &owner, session, None))
        },
    )
    .await
}

async fn attempt(
    s: &Sitting<'_>,
    agent: &ExternalAgent,
    feature: &Feature,
    prompt: &str,
    decisions: &[Decision],
    step: &str,
) -> Result<Sat, StepError> {
    s.settle().await?;
    let before = s.snapshot().await?;
    // The agent starts the application itself; ours would only show the code as it was.
    s.trial.stop().await;
    let sandbox = program::sandbox(s, agent)?;
    let connected = program::start(s, agent, &sandbox).await?;
    let name = connected.client.session().agent.clone();
    let shell = s.harness.settings.shell;
    let desk = Desk {
        sitting: s,
        decisions,
        files: ProjectFiles::open(&s.project().dir)?,
        terminals: Terminals::new(sandbox, Duration::from_secs(shell.seconds_max), shell.output_bytes_max),
        step: step.to_owned(),
    };
    let data = json!({"session": s.session, "feature": feature.id(), "agent": name});
    desk.tell(EventDraft::business("agent.started", data)).await;
    let mut talk = Talk {
        s,
        feature,
        desk,
        connected,
        limits: AcpLimits {
            until: Instant::now() + agent.settings.session_max,
            silence_max: agent.settings.silence_max,
        },
        sat: Sat {
            agent: name,
            end: End::HandedOver { note: String::new(), why: String::new() },
            verdicts: Vec::new(),
            refused: 0,
            turns: 0,
            prompt_tokens: 0,
            answer_tokens: 0,
            cached_tokens: 0,
            tokens_estimated: false,
            tree: before.clone(),
            deeds: Vec::new(),
            events: Vec::new(),
            paid: Vec::new(),
        },
        purse: s.harness.spending.purse(s.owner(), s.session),
        name: agent.settings.name(),
    };
    let ended = talk.hold(prompt).await;
    talk.desk.terminals.end_all();
    let Talk { connected, mut sat, .. } = talk;
    let messages = connected.end().await;
    sat.end = match ended? {
        Ok(end) => end,
        Err(error) => {
            let note = format!("{}; its own words: {messages}", explain(&error));
            End::HandedOver { note, why: "the agent failed".to_owned() }
        }
    };
    leave(s, &before, &mut sat).await?;
    Ok(sat)
}

/// The folder as the session leaves it to what follows: as it was verified, as it was given up, or at the last commit.
async fn leave(s: &Sitting<'_>, before: &TreeId, sat: &mut Sat) -> Result<(), StepError> {
    let undone = s.restore_guarded()?;
    sat.events.extend(undone.iter().map(|u| tamper_event(&u.path, &u.how)));
    s.hand_to_sandbox()?;
    let after = s.snapshot().await?;
    let call = ToolCall { id: String::new(), name: STEP.to_owned(), arguments: "{}".to_owned() };
    let task = s.owner().task;
    let both = (Some(before), Some(&after));
    sat.deeds = deeds::between(&s.work_tree, &call, s.session, &task, both, false).await?;
    sat.tree = after;
    if matches!(sat.end, End::Asked { .. }) {
        sat.tree = clear(s).await?;
        sat.deeds.clear();
    }
    s.left(sat.tree.clone());
    Ok(())
}

/// A conversation with the agent while it goes on.
struct Talk<'s> {
    s: &'s Sitting<'s>,
    feature: &'s Feature,
    desk: Desk<'s>,
    connected: Connected,
    limits: AcpLimits,
    sat: Sat,
    purse: Arc<dyn Purse>,
    /// What it is called in `prices`.
    name: String,
}

impl Talk<'_> {
    /// Prompt, turn, claim, until the session ends. The outer error ends the run, the inner one the session.
    async fn hold(&mut self, prompt: &str) -> Result<Result<End, AcpError>, StepError> {
        let mut text = prompt.to_owned();
        for _ in 0..words::turns_max(&self.s.harness.settings) {
            if let Some(why) = self.s.harness.people.wants_the_folder(&self.s.owner()).await? {
                return Ok(Ok(End::CalledOff { note: "the agent was not asked again".to_owned(), why }));
            }
            let reservation = match self.purse.reserve(self.wanted(&text)).await? {
                Reserved::Granted(reservation) => reservation,
                Reserved::Refused { why } => {
                    let data = json!({"limit": why, "turn": self.sat.turns});
                    self.sat.events.push(EventDraft::business("budget.exhausted", data));
                    let why = format!("the budget is spent: {why}");
                    return Ok(Ok(End::OutOfBudget { note: "the agent was not asked again".to_owned(), why }));
                }
            };
            let (started, people) = (Instant::now(), self.s.harness.people.clone());
            let turn = self.connected.client.prompt(&text, &self.desk, self.limits, taken_over(&people)).await;
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => return Ok(Err(error)),
            };
            self.count(&turn, started);
            self.sat.paid.push((reservation, answer_of(&turn, &self.name)));
            if let Some(end) = ended_by(&turn) {
                return Ok(Ok(end));
            }
            text = if matches!(turn.reason, StopReason::MaxTokens | StopReason::MaxTurnRequests) {
                words::GO_ON.to_owned()
            } else {
                match self.claim(&turn).await? {
                    Claim::Stands(end) => return Ok(Ok(end)),
                    Claim::Refused(next) => next,
                }
            };
        }
        let why = "the limit of turns for one session was reached".to_owned();
        Ok(Ok(End::HandedOver { note: String::new(), why }))
    }

    /// What a turn may cost as far as anybody knows: what it is told, and one answer. What it really took is known at its
    /// end, and counts then.
    fn wanted(&self, text: &str) -> Wanted {
        let answer_tokens = u64::from(self.s.harness.settings.answer_tokens_max);
        Wanted { model: self.name.clone(), prompt_tokens: text.len() as u64 / 3, answer_tokens }
    }

    fn count(&mut self, turn: &TurnEnd, started: Instant) {
        let sat = &mut self.sat;
        sat.turns += 1;
        sat.prompt_tokens += turn.usage.prompt_tokens;
        sat.answer_tokens += turn.usage.answer_tokens;
        sat.cached_tokens += turn.usage.cached_tokens;
        sat.tokens_estimated |= turn.usage.estimated;
        let mut tools = turn.tools.clone();
        tools.truncate(64);
        sat.events.push(EventDraft::business(
            "model.answered",
            json!({
                "turn": sat.turns, "model": sat.agent, "prompt_tokens": turn.usage.prompt_tokens,
                "answer_tokens": turn.usage.answer_tokens, "tools": tools, "retries": [],
                "ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            }),
        ));
        let why = match &turn.cancelled {
            Some(Cancelled::Asked(_)) => "a person is asked",
            Some(Cancelled::OutOfTime) => "the time of one session was over",
            Some(Cancelled::Silent) => "it did nothing for too long",
            Some(Cancelled::Wanted) => "the session was stopped",
            None => return,
        };
        let data = json!({"why": why, "heeded": turn.is_answered});
        sat.events.push(EventDraft::business("agent.cancelled", data));
    }

    /// The end of a turn is a claim: the project's own checks, then the verifier. Nothing of the agent runs meanwhile.
    async fn claim(&mut self, turn: &TurnEnd) -> Result<Claim, StepError> {
        let s = self.s;
        let frozen = self.connected.program.freeze();
        if let Err(error) = &frozen {
            let why = "the agent's processes could not be stopped for the verification".to_owned();
            return Ok(Claim::Stands(End::HandedOver { note: explain(error), why }));
        }
        let undone: Vec<(String, String)> =
            s.restore_guarded()?.into_iter().map(|undone| (undone.path, undone.how)).collect();
        self.sat.events.extend(undone.iter().map(|(path, how)| tamper_event(path, how)));
        s.hand_to_sandbox()?;
        s.left(s.snapshot().await?);
        let quality = quality_now(s).await?;
        self.sat.events.extend(quality.events());
        s.left(quality.tree.clone());
        let (reason, ms) = match quality.failed {
            Some((command, output)) => {
                ((0, String::new(), format!("the project's own check `{command}` failed:\n{output}")), 0)
            }
            None => {
                let verdict = verify_now(s, self.feature, Occasion::Claim).await?;
                let refusal = verdict.refusal().map(|r| {
                    let reason = if r.step == 0 { r.reason.clone() } else { format!("{} {}", r.check, r.reason) };
                    (r.step, r.sentence.clone(), reason)
                });
                let ms = verdict.elapsed_ms();
                self.sat.verdicts.push(verdict);
                match refusal {
                    None => return Ok(Claim::Stands(End::Verified { summary: words::summary(&turn.text) })),
                    Some(refusal) => (refusal, ms),
                }
            }
        };
        let (step, sentence, reason) = reason;
        self.sat.refused += 1;
        let (event, place) = refused_event(self.feature, self.sat.refused, (step, &sentence, &reason), ms);
        self.sat.events.push(event);
        if self.sat.refused >= s.harness.settings.claims_max {
            let note = format!("{} claims were refused; the last because of {place}{reason}", self.sat.refused);
            return Ok(Claim::Stands(End::HandedOver { note, why: "the agent asked".to_owned() }));
        }
        if let Err(error) = self.connected.program.thaw() {
            let why = "the agent did not survive the verification".to_owned();
            return Ok(Claim::Stands(End::HandedOver { note: explain(&error), why }));
        }
        Ok(Claim::Refused(words::refused(&format!("{place}{reason}"), &undone)))
    }
}

/// Ends when somebody wants the folder, which whoever listens to people for this run notes.
async fn taken_over(people: &People) {
    let mut looks = tokio::time::interval(LOOK);
    while !people.has_taken_over() {
        looks.tick().await;
    }
}

/// A turn as an answer that is paid for.
fn answer_of(turn: &TurnEnd, name: &str) -> ChatResponse {
    ChatResponse {
        content: String::new(),
        tool_calls: Vec::new(),
        usage: turn.usage,
        finish: Finish::Stop,
        model: name.to_owned(),
        retries: Vec::new(),
        reasoning: Vec::new(),
        answered_by: String::new(),
        passed_over: Vec::new(),
    }
}

enum Claim {
    /// The session is over.
    Stands(End),
    /// The agent goes on with this.
    Refused(String),
}

/// What ends the session beside a claim.
fn ended_by(turn: &TurnEnd) -> Option<End> {
    let handed = |why: &str| Some(End::HandedOver { note: words::summary(&turn.text), why: why.to_owned() });
    match &turn.cancelled {
        Some(Cancelled::Asked(AskedPermission { kind, title, input, .. })) => {
            return Some(End::Asked { kind: kind.clone(), title: title.clone(), input: input.clone() });
        }
        Some(Cancelled::OutOfTime) => return handed("the time of one session was over"),
        Some(Cancelled::Silent) => return handed("the agent did nothing for too long"),
        Some(Cancelled::Wanted) => {
            let why = "a person has taken the folder over".to_owned();
            return Some(End::CalledOff { note: words::summary(&turn.text), why });
        }
        None => {}
    }
    match turn.reason {
        StopReason::Refusal => handed("the agent's model refused"),
        StopReason::Cancelled => handed("the agent stopped"),
        StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests => {
            words::hand_over(&turn.text).map(|note| End::HandedOver { note, why: "the agent asked".to_owned() })
        }
    }
}
