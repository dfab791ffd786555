//! Who calls: a member with its secret, or whoever shows the token that all outside callers share.
//!
//! Invariant: a caller is who its credential says, never who a field of the request says.

use std::fmt;

use longhaul_network::{AgentId, Member, Network, Registration, Via};
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    bridge::{SHARED_OWNER, SHARED_PREFIX},
    error::A2aError,
    service::{Caller, Service},
    settings::A2aSettings,
    speech,
};

/// Events that are taken out of the shared member's queue at once.
const DRAINED_MAX: usize = 256;

/// The member that speaks for all who have no name of their own here. Made when the first of them calls; a new one for
/// each process, as its secret is kept nowhere.
#[derive(Default)]
pub(crate) struct Shared(Mutex<Option<Member>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    async fn caller(&self, network: &Network, settings: &A2aSettings) -> Result<Caller, A2aError> {
        let mut member = self.0.lock().await;
        if let Some(known) = member.as_ref().filter(|known| network.touch(known).is_ok()) {
            return Ok(Caller { member: known.clone(), owner: SHARED_OWNER.to_owned() });
        }
        let name = format!("{SHARED_PREFIX}{}", network.store().ambient().ids.body());
        let mut registration = Registration::new(name.parse()?, Via::A2a);
        registration.group.clone_from(&settings.group);
        registration.metadata = speech::object(json!({ "name": "callers over A2A", "type": "gateway" }));
        let registered = network.register(registration).await?;
        *member = Some(registered.member.clone());
        Ok(Caller { member: registered.member, owner: SHARED_OWNER.to_owned() })
    }

    /// Takes what was sent to the shared member out of its queue: its callers read their tasks, not its events.
    pub(crate) async fn drain(&self, network: &Network, caller: &Caller) {
        if caller.owner != SHARED_OWNER {
            return;
        }
        let Ok(mut inbox) = network.inbox(&caller.member, None) else { return };
        if let Ok(received) = inbox.next(DRAINED_MAX, std::time::Duration::ZERO).await
            && !received.events.is_empty()
        {
            inbox.acknowledge(received.cursor);
        }
    }
}

impl Service {
    /// Who calls with this `Authorization`.
    pub(crate) async fn caller(&self, authorization: Option<&str>) -> Result<Caller, A2aError> {
        let shown = authorization.map(str::trim).filter(|shown| !shown.is_empty());
        let Some(shown) = shown else {
            return match self.settings.anybody {
                true => self.shared.caller(&self.network, &self.settings).await,
                false => Err(A2aError::Unauthenticated),
            };
        };
        let bearer = shown.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, credential)) = bearer else { return Err(A2aError::Unauthenticated) };
        let credential = credential.trim();
        if self.settings.token.as_deref().is_some_and(|token| same(token, credential)) {
            return self.shared.caller(&self.network, &self.settings).await;
        }
        let (agent, secret) = credential.rsplit_once(':').ok_or(A2aError::Unauthenticated)?;
        let agent: AgentId = agent.parse().map_err(|_| A2aError::Unauthenticated)?;
        let member = self.network.authenticate(&agent, secret).map_err(|_| A2aError::Unauthenticated)?;
        self.network.touch(&member)?;
        Ok(Caller { owner: member.agent().to_string(), member })
    }
}

/// Whether two texts are equal, in a time that says nothing of where they differ.
fn same(known: &str, shown: &str) -> bool {
    let differ = known.bytes().zip(shown.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    known.len() == shown.len() && std::hint::black_box(differ) == 0
}
