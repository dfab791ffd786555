use longhaul_durable::GraphState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct TwoReducers {
    #[append]
    #[reduce(merge)]
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct AppendTakesNothing {
    #[append(merge)]
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct NoFunction {
    #[reduce]
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct WrongWord {
    #[reduce(merge, into = u8)]
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
#[append]
struct WrongPlace {
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
#[graph_state(updates = Other)]
struct WrongOption {
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
struct Skipped {
    #[serde(default, skip)]
    list: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize, GraphState)]
#[serde(rename_all = "camelCase")]
struct Renamed {
    list: Vec<u8>,
}

fn main() {}
