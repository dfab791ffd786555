//! A community: a coordinator who asks experts, each in the expert's channel, and merges what they answer.
//!
//! It owns who is asked (`routing`, pure), the coordinator's execution (`coordinator`) and what is remembered of
//! solved questions (`memory`). Experts are agents of files ([`super::Mind`]). The coordinator asks over the network like
//! everybody else, so an expert may be anywhere and anybody. Invariants: a question is answered once; an expert that
//! fails or is silent beyond its time is replaced by the next best, and left alone when it goes on failing; what is
//! answered from memory says so.

mod coordinator;
mod memory;
mod routing;

pub use coordinator::{Coordinator, CoordinatorSettings, ExpertAnswer, Inquiry};
pub use memory::{COLLABORATION, KNOWLEDGE, Outcome, Recalled, SOLUTIONS};
pub use routing::{Choice, Expert, KEYWORDS, keywords_of, route};

use longhaul_network::{Refusal, settings::NetworkSettings};
use serde_json::Value;

/// Who there is, as the older form of `network.yaml` says under `agents`.
#[derive(Debug, Clone, Default)]
pub struct Members {
    /// The coordinator's name.
    pub coordinator: Option<String>,
    /// The channels where it is asked.
    pub channels: Vec<String>,
    /// The experts.
    pub experts: Vec<Expert>,
}

impl Members {
    /// Reads `agents.NAME: {type, domain, description, channels, keywords}`.
    ///
    /// # Errors
    /// A name that is none.
    pub fn of(settings: &NetworkSettings) -> Result<Self, Refusal> {
        let mut members = Self::default();
        let Some(Value::Object(agents)) = settings.rest.get("agents") else { return Ok(members) };
        for (name, about) in agents {
            let word = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let texts = |key: &str| -> Vec<String> {
                let list = about.get(key).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
            };
            match word("type").as_str() {
                "coordinator" => {
                    members.coordinator = Some(name.clone());
                    members.channels = texts("channels");
                }
                "expert" => {
                    let domain = word("domain");
                    let channel = texts("channels").into_iter().next().unwrap_or_else(|| format!("{domain}_channel"));
                    let named = texts("keywords");
                    let keywords = if named.is_empty() { keywords_of(&domain) } else { named };
                    members.experts.push(Expert { agent: name.parse()?, domain, channel, keywords });
                }
                _ => {}
            }
        }
        Ok(members)
    }
}
