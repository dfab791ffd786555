//! From business events to lines a person reads. A state machine without I/O: an event in, finished lines out, and at any
//! time the one line that says what is going on now. Unknown kinds change nothing, as a newer log may hold them.

use serde_json::Value;

use super::style::{Glyph, Ink, Style, count, duration, tokens};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Sessions, verdicts, refusals.
    Normal,
    /// Every answer of the model and every tool call too.
    Verbose,
}

/// What has been seen so far.
#[derive(Debug)]
pub(crate) struct View {
    style: Style,
    detail: Detail,
    /// Lines of a session are indented below its headline.
    in_session: bool,
    /// The newest session's number.
    session: u64,
    headline: String,
    step: String,
    answers: u64,
    calls: u64,
    tokens: u64,
}

/// Columns before the text of a line within a session: two spaces, the mark, a space.
const INDENT: usize = 4;

impl View {
    pub(crate) fn new(style: Style, detail: Detail) -> Self {
        let (headline, step) = (String::new(), String::new());
        Self { style, detail, in_session: false, session: 0, headline, step, answers: 0, calls: 0, tokens: 0 }
    }

    /// The line for "now": where, what, how many tokens.
    pub(crate) fn now(&self) -> String {
        let mut parts = vec![self.headline.as_str(), self.step.as_str()];
        let spent = if self.tokens > 0 { format!("{} tokens", tokens(self.tokens)) } else { String::new() };
        parts.push(&spent);
        parts.retain(|part| !part.is_empty());
        let columns = self.style.columns.unwrap_or(100).saturating_sub(16); // spinner, elapsed time
        self.style.fit(&parts.join(self.style.dot()), columns)
    }

    /// Something began that is not worth a line of its own.
    pub(crate) fn step(&mut self, what: &str) {
        what.clone_into(&mut self.step);
    }

    /// Takes an event; gives the lines it adds, ready to print.
    pub(crate) fn apply(&mut self, kind: &str, data: &Value) -> Vec<String> {
        self.step.clear();
        let mut lines = self.orientation(kind);
        lines.extend(self.told(kind, data));
        lines
    }

    /// A session looks at the project before it knows what it will be for: its block begins with the first such event.
    fn orientation(&mut self, kind: &str) -> Vec<String> {
        let looks = matches!(kind, "app.booted" | "app.failed" | "regression.checked" | "feature.broken");
        if self.in_session || !looks {
            return Vec::new();
        }
        self.in_session = true;
        self.headline = format!("Session {}", self.session + 1);
        vec![
            String::new(),
            format!("{} {}", self.style.glyph(Glyph::Session), self.style.paint(Ink::Strong, &self.headline)),
        ]
    }

    fn told(&mut self, kind: &str, data: &Value) -> Vec<String> {
        match kind {
            "project.initialized" => self.initialized(data),
            "check.proposed" => self.proposed(data),
            "check.decided" => self.decided(data),
            "plan.refused" => {
                self.one(Glyph::Fail, &format!("plan refused at {}: {}", text(data, "place"), text(data, "message")))
            }
            "plan.extended" => {
                let added = count(number(data, "features"), "feature");
                self.one(Glyph::Pass, &format!("{added} planned, {} in all", number(data, "total")))
            }
            "session.started" => self.session_started(data),
            "session.ended" => self.session_ended(data),
            "memory.recalled" => self.recalled(data),
            "app.booted" => {
                self.one(Glyph::Pass, &format!("the application answers after {}", duration(number(data, "ms"))))
            }
            "app.failed" => self.app_failed(data),
            "regression.checked" => self.regression(data),
            "feature.broken" => self.broken(data),
            "model.answered" => self.answered(data),
            "tool.called" => self.called(data),
            "agent.started" => self.one(Glyph::Detail, &format!("{} begins", text(data, "agent"))),
            "tamper.undone" => self.tampered(data),
            "agent.permission" => self.permission(data),
            "claim.refused" => self.refused(data),
            "feature.passed" => self.passed(data),
            "feature.parked" => {
                let mut lines = self.one(Glyph::Notice, &format!("{} is parked", text(data, "feature")));
                lines.push(self.below(text(data, "suspected")));
                lines
            }
            "budget.exhausted" => {
                self.one(Glyph::Notice, &format!("the budget allows no further request: {}", text(data, "limit")))
            }
            "final_check.started" => self.final_check(data),
            "changes.set_aside" => self.one(Glyph::Notice, "unfinished changes are kept aside as a patch"),
            "run.finished" => self.finished(data),
            _ => Vec::new(),
        }
    }

