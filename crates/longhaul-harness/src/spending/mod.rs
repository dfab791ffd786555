//! What a project may cost and what it has cost: limits in tokens, money and time, reserved before each request.
//!
//! It owns the purse of a session ([`Spending::purse`]) and the limits of a run; how many sessions a run may have is the
//! run's own affair. Invariant: whoever was granted a reservation cannot take the project beyond a limit, as deciding and
//! writing it are one transaction.

mod limits;
mod money;
mod rows;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_agent::{Purse, Reservation, Reserved, Unused, Wanted};
use longhaul_core::{Ambient, TaskScope};
use longhaul_model::{ChatResponse, Usage};
use longhaul_store::{Store, StoreError, Tx};
use tokio::time::Instant;

pub use limits::{BudgetSettings, RunBudget};
pub use money::{Money, MoneyError, Price, Prices};
pub use rows::{Spent, spent};

use self::limits::{Claim, Limits};
use crate::sitting::lock;

/// What runs of this process may spend. Cheap to clone; clones share the state of the run.
#[derive(Clone)]
pub struct Spending {
    store: Store,
    ambient: Ambient,
    run: Arc<Mutex<Run>>,
}

/// The run under way.
struct Run {
    limits: Limits,
    /// Models that may answer in place of the one that is asked.
    others: Vec<String>,
    id: String,
    started: Instant,
    /// As of the newest request.
    spent: Spent,
    /// Why a request of this run could not be paid for: no session after that one begins.
    refused: Option<String>,
}

impl Run {
    /// What was used, with the time of this run until now.
    fn now(&self, spent: Spent) -> Spent {
        let own = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Spent { worked_ms: self.limits.before.worked_ms.saturating_add(own), ..spent }
    }
}

impl Spending {
    /// Spending within these limits.
    #[must_use]
    pub fn new(store: Store, ambient: Ambient, project: BudgetSettings) -> Self {
        let run = Run {
            limits: Limits { project, ..Limits::default() },
            others: Vec::new(),
            id: format!("run_{}", ambient.ids.body()),
            started: Instant::now(),
            spent: Spent::default(),
            refused: None,
        };
        Self { store, ambient, run: Arc::new(Mutex::new(run)) }
    }

    /// With models that may answer in place of the one that is asked: a request is reserved at the dearest price.
    #[must_use]
    pub fn answered_also_by(self, models: Vec<String>) -> Self {
        lock(&self.run).others = models;
        self
    }

    /// A run of a project begins, with limits of its own.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn begin(&self, owner: &TaskScope, budget: RunBudget) -> Result<Spent, StoreError> {
        let of = owner.clone();
        let before = self.store.read(move |read| spent(read, &of)).await?;
        let mut run = lock(&self.run);
        run.limits.run = budget;
        run.limits.before = before;
        run.spent = before;
        run.refused = None;
        run.started = Instant::now();
        Ok(before)
    }

    /// The model that has no price, this one or one that may answer in its place, where money is limited: no request
    /// could be made.
    #[must_use]
    pub fn lacks_price(&self, model: &str) -> Option<String> {
        let run = lock(&self.run);
        let prices = &run.limits.project.prices;
        let mut models = std::iter::once(model).chain(run.others.iter().map(String::as_str));
        models.find(|model| run.limits.money() && prices.find(model).is_none()).map(str::to_owned)
    }

    /// The limit because of which no further session should begin, as far as is known without a look at the store: a
    /// request was refused, or the next one, as large as the newest, would be.
    #[must_use]
    pub fn stops(&self) -> Option<String> {
        let run = lock(&self.run);
        if run.refused.is_some() {
            return run.refused.clone();
        }
        let spent = run.now(run.spent);
        let newest = spent.newest_request.max(1);
        // The money of a request is known when it is made.
        let claim = Claim { tokens: newest, money: Some(Money(1)) };
        run.limits.refusal(&spent, claim, self.ambient.clock.now())
    }

    /// The purse of one session.
    #[must_use]
    pub fn purse(&self, owner: TaskScope, session: u32) -> Arc<dyn Purse> {
        Arc::new(SessionPurse { spending: self.clone(), owner, session })
    }
}

/// Pays the requests of one session.
struct SessionPurse {
    spending: Spending,
    owner: TaskScope,
    session: u32,
}

