use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct State {
    browser: std::sync::Arc<std::process::Child>,
}

fn main() {}
