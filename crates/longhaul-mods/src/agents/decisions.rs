//! A mod for decisions that several agents make about one object at the same time.
//!
//! An object has versions, from 1; 0 is before the first decision. The rule: **the first decision on a version stands.**
//! One that was made on an older version is refused with what stands, so that its maker can decide again, knowing it;
//! whoever's group has the permission `decide` overrules instead: the decision becomes the next version, and says which
//! it did not know. Invariant: versions rise by one, each from one decision, and nothing that was decided is lost.

use longhaul_network::{
    Event, Manifest, Mod, ModEvent, ModTool, Outcome, Pattern, Prepared, Refusal, Reply, Sender, Stage,
};
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde_json::{Value, json};

/// The mod's name.
pub const NAME: &str = "longhaul.mods.decisions";

/// Longest name of an object, bytes.
const OBJECT_BYTES_MAX: usize = 200;
/// Largest decision when printed, bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Versions that are listed at once.
const HISTORY_MAX: i64 = 100;

/// Makes it; it has no `config`.
pub(crate) fn make(_: &serde_json::Map<String, Value>, _: &crate::Parts) -> Result<std::sync::Arc<dyn Mod>, Refusal> {
    Ok(std::sync::Arc::new(Decisions))
}

/// The mod.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decisions;

impl Mod for Decisions {
    fn manifest(&self) -> Manifest {
        let event = |name: &str, reads_only: bool, tool: &str, description: &str, payload: Value| ModEvent {
            pattern: Pattern::new(name),
            description: description.to_owned(),
            payload,
            reads_only,
            tool: Some(ModTool { name: tool.to_owned(), destination: None }),
        };
        let object = json!({"type": "string", "description": "What is decided about, such as a page or a plan"});
        Manifest {
            name: NAME.to_owned(),
            aliases: vec!["decisions".to_owned()],
            version: "1".to_owned(),
            description: "Decisions about shared objects: the first on a version stands, later ones are told so"
                .to_owned(),
            capabilities: vec!["decisions".to_owned()],
            answers: vec![
                event(
                    "decision.make",
                    false,
                    "make_decision",
                    "Decides about an object, on the version that was seen; refused with what stands when somebody \
                     else was first",
                    json!({"type": "object", "required": ["object", "value"], "properties": {
                        "object": object,
                        "base_version": {"type": "integer", "minimum": 0, "description": "The version seen; 0 for none"},
                        "value": {"description": "What is decided"},
                        "reason": {"type": "string"}}}),
                ),
                event(
                    "decision.get",
                    true,
                    "get_decision",
                    "What stands decided about an object, with its version",
                    json!({"type": "object", "required": ["object"], "properties": {"object": object}}),
                ),
                event(
                    "decision.history",
                    true,
                    "list_decisions",
                    "All decisions about an object, newest first",
                    json!({"type": "object", "required": ["object"], "properties": {"object": object}}),
                ),
            ],
            emits: vec![(
                "decision.notification.made".to_owned(),
                "An object has a new version: object, version, value, agent, reason, overrules".to_owned(),
            )],
            observes: Vec::new(),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _: Prepared) -> Result<Outcome, Refusal> {
        match event.name.as_str() {
            "decision.make" => decide(stage, event).map(Outcome::Answer),
            "decision.get" => {
                let object = object(event)?;
                let found = newest(stage, object)?;
                let message = if found.is_some() { "this stands" } else { "nothing is decided yet" };
                let data = found.unwrap_or_else(|| json!({"object": object, "version": 0, "value": null}));
                Ok(Outcome::Answer(Reply::done(message, Some(data))))
            }
            "decision.history" => {
                let object = object(event)?;
                let (tenant, network) = place(stage);
                let sql = format!("{COLUMNS} ORDER BY version DESC LIMIT ?4");
                let all = stage.rows().query(&sql, &values![&tenant, &network, object, HISTORY_MAX], decision)?;
                Ok(Outcome::Answer(Reply::done("decisions", Some(json!({"object": object, "decisions": all})))))
            }
            _ => Ok(Outcome::Pass),
        }
    }
}

const COLUMNS: &str = "SELECT object, version, base_version, agent_id, value, reason, at FROM network_decisions
     WHERE tenant_id = ?1 AND network_id = ?2 AND object = ?3";

fn decision(row: &Row<'_>) -> Result<Value, StoreError> {
    let (version, base): (i64, i64) = (row.get(1)?, row.get(2)?);
    let value: String = row.get(4)?;
    // What was written here was printed from a value.
    let value: Value = serde_json::from_str(&value).unwrap_or(Value::Null);
    let overrules = (base + 1 < version).then(|| (base + 1..version).collect::<Vec<_>>());
    Ok(json!({
        "object": row.get::<String>(0)?,
        "version": version,
        "agent": row.get::<String>(3)?,
        "value": value,
        "reason": row.get::<String>(5)?,
        "timestamp": row.get::<i64>(6)?,
        "overrules": overrules,
    }))
}

fn place(stage: &Stage<'_, '_>) -> (longhaul_core::TenantId, String) {
    let (scope, network) = stage.place();
    (scope.tenant.clone(), network.to_owned())
}

fn newest(stage: &Stage<'_, '_>, object: &str) -> Result<Option<Value>, Refusal> {
    let (tenant, network) = place(stage);
    let sql = format!("{COLUMNS} ORDER BY version DESC LIMIT 1");
    let rows: ReadTx<'_> = stage.rows();
    Ok(rows.query_optional(&sql, &values![&tenant, &network, object], decision)?)
}

fn object(event: &Event) -> Result<&str, Refusal> {
    let object = event.payload.get("object").and_then(Value::as_str).unwrap_or_default();
    if object.is_empty() || object.len() > OBJECT_BYTES_MAX {
        return Err(Refusal::invalid(format!("`object` is missing or longer than {OBJECT_BYTES_MAX} bytes")));
    }
    Ok(object)
}

fn decide(stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let Sender::Agent(agent) = &event.from else {
        return Err(Refusal::forbidden("decisions are made by agents"));
    };
    let object = object(event)?.to_owned();
    let base = event.payload.get("base_version").and_then(Value::as_i64).unwrap_or(0);
    let value = event.payload.get("value").cloned().unwrap_or(Value::Null);
    let printed = value.to_string();
    if value.is_null() || printed.len() > VALUE_BYTES_MAX {
        return Err(Refusal::invalid(format!("`value` is missing or larger than {VALUE_BYTES_MAX} bytes")));
    }
    let standing = newest(stage, &object)?;
    let version = standing.as_ref().and_then(|now| now.get("version")).and_then(Value::as_i64).unwrap_or(0);
    if base > version || base < 0 {
        return Ok(Reply::refused(format!("{object:?} has no version {base}; the newest is {version}")));
    }
    if base < version && !stage.may(agent, "decide") {
        let data = json!({"conflict": true, "standing": standing});
        let by = standing.as_ref().and_then(|now| now.get("agent")).and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "{by} was first: version {version} of {object:?} stands; look at it and decide again on that version"
        );
        return Ok(Reply { data: Some(data), ..Reply::refused(message) });
    }
    let reason = event.payload.get("reason").and_then(Value::as_str).unwrap_or_default();
    let ((tenant, network), now, next) = (place(stage), stage.now(), version + 1);
    stage.tx().execute(
        "INSERT INTO network_decisions
             (tenant_id, network_id, object, version, base_version, agent_id, value, reason, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![&tenant, &network, &object, next, base, agent.as_str(), printed, reason, now],
    )?;
    let data = newest(stage, &object)?.unwrap_or(Value::Null);
    if let Value::Object(notice) = &data {
        stage.emit(
            event.from.clone(),
            "decision.notification.made",
            longhaul_network::Address::Everybody,
            notice.clone(),
        )?;
    }
    Ok(Reply::done(format!("version {next} of {object:?} is decided"), Some(data)))
}