impl SessionPurse {
    fn claim(&self, wanted: &Wanted) -> Claim {
        let run = lock(&self.spending.run);
        let prices = &run.limits.project.prices;
        let models = std::iter::once(&wanted.model).chain(&run.others);
        let most = |price: Price| price.at_most(wanted.prompt_tokens, wanted.answer_tokens);
        let money = models.map(|model| prices.find(model).map(most)).collect::<Option<Vec<_>>>();
        let money = money.and_then(|each| each.into_iter().max());
        Claim { tokens: wanted.tokens(), money }
    }

    /// What an answer cost, and the attempts before it that broke off in the middle: these count like it.
    fn cost(&self, reservation: &Reservation, answer: &ChatResponse) -> (Usage, Money) {
        let broken =
            |code: &str| matches!(code, "model_cut" | "model_failed_midway" | "model_timeout" | "model_malformed");
        let attempts = answer.retries.iter().filter(|retry| broken(&retry.code)).count() as u64;
        let mut usage = answer.usage;
        usage.prompt_tokens += attempts * reservation.wanted.prompt_tokens;
        usage.answer_tokens += attempts * answer.usage.answer_tokens;
        let run = lock(&self.spending.run);
        let prices = &run.limits.project.prices;
        let price = prices.find(&answer.model).or_else(|| prices.find(&reservation.wanted.model));
        (usage, price.map_or(Money::default(), |price| price.of(&usage)))
    }
}

#[async_trait]
impl Purse for SessionPurse {
    async fn reserve(&self, wanted: Wanted) -> Result<Reserved, StoreError> {
        let claim = self.claim(&wanted);
        let id = format!("spend_{}", self.spending.ambient.ids.body());
        let (owner, session, run) = (self.owner.clone(), self.session, self.spending.run.clone());
        let clock = self.spending.ambient.clock.clone();
        let write = self.spending.store.write::<_, StoreError>(move |tx| {
            let known = spent(tx, &owner)?;
            let run = lock(&run);
            let known = run.now(known);
            if let Some(why) = run.limits.refusal(&known, claim, clock.now()) {
                return Ok((known, Reserved::Refused { why }));
            }
            let reservation = Reservation { id, wanted };
            rows::reserve(tx, &owner, session, &reservation, claim.money.unwrap_or_default())?;
            rows::worked(tx, &owner, &run.id, known.worked_ms.saturating_sub(run.limits.before.worked_ms))?;
            let tokens = known.tokens.saturating_add(claim.tokens);
            Ok((Spent { tokens, newest_request: claim.tokens, ..known }, Reserved::Granted(reservation)))
        });
        let (known, reserved) = write.await?;
        let mut run = lock(&self.spending.run);
        run.spent = known;
        if let Reserved::Refused { why } = &reserved {
            run.refused = Some(why.clone());
        }
        Ok(reserved)
    }

    async fn unused(&self, reservation: &Reservation, how: Unused) -> Result<(), StoreError> {
        if how == Unused::Whole {
            return Ok(());
        }
        let (owner, id) = (self.owner.clone(), reservation.id.clone());
        self.spending.store.write(move |tx| rows::forget(tx, &owner, &id)).await
    }

    fn settle(&self, tx: &mut Tx<'_>, reservation: &Reservation, answer: &ChatResponse) -> Result<(), StoreError> {
        let (usage, money) = self.cost(reservation, answer);
        rows::settle(tx, &self.owner, &reservation.id, &answer.model, &usage, money)?;
        let known = spent(tx, &self.owner)?;
        let mut run = lock(&self.spending.run);
        let known = run.now(known);
        rows::worked(tx, &self.owner, &run.id, known.worked_ms.saturating_sub(run.limits.before.worked_ms))?;
        run.spent = known;
        Ok(())
    }

    async fn nearly_spent(&self, next: &Wanted) -> Result<Option<String>, StoreError> {
        let owner = self.owner.clone();
        let known = self.spending.store.read(move |read| spent(read, &owner)).await?;
        let claim = self.claim(next);
        let run = lock(&self.spending.run);
        let known = run.now(known);
        Ok(run.limits.nearly(&known, claim, self.spending.ambient.clock.now()))
    }
}

#[cfg(test)]
mod tests;
