use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
enum Either {
    One,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Pair(u8, u8);

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Of<T> {
    one: T,
}

fn main() {}
