//! The compact state of the harness's graph. Features, sessions and verdicts are rows; the state only says where in the
//! story the execution is.

use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

/// Where in the story the execution is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The features are being planned.
    #[default]
    Planning,
    /// Features are being built.
    Coding,
    /// Everything passes; all of it is verified once more.
    FinalCheck,
    /// Every feature passed the final check.
    Done,
    /// Nothing more can be worked on: what is left is parked or waits for something parked.
    Stuck,
}

/// The state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessState {
    /// Where in the story the execution is.
    pub phase: Phase,
    /// Work sessions so far: the initializer's attempts since the plan last grew, and the coding sessions.
    pub sittings: u32,
    /// Coding sessions so far; the number of the newest.
    pub sessions: u32,
}

/// What a node changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessUpdate {
    /// The phase that follows.
    pub phase: Phase,
    /// Whether a coding session took place.
    pub session: bool,
    /// Whether the plan grew: the count of sittings begins anew, as a large plan takes many.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grew: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl GraphState for HarnessState {
    type Update = HarnessUpdate;

    fn apply(&mut self, update: HarnessUpdate) {
        self.phase = update.phase;
        self.sittings = if update.grew { 0 } else { self.sittings + 1 };
        self.sessions += u32::from(update.session);
    }
}
