//! Paths by which the reference's Studio changes a network, its agents' sources and their environment. There is none of
//! that here, and each says what to do instead; no credential is asked for, as nothing can be done.

use axum::{Router, http::StatusCode, routing::any};
use longhaul_network::{Refusal, RefusalKind};

use super::Failure;
use crate::front::Front;

/// A beginning of paths, and what to do instead.
const INSTEAD: [(&str, &str); 7] = [
    ("/api/admin", "a network is changed in its network.yaml, and started again"),
    ("/api/network", "a network is made by `longhaul network init` and changed in its network.yaml"),
    ("/api/agents/service", "agents are started by `longhaul agent start FILE`; their sources are not served"),
    ("/api/templates", "a network is made by `longhaul network init`"),
    ("/api/assets", "files are shared by /api/cache/upload or thread.file.upload"),
    ("/api/relay", "there is no relay: give the network an address and tls"),
    ("/studio", "there is no Studio in this program: `longhaul network status`, `top` and `chat` show a network"),
];

pub(super) fn routes() -> Router<Front> {
    INSTEAD.iter().fold(Router::new(), |router, (beginning, instead)| {
        let refuse = move || async move {
            let refusal = Refusal::new(RefusalKind::Unavailable, format!("not served here: {instead}"));
            Failure::new(StatusCode::NOT_IMPLEMENTED, &refusal)
        };
        let beneath = [format!("{beginning}/"), format!("{beginning}/{{*rest}}")];
        beneath.iter().fold(router.route(beginning, any(refuse)), |router, path| router.route(path, any(refuse)))
    })
}
