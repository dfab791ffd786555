use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct State {
    #[append]
    count: u64,
}

fn main() {}
