//! Agents as files: what an agent is told, which model answers, what it reacts to, and what it may spend.
//!
//! It reads the documented form (`agent_id`, `config`, `mods`, `connection`) and the part `longhaul` beside it. It owns no
//! model and no connection. Invariant: a file with unknown keys is read, and each of them is reported; a value that makes
//! no sense is an error with its place.

use std::time::Duration;

use longhaul_network::{AgentId, Pattern, Refusal};
use serde_json::{Map, Value};

use super::{breaker::BreakerSettings, caution::CautionSettings, purse::TokenBudget};

/// What an agent does on an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// Which events.
    pub event: Pattern,
    /// What it is told then.
    pub instruction: String,
}

/// Memory that an agent looks into before it answers, and keeps its answers in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySettings {
    /// Collections that are searched with the message's text.
    pub recall: Vec<String>,
    /// The collection that answers are kept in.
    pub keep: Option<String>,
    /// Memories that are shown.
    pub hits_max: usize,
}

/// Where the network is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// Host name or address.
    pub host: Option<String>,
    /// Port of HTTP.
    pub port: Option<u16>,
    /// `http` unless stated.
    pub transport: Option<String>,
    /// The network's id.
    pub network_id: Option<String>,
}

/// An agent, as its file says.
#[derive(Debug, Clone)]
pub struct AgentFile {
    /// Its name.
    pub agent: AgentId,
    /// `type`, as it was written.
    pub kind: String,
    /// Shown to others: `description`.
    pub description: String,
    /// What it can do, for discovery.
    pub capabilities: Vec<String>,
    /// What it is told always.
    pub instruction: String,
    /// `PROVIDER:NAME`, where the file names a model; `auto` names none.
    pub model: Option<String>,
    /// The model's service.
    pub api_base: Option<String>,
    /// What it reacts to. Without any, and without [`Self::reacts_to_all`]: what is said to it, and what names it.
    pub triggers: Vec<Trigger>,
    /// It answers every message it gets.
    pub reacts_to_all: bool,
    /// Most answers of the model for one message.
    pub iterations_max: u32,
    /// Most tokens of one answer.
    pub answer_tokens_max: u32,
    /// Most tokens of what was said before that are shown.
    pub context_tokens_max: u64,
    /// Longest time for one message.
    pub time_limit: Duration,
    /// Messages at work at once.
    pub concurrency: usize,
    /// Mods whose tools it has, by name or alias; all when none is named.
    pub mods: Vec<String>,
    /// What it may spend.
    pub budget: TokenBudget,
    /// What it does not answer.
    pub caution: CautionSettings,
    /// When others that it asks are left alone.
    pub breaker: BreakerSettings,
    /// Its memory.
    pub memory: MemorySettings,
    /// Where the network is.
    pub connection: Connection,
    /// The group it asks for, and the file with that group's credential.
    pub group: Option<String>,
}

impl AgentFile {
    /// An agent with this name and instruction, and everything else by default.
    #[must_use]
    pub fn new(agent: AgentId, instruction: &str) -> Self {
        Self {
            agent,
            kind: String::new(),
            description: String::new(),
            capabilities: Vec::new(),
            instruction: instruction.to_owned(),
            model: None,
            api_base: None,
            triggers: Vec::new(),
            reacts_to_all: false,
            iterations_max: 10,
            answer_tokens_max: 1_500,
            context_tokens_max: 4_000,
            time_limit: Duration::from_secs(120),
            concurrency: 4,
            mods: Vec::new(),
            budget: TokenBudget::default(),
            caution: CautionSettings::default(),
            breaker: BreakerSettings::default(),
            memory: MemorySettings { hits_max: 3, ..MemorySettings::default() },
            connection: Connection::default(),
            group: None,
        }
    }