    pub(super) fn one(&self, glyph: Glyph, text: &str) -> Vec<String> {
        let indent = if self.in_session { "  " } else { "" };
        vec![format!("{indent}{} {}", self.style.glyph(glyph), self.style.fit_after(INDENT, text))]
    }

    fn below(&self, text: &str) -> String {
        let text = self.style.fit_after(INDENT + 2, text);
        format!("      {}", self.style.paint(Ink::Faint, &text))
    }

    fn initialized(&self, data: &Value) -> Vec<String> {
        let features = count(number(data, "features"), "feature");
        let sentences = count(number(data, "sentences"), "sentence");
        self.one(Glyph::Pass, &format!("{features} planned, {sentences} to verify{}", self.commit(data)))
    }

    fn proposed(&self, data: &Value) -> Vec<String> {
        let (id, feature) = (text(data, "proposal"), text(data, "feature"));
        let mut lines = self.one(Glyph::Notice, &format!("{id} proposes other checks for {feature}"));
        lines.push(self.below(text(data, "reason")));
        lines
    }

    fn decided(&self, data: &Value) -> Vec<String> {
        let (id, decision, by) = (text(data, "proposal"), text(data, "decision"), text(data, "by"));
        let mut lines = self.one(Glyph::Notice, &format!("{id} {decision} by {by}"));
        lines.push(self.below(text(data, "note")));
        lines
    }

    fn session_started(&mut self, data: &Value) -> Vec<String> {
        let begun = self.in_session;
        (self.answers, self.calls, self.in_session) = (0, 0, true);
        self.session = number(data, "session");
        let title = match text(data, "mode") {
            "initializer" => "Initializer".to_owned(),
            _ => format!("Session {}", self.session),
        };
        let (feature, description) = (text(data, "feature"), text(data, "description"));
        let repair = text(data, "task") == "repair";
        let what = match (feature, repair) {
            ("", _) => String::new(),
            (feature, true) => format!("repair {feature}"),
            (feature, false) => feature.to_owned(),
        };
        self.headline = if what.is_empty() { title.clone() } else { format!("{title}{}{what}", self.style.dot()) };
        let purpose = format!("{what} {description}");
        let ink = if repair { Ink::Notice } else { Ink::Strong };
        let mark = self.style.glyph(Glyph::Session);
        let mut lines = Vec::new();
        if !begun {
            lines.extend([String::new(), format!("{mark} {}", self.style.paint(Ink::Strong, &title))]);
        }
        if !purpose.trim().is_empty() {
            lines.push(format!("  {}", self.style.paint(ink, &self.style.fit_after(2, &purpose))));
        }
        lines
    }

    fn final_check(&mut self, data: &Value) -> Vec<String> {
        self.in_session = true;
        "Final check".clone_into(&mut self.headline);
        let title = self.style.paint(Ink::Strong, "Final check");
        let what = format!("{} once more, from a clean start", count(number(data, "features"), "feature"));
        vec![String::new(), format!("{} {title}  {what}", self.style.glyph(Glyph::Session))]
    }

    fn session_ended(&mut self, data: &Value) -> Vec<String> {
        let spent = number(data, "prompt_tokens") + number(data, "answer_tokens");
        let dot = self.style.dot();
        let mut facts = vec![count(self.answers, "answer"), count(self.calls, "tool call")];
        facts.push(format!("{} tokens", tokens(spent)));
        facts.push(duration(number(data, "ms")));
        let outcome = text(data, "outcome");
        let expected = matches!(outcome, "" | "planned" | "verified");
        let mut lines = Vec::new();
        if !expected {
            lines.extend(
                self.one(Glyph::Notice, &format!("session ended: {}{}", outcome.replace('_', " "), self.commit(data))),
            );
        }
        let facts = self.style.paint(Ink::Faint, &facts.join(dot));
        lines.push(format!("    {facts}"));
        self.in_session = false;
        self.headline.clear();
        lines
    }

