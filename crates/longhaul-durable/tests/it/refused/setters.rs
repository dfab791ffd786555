use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct State {
    #[append]
    lines: Vec<String>,
    count: u64,
}

fn main() {
    let _ = StateUpdate::new().lines([1]);
    let _ = StateUpdate::new().count("many");
    let _ = StateUpdate::new().overwrite_count(1);
}