    /// Reads a file's text; the second is what was not understood, a line each.
    ///
    /// # Errors
    /// What is no YAML, names no agent, or has a value that makes no sense.
    pub fn read(text: &str) -> Result<(Self, Vec<String>), Refusal> {
        let value: Value = serde_yaml_ng::from_str(text)
            .map_err(|error| Refusal::invalid(format!("the agent's file is no YAML: {error}")))?;
        let Value::Object(top) = value else {
            return Err(Refusal::invalid("the agent's file has to be a list of keys: see the documented form"));
        };
        let mut reader = Reader { notices: Vec::new() };
        let agent = reader.text(&top, "agent_id", "")?.unwrap_or_default();
        if agent.is_empty() {
            return Err(Refusal::invalid("`agent_id` is missing: write the agent's name"));
        }
        let mut file = Self::new(agent.parse()?, "");
        file.kind = reader.text(&top, "type", "")?.unwrap_or_default();
        let empty = Map::new();
        let config = reader.object(&top, "config", "")?.unwrap_or(&empty);
        file.read_config(&mut reader, config)?;
        file.mods = reader.mods(&top)?;
        let connection = reader.object(&top, "connection", "")?.unwrap_or(&empty);
        file.read_connection(&mut reader, connection)?;
        let own = reader.object(&top, "longhaul", "")?.unwrap_or(&empty);
        file.read_own(&mut reader, own)?;
        reader.unknown(&top, "", &["agent_id", "type", "config", "mods", "connection", "longhaul"]);
        Ok((file, reader.notices))
    }

    fn read_config(&mut self, reader: &mut Reader, config: &Map<String, Value>) -> Result<(), Refusal> {
        const AT: &str = "config.";
        self.instruction = reader.text(config, "instruction", AT)?.unwrap_or_default();
        let provider = reader.text(config, "provider", AT)?.filter(|name| name != "auto");
        let model = reader.text(config, "model_name", AT)?.filter(|name| name != "auto");
        self.model = model.map(|name| match (&provider, name.contains(':')) {
            (_, true) => name,
            (Some(provider), false) if provider == "claude" => format!("anthropic:{name}"),
            (Some(provider), false) if matches!(provider.as_str(), "anthropic" | "cassette") => {
                format!("{provider}:{name}")
            }
            // Every other service speaks OpenAI's protocol at its `api_base`.
            _ => format!("openai:{name}"),
        });
        self.api_base = reader.text(config, "api_base", AT)?;
        self.reacts_to_all = reader.flag(config, "react_to_all_messages", AT)?.unwrap_or(false);
        self.iterations_max = reader.number(config, "max_iterations", AT)?.unwrap_or(self.iterations_max).clamp(1, 200);
        for (place, trigger) in reader.list(config, "triggers", AT)?.iter().enumerate() {
            let at = format!("config.triggers[{place}].");
            let Value::Object(trigger) = trigger else {
                return Err(Refusal::invalid(format!("{at} has to have `event` and `instruction`")));
            };
            let event = reader.text(trigger, "event", &at)?.unwrap_or_default();
            if event.is_empty() {
                return Err(Refusal::invalid(format!("`{at}event` is missing")));
            }
            let instruction = reader.text(trigger, "instruction", &at)?.unwrap_or_default();
            self.triggers.push(Trigger { event: Pattern::new(&event), instruction });
        }
        for key in ["api_key", "mcps", "tools", "reaction_delay"] {
            let said = match key {
                "api_key" => "keys come from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY) and not from files",
                "mcps" => "tools of MCP servers are not given to agents of a network yet",
                "tools" => "Python tools are not run: offer them as a mod, or over a network member that has them",
                _ => "agents answer at once",
            };
            if config.get(key).is_some_and(|value| !value.is_null() && *value != Value::Array(Vec::new())) {
                reader.notices.push(format!("config.{key} is not used: {said}"));
            }
        }
        let known = [
            "instruction",
            "provider",
            "model_name",
            "api_base",
            "react_to_all_messages",
            "max_iterations",
            "triggers",
            "api_key",
            "mcps",
            "tools",
            "reaction_delay",
        ];
        reader.unknown(config, AT, &known);
        Ok(())
    }

    fn read_connection(&mut self, reader: &mut Reader, map: &Map<String, Value>) -> Result<(), Refusal> {
        const AT: &str = "connection.";
        self.connection = Connection {
            host: reader.text(map, "host", AT)?,
            port: reader.number(map, "port", AT)?,
            transport: reader.text(map, "transport", AT)?,
            network_id: reader.text(map, "network_id", AT)?,
        };
        reader.unknown(map, AT, &["host", "port", "transport", "network_id"]);
        Ok(())
    }

