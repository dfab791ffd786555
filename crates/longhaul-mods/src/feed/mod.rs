//! The mod of the feed.

use std::sync::Arc;

use longhaul_network::{Mod, Refusal, RefusalKind};
use serde_json::{Map, Value};

use crate::Parts;

/// Makes it from its `config`.
pub(crate) fn make(_config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    Err(Refusal::new(RefusalKind::Unavailable, "the mod \"feed\" is not built yet: leave it out of the network's mods"))
}
