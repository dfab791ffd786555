//! Answers by token: whoever was given it may answer, whoever that is.
//!
//! It owns the tokens. Invariants: only a token's hash is ever stored; it is made of 256 random bits, answers one wait,
//! and is good until that wait ends or gets another.

use std::{fmt, future::Future, str::FromStr};

use longhaul_core::{Ambient, Digest, Scope};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Answer, Continued, DurableError, Effect, GivenAnswer, NodeContext, NodeError, Runtime, StepError, Wait, WaitId,
    answering,
    records::{executions, waits},
};

/// The right to answer one wait: `hook_` and 64 hexadecimal digits, fit for an address. It is shown by
/// [`Self::reveal`] and not by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct WaitToken(String);

/// A text that is not a token. It does not repeat the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a token: expected `hook_` and 64 hexadecimal digits")]
pub struct WaitTokenError;

impl WaitToken {
    fn new(ambient: &Ambient) -> Self {
        let bits: String = (0..4).map(|_| format!("{:016x}", ambient.rng.next_u64())).collect();
        Self(format!("hook_{bits}"))
    }

    /// The token itself: only for whoever is to answer.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Digest {
        Digest::of_parts([b"wait token 1".as_slice(), self.0.as_bytes()])
    }
}

impl fmt::Debug for WaitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitToken(…)")
    }
}

impl FromStr for WaitToken {
    type Err = WaitTokenError;
    fn from_str(text: &str) -> Result<Self, WaitTokenError> {
        let fits = |digits: &str| digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if text.strip_prefix("hook_").is_some_and(fits) { Ok(Self(text.to_owned())) } else { Err(WaitTokenError) }
    }
}

impl NodeContext {
    /// Waits, after having told whoever is to answer: `announce` gets a token by which a request can. The wait is open
    /// before `announce` is run, so that an answer cannot come too early; it may be of any kind, such as an event that
    /// `announce` causes. `announce` is a recorded step of its own. After a crash in its midst it runs again with
    /// another token, and the first is worth nothing; not so when the answer has come by then.
    ///
    /// # Errors
    /// Those of [`Self::step`] and of [`Self::pause_for`].
    pub fn pause_for_webhook<T, F, W>(
        &self,
        wait: Wait,
        announce: F,
    ) -> impl Future<Output = Result<Answer<T>, NodeError>> + Send
    where
        T: DeserializeOwned + Send,
        F: FnOnce(WaitToken) -> W + Send,
        W: Future<Output = Result<(), StepError>> + Send,
    {
        let context = self.clone();
        async move {
            let name = format!("announce {}", wait.name);
            let opened = context.open_wait::<T>(wait).await.map_err(|error| context.fatal(error))?;
            let work = {
                let (context, id) = (context.clone(), opened.id().clone());
                async move {
                    match context.new_token(id).await? {
                        Some(token) => announce(token).await,
                        None => Ok(()),
                    }
                }
            };
            // Of several announcements only the last one's token is good.
            let effect = Effect::Idempotent { key: context.step_id(&name).to_string() };
            context.step::<(), _>(&name, effect, work).await?;
            context.answer_to(opened).map_err(|error| context.fatal(error))
        }
    }

    /// A new token for an open wait; nothing when it has ended.
    async fn new_token(&self, id: WaitId) -> Result<Option<WaitToken>, StepError> {
        let Some(journal) = self.journal() else { return Ok(None) };
        let token = WaitToken::new(&self.0.run.ambient);
        let hash = token.hash();
        let waits = journal.write(move |pen, tx| waits::set_token(tx, pen.tenant(), &id, &hash)).await?;
        Ok(waits.then_some(token))
    }
}

impl Runtime {
    /// A new token for an open wait, of whatever kind but a timer; one that it had before is worth nothing from now on.
    ///
    /// # Errors
    /// [`DurableError::NoWait`] also for a wait that has ended, [`DurableError::Store`].
    pub async fn renew_token(&self, scope: &Scope, wait: &WaitId) -> Result<WaitToken, DurableError> {
        let token = WaitToken::new(&self.ambient);
        let (scope, id, hash) = (scope.clone(), wait.clone(), token.hash());
        let written = self.store()?.write(move |tx| {
            let known = match waits::by_id(tx, &scope.tenant, &id)? {
                Some(wait) => executions::by_id(tx, &scope, &wait.execution)?.is_some(),
                None => false,
            };
            if known && waits::set_token(tx, &scope.tenant, &id, &hash)? {
                Ok(())
            } else {
                Err(DurableError::NoWait { wait: id })
            }
        });
        written.await?;
        Ok(token)
    }

    /// Answers the wait to which this token belongs, as [`Self::continue_with`] does; the token says whose it is.
    ///
    /// # Errors
    /// [`DurableError::NoToken`]; those of [`Self::continue_with`].
    pub async fn answer_by_token(
        &self,
        token: &WaitToken,
        value: Value,
        request_id: &str,
    ) -> Result<Continued, DurableError> {
        let (hash, request_id) = (token.hash(), request_id.to_owned());
        let written = self.store()?.write(move |tx| {
            let Some((tenant, id)) = waits::by_token(tx, &hash)? else { return Ok(Err(DurableError::NoToken)) };
            let Some(wait) = waits::by_id(tx, &tenant, &id)? else { return Ok(Err(DurableError::NoToken)) };
            let Some(execution) = executions::of_tenant(tx, &tenant, &wait.execution)? else {
                return Ok(Err(DurableError::NoToken));
            };
            let answer = GivenAnswer { wait: id, value, request_id, actor: "webhook".to_owned() };
            answering::accept(tx, &execution.scope.scope, &answer)
        });
        written.await?
    }
}
