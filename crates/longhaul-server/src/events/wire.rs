//! The form in which clients are told what happened. The only type that events streams and webhooks carry.
//!
//! Invariant: it is made of business events and nothing else; entries of the log for developers have no way in. What
//! `longhaul-durable` tells of executions is told with the fields of its closed list, not with those of its rows.

use longhaul_core::{Event, EventId, ExecutionId, SessionId, TaskId, TimeMs, TraceId, UserId, Visibility};
use longhaul_durable::BusinessEvent;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Version of [`WireEvent`].
pub const WIRE_EVENT_V: u32 = 1;

/// Something that happened and that people may be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WireEvent {
    /// Version of this form: 1.
    #[schema(example = 1)]
    pub v: u32,
    /// Its place in the log, rising, with gaps. Give it as `after` or `Last-Event-ID` to go on behind it.
    #[schema(example = 4711)]
    pub seq: i64,
    /// Its identity, for ever.
    #[schema(value_type = String, example = "evt_0192f0c2a1b2deadbeefdeadbeef")]
    pub id: EventId,
    /// When it was committed, milliseconds since 1970.
    #[schema(value_type = i64, example = 1_700_000_000_000_i64)]
    pub at: TimeMs,
    /// Dotted name, the subject first: `wait.opened`.
    #[serde(rename = "type")]
    #[schema(example = "wait.opened")]
    pub kind: String,
    /// Whose it is.
    #[schema(value_type = String, example = "user_anna")]
    pub user: UserId,
    /// The conversation.
    #[schema(value_type = String)]
    pub session: SessionId,
    /// The task.
    #[schema(value_type = String)]
    pub task: TaskId,
    /// Joins what one request caused.
    #[schema(value_type = String)]
    pub trace: TraceId,
    /// The execution that caused it, if one did.
    #[schema(value_type = Option<String>)]
    pub execution: Option<ExecutionId>,
    /// Where in the execution.
    pub step: Option<String>,
    /// What happened, by type.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl WireEvent {
    /// What clients are told of an entry of the log, if anything.
    pub(crate) fn of(event: Event) -> Option<Self> {
        let data = match BusinessEvent::of(&event) {
            Some(BusinessEvent::Custom { data, .. }) => data,
            Some(known) => {
                let mut fields = serde_json::to_value(&known).ok()?;
                fields.as_object_mut()?.remove("type");
                fields
            }
            None if event.visibility == Visibility::Business && event.execution.is_none() => event.data,
            None => return None,
        };
        let Event { seq, id, at, scope, execution, step, kind, .. } = event;
        Some(Self {
            v: WIRE_EVENT_V,
            seq,
            id,
            at,
            kind,
            user: scope.scope.user,
            session: scope.session,
            task: scope.task,
            trace: scope.trace,
            execution,
            step,
            data,
        })
    }
}

/// Which types of events are wanted: all, or those that are named. `wait.*` stands for every type with this subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeFilter(Vec<String>);

/// A text that names no type of event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no type of event: expected a dotted name such as `wait.opened`, or `wait.*`, at most {TYPES_MAX} of them"
)]
pub struct TypeFilterError(String);

const TYPES_MAX: usize = 64;
const TYPE_CHARS_MAX: usize = 128;

impl TypeFilter {
    /// From names; none stands for all.
    ///
    /// # Errors
    /// [`TypeFilterError`].
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TypeFilterError> {
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            let body = name.strip_suffix(".*").unwrap_or(name);
            let fits = !body.is_empty()
                && name.len() <= TYPE_CHARS_MAX
                && kept.len() < TYPES_MAX
                && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':'));
            if !fits && name != "*" {
                return Err(TypeFilterError(name.chars().take(80).collect()));
            }
            kept.push(name.to_owned());
        }
        if kept.iter().any(|name| name == "*") {
            kept.clear();
        }
        Ok(Self(kept))
    }

    /// Reads `wait.opened,execution.*`, as it stands in an address.
    ///
    /// # Errors
    /// [`TypeFilterError`].
    pub fn parse(text: &str) -> Result<Self, TypeFilterError> {
        Self::new(text.split(',').map(str::trim).filter(|name| !name.is_empty()))
    }

    /// The names; none for all.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether events of this type are wanted.
    #[must_use]
    pub fn takes(&self, kind: &str) -> bool {
        let fits = |name: &String| match name.strip_suffix('*') {
            Some(subject) => kind.starts_with(subject),
            None => kind == name,
        };
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::TaskScope;
    use serde_json::json;

    use super::*;

    fn entry(kind: &str, visibility: Visibility, execution: Option<&str>, data: Value) -> Event {
        Event {
            v: 1,
            seq: 7,
            id: EventId::from_body("1"),
            at: TimeMs(5),
            scope: TaskScope::single_user(),
            execution: execution.map(ExecutionId::from_body),
            step: None,
            kind: kind.to_owned(),
            visibility,
            data,
        }
    }

    #[test]
    fn nothing_internal_is_told() {
        let secret = json!({ "wait": "wait_1", "name": "n", "actor": "a", "row": "internal" });
        assert_eq!(WireEvent::of(entry("node.ran", Visibility::Internal, Some("1"), secret.clone())), None);
        assert_eq!(WireEvent::of(entry("audit.kept", Visibility::Internal, None, secret.clone())), None);
        // Of what the engine tells, only the fields of its list are.
        let told = WireEvent::of(entry("wait.answered", Visibility::Business, Some("1"), secret)).unwrap();
        assert_eq!(
            (told.kind.as_str(), told.data),
            ("wait.answered", json!({ "wait": "wait_1", "name": "n", "actor": "a" }))
        );
    }

    #[test]
    fn what_owners_tell_is_told_with_and_without_an_execution() {
        for execution in [None, Some("1")] {
            let told =
                WireEvent::of(entry("record.ingested", Visibility::Business, execution, json!({ "record": "rec_1" })));
            let told = told.unwrap();
            assert_eq!((told.kind.as_str(), &told.data), ("record.ingested", &json!({ "record": "rec_1" })));
            let text = serde_json::to_value(&told).unwrap();
            assert_eq!(text["type"], "record.ingested");
            assert_eq!(serde_json::from_value::<WireEvent>(text).unwrap(), told);
        }
    }

    #[test]
    fn types_are_chosen_by_name_or_subject() {
        let filter = TypeFilter::parse("wait.opened, execution.*").unwrap();
        assert!(filter.takes("wait.opened") && filter.takes("execution.failed"));
        assert!(!filter.takes("wait.answered") && !filter.takes("executions"));
        assert!(TypeFilter::parse("").unwrap().takes("anything"));
        assert!(TypeFilter::parse("wait.opened,*").unwrap().takes("anything"));
        for wrong in ["wait opened", "w*", "*.opened", ".*", "漢"] {
            assert!(TypeFilter::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(TypeFilter::new(std::iter::repeat_n("a.b", 65)).is_err());
    }
}