    fn read_own(&mut self, reader: &mut Reader, own: &Map<String, Value>) -> Result<(), Refusal> {
        const AT: &str = "longhaul.";
        self.description = reader.text(own, "description", AT)?.unwrap_or_default();
        self.capabilities = reader.texts(own, "capabilities", AT)?;
        self.group = reader.text(own, "group", AT)?;
        self.budget.per_task = reader.number(own, "tokens_per_task", AT)?;
        self.budget.per_agent = reader.number(own, "tokens_per_day", AT)?;
        if let Some(seconds) = reader.number::<u32>(own, "time_limit_seconds", AT)? {
            self.time_limit = Duration::from_secs(u64::from(seconds.max(1)));
        }
        self.concurrency = reader.number(own, "concurrency", AT)?.unwrap_or(self.concurrency).clamp(1, 64);
        self.caution.hops_max = reader.number(own, "hops_max", AT)?.unwrap_or(self.caution.hops_max);
        self.context_tokens_max = reader.number(own, "context_tokens", AT)?.unwrap_or(self.context_tokens_max);
        self.answer_tokens_max = reader.number(own, "answer_tokens", AT)?.unwrap_or(self.answer_tokens_max);
        let empty = Map::new();
        let memory = reader.object(own, "memory", AT)?.unwrap_or(&empty);
        self.memory = MemorySettings {
            recall: reader.texts(memory, "recall", "longhaul.memory.")?,
            keep: reader.text(memory, "keep", "longhaul.memory.")?,
            hits_max: reader.number(memory, "hits", "longhaul.memory.")?.unwrap_or(3).clamp(1, 20),
        };
        reader.unknown(memory, "longhaul.memory.", &["recall", "keep", "hits"]);
        let known = [
            "description",
            "capabilities",
            "group",
            "tokens_per_task",
            "tokens_per_day",
            "time_limit_seconds",
            "concurrency",
            "hops_max",
            "context_tokens",
            "answer_tokens",
            "memory",
        ];
        reader.unknown(own, AT, &known);
        Ok(())
    }

    /// What the agent is told about an event, if it is one that it reacts to.
    #[must_use]
    pub fn reaction(&self, message: &super::heard::Message) -> Option<String> {
        let name = message.name.parse().ok()?;
        if let Some(trigger) = self.triggers.iter().find(|trigger| trigger.event.matches(&name)) {
            return Some(trigger.instruction.clone());
        }
        use super::heard::Way;
        let meant = matches!(message.way, Way::Direct | Way::Mention);
        let said = matches!(message.way, Way::Post | Way::Reply);
        (meant || (said && self.reacts_to_all)).then(String::new)
    }
}

/// Reads keys with their types, and collects what was not understood.
struct Reader {
    notices: Vec<String>,
}

impl Reader {
    fn wrong(at: &str, key: &str, expected: &str) -> Refusal {
        Refusal::invalid(format!("`{at}{key}` has to be {expected}"))
    }

