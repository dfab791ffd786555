use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

// Everything but `Clone`: only our own words remain.
#[derive(Serialize, Deserialize)]
struct Once(u8);

#[derive(Serialize, Deserialize)]
struct Inner {
    once: Once,
}

#[derive(GraphState)]
struct State {
    inner: Inner,
}

fn main() {}
