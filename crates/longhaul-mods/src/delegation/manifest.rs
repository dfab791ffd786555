//! What the mod of tasks says of itself.

use longhaul_network::{Manifest, ModEvent};

use super::NAME;
use crate::offered::{Field, asks, does, notices, tool};

const TASK: Field = ("task_id", "string", "the task");
const DESCRIPTION: Field = ("description", "string", "what is to be done, in words");
const PAYLOAD: Field = ("payload", "object", "whatever it needs");
const TIMEOUT: Field = ("timeout_seconds", "number", "300 by default; then it has failed, or goes to the next one");

pub(super) fn manifest() -> Manifest {
    let mut answers = giving();
    answers.extend(doing());
    answers.extend([
        tool(
            "list_tasks",
            asks(
                "task.list",
                "Tasks you gave or have.",
                &[
                    ("filter", "object", "role: delegated_by_me (the default), assigned_to_me or any; status: a list"),
                    ("limit", "integer", "20 by default"),
                    ("offset", "integer", "entries before them"),
                ],
                0,
            ),
        ),
        does("task.expire", "A deadline, which comes by itself; from anybody else it is refused.", &[TASK], 1),
        tool("get_task", asks("task.get", "A task you gave or have, with its reports.", &[TASK], 1)),
    ]);
    Manifest {
        name: NAME.to_owned(),
        aliases: ["delegation", "task_delegation"].map(str::to_owned).to_vec(),
        version: "1.0".to_owned(),
        description: "Tasks from one agent to another, with progress and deadlines, and routing to who fits."
            .to_owned(),
        capabilities: ["delegation", "routing", "deadlines", "rerouting"].map(str::to_owned).to_vec(),
        answers,
        emits: notices(&[
            ("task.notification.assigned", "the task, to its assignee"),
            ("task.notification.accepted", "`task_id`, `assignee_id`, to the delegator"),
            ("task.notification.rejected", "`task_id`, `assignee_id`, `reason`, to the delegator"),
            ("task.notification.progress", "`task_id`, `assignee_id`, `progress`, to the delegator"),
            ("task.notification.completed", "`task_id`, `assignee_id`, `result`, to the delegator"),
            ("task.notification.failed", "`task_id`, `assignee_id`, `error`, to the delegator"),
            ("task.notification.canceled", "`task_id`, `delegator_id`, to the assignee"),
            ("task.notification.timeout", "the task, to the assignee, and to the delegator when nobody else has it"),
            ("task.notification.rerouted", "`previous_assignee_id`, `assignee_id`, `reason`, to the delegator"),
        ]),
        observes: Vec::new(),
    }
}

fn giving() -> Vec<ModEvent> {
    vec![
        tool(
            "delegate_task",
            does(
                "task.delegate",
                "Gives a task to an agent.",
                &[("assignee_id", "string", "who is to do it"), DESCRIPTION, PAYLOAD, TIMEOUT],
                2,
            ),
        ),
        tool(
            "route_task",
            does(
                "task.route",
                "Gives a task to whoever fits best and is there: everything required has to be there; words, outcomes \
                 and load decide between those. Declined, failed or too late it goes to the next one, three in all.",
                &[
                    DESCRIPTION,
                    ("required_capabilities", "object", "skills, tags, input_modes, output_modes; or a list of words"),
                    ("capability_description", "string", "more words to find who fits"),
                    ("selection_strategy", "string", "best (the default), first, random, least_busy or trust"),
                    ("fallback_assignee_id", "string", "who gets it when nobody fits"),
                    ("excluded_agents", "texts", "who does not get it"),
                    ("reroute", "boolean", "false: it is given to one agent only"),
                    PAYLOAD,
                    TIMEOUT,
                ],
                1,
            ),
        ),
        tool("cancel_task", does("task.cancel", "Ends a task you gave.", &[TASK], 1)),
        tool(
            "rate_task",
            does(
                "task.rate",
                "Says whether the result of a task you gave was good; without it it counts as good.",
                &[TASK, ("good", "boolean", "whether it was")],
                2,
            ),
        ),
    ]
}

fn doing() -> Vec<ModEvent> {
    vec![
        tool("accept_task", does("task.accept", "Accepts a task you were given.", &[TASK], 1)),
        tool(
            "reject_task",
            does("task.reject", "Declines a task you were given.", &[TASK, ("reason", "string", "why")], 1),
        ),
        tool(
            "report_task_progress",
            does(
                "task.report",
                "Says how far you are.",
                &[TASK, ("progress", "object", "message, for people, and data")],
                2,
            ),
        ),
        tool(
            "complete_task",
            does("task.complete", "Hands in the result.", &[TASK, ("result", "object", "what came of it")], 1),
        ),
        tool("fail_task", does("task.fail", "Says that it cannot be done.", &[TASK, ("error", "string", "why")], 1)),
    ]
}