    fn text(&self, map: &Map<String, Value>, key: &str, at: &str) -> Result<Option<String>, Refusal> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Self::wrong(at, key, "a text")),
        }
    }

    fn flag(&self, map: &Map<String, Value>, key: &str, at: &str) -> Result<Option<bool>, Refusal> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(Self::wrong(at, key, "true or false")),
        }
    }

    fn number<T: TryFrom<u64>>(&self, map: &Map<String, Value>, key: &str, at: &str) -> Result<Option<T>, Refusal> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_u64().and_then(|number| T::try_from(number).ok());
                number.map(Some).ok_or_else(|| Self::wrong(at, key, "a whole number, not negative, within its range"))
            }
        }
    }

    fn object<'a>(
        &self,
        map: &'a Map<String, Value>,
        key: &str,
        at: &str,
    ) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(Self::wrong(at, key, "a list of keys")),
        }
    }

    fn list<'a>(&self, map: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a [Value], Refusal> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(Self::wrong(at, key, "a list")),
        }
    }

    fn texts(&self, map: &Map<String, Value>, key: &str, at: &str) -> Result<Vec<String>, Refusal> {
        let texts = self.list(map, key, at)?.iter().map(|text| text.as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(|| Self::wrong(at, key, "a list of texts"))
    }

    fn mods(&mut self, top: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        for (place, module) in self.list(top, "mods", "")?.iter().enumerate() {
            let at = format!("mods[{place}].");
            match module {
                Value::String(name) => names.push(name.clone()),
                Value::Object(module) => {
                    let name = self.text(module, "name", &at)?.unwrap_or_default();
                    if self.flag(module, "enabled", &at)?.unwrap_or(true) && !name.is_empty() {
                        names.push(name);
                    }
                    self.unknown(module, &at, &["name", "enabled", "config"]);
                }
                _ => return Err(Self::wrong(&at, "name", "a text")),
            }
        }
        Ok(names)
    }

    fn unknown(&mut self, map: &Map<String, Value>, at: &str, known: &[&str]) {
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        self.notices.extend(unknown.map(|key| format!("{at}{key} is not known, and not used")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::heard::{Message, Way};

    const FILE: &str = r#"
type: "openagents.agents.collaborator_agent.CollaboratorAgent"
agent_id: "helper"
config:
  model_name: "gpt-4o-mini"
  provider: "openai"
  instruction: "You help."
  react_to_all_messages: false
  max_iterations: 5
  reaction_delay: "random(1,3)"
  mood: "sunny"
  triggers:
    - event: "thread.channel_message.*"
      instruction: "Answer if it is a question."
mods:
  - name: "openagents.mods.workspace.messaging"
    enabled: true
  - name: "openagents.mods.workspace.wiki"
    enabled: false
connection: {host: localhost, port: 8700, transport: grpc, network_id: main}
longhaul:
  tokens_per_task: 20000
  time_limit_seconds: 30
  memory: {recall: [expert_knowledge], keep: expert_knowledge}
"#;

    #[test]
    fn the_documented_form_is_read_and_what_is_not_used_is_said() {
        let (file, notices) = AgentFile::read(FILE).unwrap();
        assert_eq!(file.agent.as_str(), "helper");
        assert_eq!(file.model.as_deref(), Some("openai:gpt-4o-mini"));
        assert_eq!((file.iterations_max, file.time_limit), (5, Duration::from_secs(30)));
        assert_eq!(file.mods, ["openagents.mods.workspace.messaging"]);
        assert_eq!(file.budget, TokenBudget { per_task: Some(20_000), per_agent: None });
        assert_eq!(file.connection.port, Some(8700));
        assert_eq!(file.memory.keep.as_deref(), Some("expert_knowledge"));
        let said = notices.join("\n");
        assert!(said.contains("config.mood is not known") && said.contains("config.reaction_delay"), "{said}");
        assert_eq!(notices.len(), 2, "{said}");
    }

    #[test]
    fn it_reacts_to_its_triggers_and_to_what_is_said_to_it() {
        let (file, _) = AgentFile::read(FILE).unwrap();
        let message = |name: &str, way: Way| Message { name: name.to_owned(), way, ..Message::default() };
        let post = message("thread.channel_message.notification", Way::Post);
        assert_eq!(file.reaction(&post).as_deref(), Some("Answer if it is a question."));
        let direct = message("thread.direct_message.notification", Way::Direct);
        assert_eq!(file.reaction(&direct).as_deref(), Some(""));
        assert_eq!(file.reaction(&message("thread.reply.notification", Way::Reply)), None);
        assert_eq!(file.reaction(&message("forum.topic.created", Way::Other)), None);
    }

    #[test]
    fn what_makes_no_sense_is_an_error_with_its_place() {
        for (text, place) in [
            ("config: {}", "agent_id"),
            ("agent_id: a\nconfig: {max_iterations: many}", "config.max_iterations"),
            ("agent_id: a\nconfig: {triggers: [{instruction: x}]}", "config.triggers[0].event"),
            ("agent_id: a\nconnection: {port: 99999}", "connection.port"),
            ("agent_id: all", "agent id"),
        ] {
            let error = AgentFile::read(text).unwrap_err().to_string();
            assert!(error.contains(place), "{text}: {error}");
        }
    }
}
