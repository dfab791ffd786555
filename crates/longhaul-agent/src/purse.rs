//! The port through which a conversation pays: each request is reserved before it is made and settled with its answer.
//!
//! It owns no money and no limits; whoever has them implements [`Purse`]. Invariant: a request is made only after its
//! prompt and its longest answer were reserved, and what was reserved counts whole until the answer is recorded.

use async_trait::async_trait;
use longhaul_model::ChatResponse;
use longhaul_store::{StoreError, Tx};

/// What a request may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The model that is asked.
    pub model: String,
    /// Tokens of the prompt, as estimated and corrected by what the service said so far.
    pub prompt_tokens: u64,
    /// Most tokens of the answer.
    pub answer_tokens: u64,
}

impl Wanted {
    /// All of it.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.answer_tokens)
    }
}

/// What was reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its name in the purse.
    pub id: String,
    /// For what.
    pub wanted: Wanted,
}

/// What a purse says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It may be made.
    Granted(Reservation),
    /// It may not: it could go beyond this limit, in words such as "100,000 tokens of the project".
    Refused {
        /// Which limit.
        why: String,
    },
}

/// Why nothing came of a request that was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// The service refused it or was never reached: it cost nothing.
    Free,
    /// It may have been carried out: it counts whole.
    Whole,
}

/// Pays for requests.
#[async_trait]
pub trait Purse: Send + Sync {
    /// Reserves a request, durably, before it is made.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn reserve(&self, wanted: Wanted) -> Result<Reserved, StoreError>;

    /// Nothing came of it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn unused(&self, reservation: &Reservation, how: Unused) -> Result<(), StoreError>;

    /// Puts what the answer really took in the reservation's place, in the transaction that records the answer.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn settle(&self, tx: &mut Tx<'_>, reservation: &Reservation, answer: &ChatResponse) -> Result<(), StoreError>;

    /// Whether so little is left that the agent should hand over while it still can, given what the next request may
    /// cost: which limit, in words as in [`Reserved::Refused`].
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn nearly_spent(&self, next: &Wanted) -> Result<Option<String>, StoreError>;
}

/// A purse without a bottom, which keeps no account.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

#[async_trait]
impl Purse for Unlimited {
    async fn reserve(&self, wanted: Wanted) -> Result<Reserved, StoreError> {
        Ok(Reserved::Granted(Reservation { id: String::new(), wanted }))
    }

    async fn unused(&self, _: &Reservation, _: Unused) -> Result<(), StoreError> {
        Ok(())
    }

    fn settle(&self, _: &mut Tx<'_>, _: &Reservation, _: &ChatResponse) -> Result<(), StoreError> {
        Ok(())
    }

    async fn nearly_spent(&self, _: &Wanted) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}