    fn recalled(&self, data: &Value) -> Vec<String> {
        let hits = data["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
        if hits.is_empty() {
            return Vec::new();
        }
        let micros = number(data, "elapsed_us");
        let what = if hits.len() == 1 { "1 memory".to_owned() } else { format!("{} memories", hits.len()) };
        let mode = text(data, "mode");
        let mode = if mode.is_empty() { String::new() } else { format!(", {mode} search") };
        let mut lines = self
            .one(Glyph::Recall, &format!("recalled {what} in {}.{} ms{mode}", micros / 1_000, micros % 1_000 / 100));
        let shown = if self.detail == Detail::Verbose { hits.len() } else { 3 };
        for hit in hits.iter().take(shown) {
            let score = hit["score"].as_f64().unwrap_or(0.0);
            let why = if self.detail == Detail::Verbose { format!("  {}", hit["explain"]) } else { String::new() };
            let content = self.style.fit(text(hit, "content"), 100);
            lines.push(self.below(&format!("{score:.2} {content}{why}")));
        }
        lines
    }

    fn app_failed(&self, data: &Value) -> Vec<String> {
        let mut lines = self.one(Glyph::Fail, "the application does not start");
        let log: Vec<&str> = text(data, "log_tail").lines().collect();
        lines.extend(log.iter().skip(log.len().saturating_sub(5)).map(|line| self.below(line)));
        lines
    }

    fn regression(&self, data: &Value) -> Vec<String> {
        let feature = text(data, "feature");
        if data["passed"].as_bool().unwrap_or(false) {
            return self.one(Glyph::Pass, &format!("{feature} still passes ({})", duration(number(data, "ms"))));
        }
        let mut lines = self.one(Glyph::Fail, &format!("{feature} passed before and no longer does"));
        lines.push(self.below(without_check(text(data, "reason"))));
        lines
    }

    fn broken(&self, data: &Value) -> Vec<String> {
        let feature = text(data, "feature");
        self.one(Glyph::Notice, &format!("{feature} is marked as failing and comes first now{}", self.commit(data)))
    }

    fn answered(&mut self, data: &Value) -> Vec<String> {
        self.answers += 1;
        self.tokens += number(data, "prompt_tokens") + number(data, "answer_tokens");
        let retries = data["retries"].as_u64().or_else(|| Some(data["retries"].as_array()?.len() as u64)).unwrap_or(0);
        let mut lines = Vec::new();
        if retries > 0 {
            let times = count(retries, "retry").replace("retrys", "retries");
            lines.extend(self.one(Glyph::Notice, &format!("the model's service answered after {times}")));
        }
        for told in data["told"].as_array().into_iter().flatten() {
            if let Some(sign) = told["stuck"].as_str() {
                lines.extend(self.one(Glyph::Notice, &format!("gets nowhere: {sign}")));
            } else if let Some(why) = told["hand_over"].as_str() {
                lines.extend(self.one(Glyph::Notice, &format!("asked to hand over: {why}")));
            }
        }
        if self.detail == Detail::Verbose {
            let tools: Vec<&str> = data["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let asked = if tools.is_empty() { String::new() } else { format!(", asks for {}", tools.join(", ")) };
            let turn = number(data, "turn");
            let (prompt, answer) = (tokens(number(data, "prompt_tokens")), tokens(number(data, "answer_tokens")));
            lines.extend(self.one(Glyph::Detail, &format!("answer {turn}: {prompt} tokens in, {answer} out{asked}")));
        }
        lines
    }

    fn called(&mut self, data: &Value) -> Vec<String> {
        self.calls += 1;
        if self.detail < Detail::Verbose {
            return Vec::new();
        }
        let failed = data["is_error"].as_bool().unwrap_or(false);
        let glyph = if failed { Glyph::Notice } else { Glyph::Detail };
        self.one(
            glyph,
            &format!("{}: {} ({})", text(data, "tool"), text(data, "summary"), duration(number(data, "ms"))),
        )
    }

    fn tampered(&self, data: &Value) -> Vec<String> {
        let (path, how) = (text(data, "path"), text(data, "how"));
        let how = if how.is_empty() { String::new() } else { format!(" ({how})") };
        self.one(Glyph::Notice, &format!("{path} was changed{how}: undone, only a verdict changes it"))
    }

    /// What an external agent asked for and the policy allows goes by in silence.
    fn permission(&self, data: &Value) -> Vec<String> {
        if text(data, "decision") == "allowed" {
            return Vec::new();
        }
        let (tool, decision, why) = (text(data, "tool"), text(data, "decision"), text(data, "why"));
        let glyph = if decision == "approved" { Glyph::Detail } else { Glyph::Notice };
        self.one(glyph, &format!("{tool} was {decision}: {why}"))
    }

    fn refused(&self, data: &Value) -> Vec<String> {
        let (step, sentence) = (number(data, "step"), text(data, "sentence"));
        let at = if step == 0 { String::new() } else { format!(" at step {step} \"{sentence}\"") };
        let mut lines = self.one(Glyph::Fail, &format!("claim refused: {}{at}", text(data, "feature")));
        lines.push(self.below(without_check(text(data, "reason"))));
        lines
    }

    fn passed(&self, data: &Value) -> Vec<String> {
        let feature = self.style.paint(Ink::Good, &format!("{} passes", text(data, "feature")));
        let took = duration(number(data, "ms"));
        vec![format!(
            "  {} {feature}, every step carried out in {took}{}",
            self.style.glyph(Glyph::Pass),
            self.commit(data)
        )]
    }

    fn finished(&mut self, data: &Value) -> Vec<String> {
        (self.in_session, self.headline) = (false, String::new());
        let (passing, total) = (number(data, "passing"), number(data, "total"));
        let parked: Vec<&str> = data["parked"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let parked_count = data["parked"].as_u64().unwrap_or(parked.len() as u64);
        let spent = number(data, "prompt_tokens") + number(data, "answer_tokens");
        let all = passing == total && total > 0;
        let result = format!("{passing} of {} verified", count(total, "feature"));
        let result = self.style.paint(if all { Ink::Good } else { Ink::Notice }, &result);
        let facts = [
            result,
            count(number(data, "sessions"), "session"),
            format!("{} tokens", tokens(spent)),
            duration(number(data, "ms")),
        ];
        let glyph = self.style.glyph(if all { Glyph::Pass } else { Glyph::Notice });
        let mut lines = vec![String::new(), format!("{glyph} {}", facts.join(self.style.dot()))];
        if parked_count > 0 {
            let names = if parked.is_empty() { String::new() } else { format!(": {}", parked.join(", ")) };
            lines.push(self.below(&format!("{} parked{names}", count(parked_count, "feature"))));
        }
        lines
    }

    fn commit(&self, data: &Value) -> String {
        let commit: String = text(data, "commit").chars().take(8).collect();
        if commit.is_empty() {
            commit
        } else {
            self.style.paint(Ink::Faint, &format!("{}commit {commit}", self.style.dot()))
        }
    }
}

/// A reason begins with the check as JSON; what was seen follows it and is what a person wants to read.
fn without_check(reason: &str) -> &str {
    let mut values = serde_json::Deserializer::from_str(reason).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(_))) => reason.get(values.byte_offset()..).map(str::trim).unwrap_or(reason),
        Some(_) | None => reason,
    }
}

fn text<'a>(data: &'a Value, field: &str) -> &'a str {
    data[field].as_str().unwrap_or_default()
}

fn number(data: &Value, field: &str) -> u64 {
    data[field].as_u64().unwrap_or_default()
}
