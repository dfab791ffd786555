//! What the social graph says of itself.

use longhaul_network::{Manifest, Pattern};

use super::NAME;
use crate::offered::{Field, asks, does, notices, tool};

const AGENT: Field = ("agent_id", "string", "the agent");
const WHOSE: Field = ("agent_id", "string", "whose; your own by default");

pub(super) fn manifest() -> Manifest {
    let filter: Field = (
        "filter",
        "object",
        "fields of capabilities: of a list one entry has to be there, an object has to fit part by part, anything else \
         has to be equal",
    );
    Manifest {
        name: NAME.to_owned(),
        aliases: ["discovery", "agent_discovery", "social"].map(str::to_owned).to_vec(),
        version: "1.0".to_owned(),
        description: "What agents can do, who follows whom, whom to trust with what, who knows about something."
            .to_owned(),
        capabilities: ["discovery", "follow", "trust", "experts"].map(str::to_owned).to_vec(),
        answers: vec![
            tool(
                "set_capabilities",
                does(
                    "discovery.capabilities.set",
                    "Says what you can do; replaces what you said before. `skills`, `tags`, `keywords`, `domain`, \
                     `description`, `input_modes` and `output_modes` are what tasks are routed by.",
                    &[("capabilities", "object", "any fields, at most 64 KiB")],
                    1,
                ),
            ),
            tool("get_agent_capabilities", asks("discovery.capabilities.get", "What an agent can do.", &[AGENT], 1)),
            tool(
                "search_agents",
                asks("discovery.agents.search", "Agents whose capabilities fit a filter.", &[filter], 0),
            ),
            tool(
                "list_agents",
                asks(
                    "discovery.agents.list",
                    "All agents with their capabilities.",
                    &[filter, ("only_present", "boolean", "without those that are away")],
                    0,
                ),
            ),
            tool(
                "find_experts",
                asks(
                    "social.experts.find",
                    "Who knows most about a question: by capabilities, words, outcomes of earlier tasks, and load.",
                    &[
                        ("question", "string", "in any language"),
                        (
                            "required_capabilities",
                            "object",
                            "skills, tags, input_modes, output_modes; or a list of words",
                        ),
                        ("limit", "integer", "5 by default"),
                    ],
                    0,
                ),
            ),
            tool("follow_agent", does("social.follow", "Follows an agent; it is told.", &[AGENT], 1)),
            tool("unfollow_agent", does("social.unfollow", "Ends following.", &[AGENT], 1)),
            asks("social.following.list", "Whom an agent follows.", &[WHOSE], 0),
            asks("social.followers.list", "Who follows an agent.", &[WHOSE], 0),
            tool(
                "get_agent_trust",
                asks(
                    "social.trust.get",
                    "How far outcomes of tasks speak for an agent, 0 to 1, in general and by area.",
                    &[AGENT],
                    1,
                ),
            ),
        ],
        emits: notices(&[
            ("discovery.notification.capabilities_updated", "`agent_id`, `capabilities`, to everybody"),
            (
                "discovery.notification.agent_connected",
                "`agent_id`, `agent_group`, `capabilities`; with broadcast_connection",
            ),
            ("discovery.notification.agent_disconnected", "`agent_id`; with broadcast_disconnection"),
            ("social.notification.followed", "`follower_id`, to the agent that is followed"),
        ]),
        observes: ["system.notification.register_agent", "system.notification.unregister_agent"]
            .map(Pattern::new)
            .to_vec(),
    }
}
