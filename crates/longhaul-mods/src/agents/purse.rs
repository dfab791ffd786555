//! What agents may spend: tokens of one agent in a day, and of one task by all agents together.
//!
//! A task is what began with one message, whoever was asked in the course of it. Invariant: a request is made only after
//! its prompt and its longest answer were reserved within both budgets, in one transaction.

use async_trait::async_trait;
use longhaul_agent::{Purse, Reservation, Reserved, Unused, Wanted};
use longhaul_core::Scope;
use longhaul_model::ChatResponse;
use longhaul_store::{ReadTx, Store, StoreError, Tx, values};

/// The day in which an agent's tokens are counted, milliseconds: the last 24 hours.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Limits, in tokens; none is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBudget {
    /// Of one agent in 24 hours.
    pub per_agent: Option<u64>,
    /// Of one task, by all agents of the network.
    pub per_task: Option<u64>,
}

/// The purse of one agent at one task.
#[derive(Debug, Clone)]
pub struct TaskPurse {
    /// Where it is written down.
    pub store: Store,
    /// Whose network.
    pub scope: Scope,
    /// Which network.
    pub network: String,
    /// Who spends.
    pub agent: String,
    /// For what: the root of the messages.
    pub task: String,
    /// How much there is.
    pub budget: TokenBudget,
}

/// Tokens spent and reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the agent in 24 hours.
    pub agent: u64,
    /// For the task.
    pub task: u64,
}

impl TaskPurse {
    /// What is spent and reserved now.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn spent(&self) -> Result<Spent, StoreError> {
        let (purse, now) = (self.clone(), self.store.ambient().clock.now());
        self.store.read(move |read| purse.sums(read, now.0)).await
    }

    fn sums(&self, read: &ReadTx<'_>, now: i64) -> Result<Spent, StoreError> {
        let agent: i64 = read.query_one(
            "SELECT COALESCE(SUM(tokens), 0) FROM agent_spending
             WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND at > ?4",
            &values![&self.scope.tenant, &self.network, &self.agent, now - DAY_MS],
            |row| row.get(0),
        )?;
        let task: i64 = read.query_one(
            "SELECT COALESCE(SUM(tokens), 0) FROM agent_spending
             WHERE tenant_id = ?1 AND network_id = ?2 AND task = ?3",
            &values![&self.scope.tenant, &self.network, &self.task],
            |row| row.get(0),
        )?;
        let positive = |sum: i64| u64::try_from(sum).unwrap_or(0);
        Ok(Spent { agent: positive(agent), task: positive(task) })
    }

    /// The limit that so many more tokens would go beyond.
    fn beyond(&self, spent: Spent, more: u64) -> Option<String> {
        let over = |limit: Option<u64>, spent: u64| limit.filter(|limit| spent.saturating_add(more) > *limit);
        if let Some(limit) = over(self.budget.per_task, spent.task) {
            return Some(format!("{limit} tokens for one task"));
        }
        over(self.budget.per_agent, spent.agent).map(|limit| format!("{limit} tokens of {} a day", self.agent))
    }
}

#[async_trait]
impl Purse for TaskPurse {
    async fn reserve(&self, wanted: Wanted) -> Result<Reserved, StoreError> {
        let purse = self.clone();
        let written = self.store.write(move |tx| {
            let now = tx.now();
            let spent = purse.sums(tx, now.0)?;
            if let Some(why) = purse.beyond(spent, wanted.tokens()) {
                return Ok(Reserved::Refused { why });
            }
            let id = tx.ambient().ids.body();
            tx.execute(
                "INSERT INTO agent_spending (tenant_id, network_id, agent_id, task, spending_id, tokens, settled, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)",
                &values![&purse.scope.tenant, &purse.network, &purse.agent, &purse.task, &id, wanted.tokens(), now],
            )?;
            Ok::<_, StoreError>(Reserved::Granted(Reservation { id, wanted }))
        });
        written.await
    }

    async fn unused(&self, reservation: &Reservation, how: Unused) -> Result<(), StoreError> {
        if how == Unused::Whole {
            return Ok(());
        }
        let (purse, id) = (self.clone(), reservation.id.clone());
        let written = self.store.write(move |tx| {
            tx.execute(
                "DELETE FROM agent_spending WHERE tenant_id = ?1 AND network_id = ?2 AND spending_id = ?3",
                &values![&purse.scope.tenant, &purse.network, &id],
            )
            .map(drop)
        });
        written.await
    }

    fn settle(&self, tx: &mut Tx<'_>, reservation: &Reservation, answer: &ChatResponse) -> Result<(), StoreError> {
        let tokens = answer.usage.prompt_tokens + answer.usage.answer_tokens;
        tx.execute(
            "UPDATE agent_spending SET tokens = ?4, settled = 1
             WHERE tenant_id = ?1 AND network_id = ?2 AND spending_id = ?3",
            &values![&self.scope.tenant, &self.network, &reservation.id, tokens],
        )
        .map(drop)
    }

    async fn nearly_spent(&self, _: &Wanted) -> Result<Option<String>, StoreError> {
        // An answer is one request, mostly; whoever cannot make another says so.
        Ok(None)
    }
}
