//! The rows of what was reserved and used. A reservation counts whole until its answer is recorded, and whole for ever if
//! that never happens: the process may have been killed after the service had done its work.

use longhaul_agent::Reservation;
use longhaul_core::TaskScope;
use longhaul_model::Usage;
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::Serialize;

use super::money::Money;

const SCHEMA: i64 = 1;

/// What a project has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Tokens sent and received, requests without a recorded answer counted whole.
    pub tokens: u64,
    /// Money, counted alike.
    pub money: Money,
    /// Requests whose answer was never recorded.
    pub unsettled: u64,
    /// Time of runs, in milliseconds.
    pub worked_ms: u64,
    /// Tokens that the newest request reserved.
    pub newest_request: u64,
}

/// What the task has used until now.
///
/// # Errors
/// When the store cannot be read.
pub fn spent(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Spent, StoreError> {
    let of = &values![&owner.scope.tenant, &owner.task];
    let sum = "select cast(coalesce(sum(case state when 'reserved' then reserved_tokens
                   else prompt_tokens + answer_tokens end), 0) as bigint),
               cast(coalesce(sum(case state when 'reserved' then reserved_money else money end), 0) as bigint),
               cast(coalesce(sum(case state when 'reserved' then 1 else 0 end), 0) as bigint)
               from spending where tenant_id = ?1 and task_id = ?2";
    let number = |n: i64| u64::try_from(n).unwrap_or(0);
    let (tokens, money, unsettled): (i64, i64, i64) =
        read.query_one(sum, of, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let worked = "select cast(coalesce(sum(worked_ms), 0) as bigint) from run_times
                  where tenant_id = ?1 and task_id = ?2";
    let worked: i64 = read.query_one(worked, of, |row| row.get(0))?;
    let newest = "select reserved_tokens from spending where tenant_id = ?1 and task_id = ?2
                  order by at desc, reservation_id desc limit 1";
    let newest: Option<i64> = read.query_optional(newest, of, |row| row.get(0))?;
    Ok(Spent {
        tokens: number(tokens),
        money: Money(number(money)),
        unsettled: number(unsettled),
        worked_ms: number(worked),
        newest_request: number(newest.unwrap_or(0)),
    })
}

pub(super) fn reserve(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    session: u32,
    reservation: &Reservation,
    money: Money,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into spending (tenant_id, task_id, reservation_id, session, model, state, reserved_tokens,
             reserved_money, prompt_tokens, answer_tokens, cached_tokens, money, at, schema)
         values (?1, ?2, ?3, ?4, ?5, 'reserved', ?6, ?7, 0, 0, 0, 0, ?8, ?9)",
        &values![
            &owner.scope.tenant,
            &owner.task,
            &reservation.id,
            session,
            &reservation.wanted.model,
            reservation.wanted.tokens(),
            money.0,
            now,
            SCHEMA,
        ],
    )?;
    Ok(())
}

pub(super) fn settle(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    reservation: &str,
    model: &str,
    usage: &Usage,
    money: Money,
) -> Result<(), StoreError> {
    tx.execute(
        "update spending set state = 'settled', model = ?4, prompt_tokens = ?5, answer_tokens = ?6, cached_tokens = ?7,
             money = ?8
         where tenant_id = ?1 and task_id = ?2 and reservation_id = ?3",
        &values![
            &owner.scope.tenant,
            &owner.task,
            reservation,
            model,
            usage.prompt_tokens,
            usage.answer_tokens,
            usage.cached_tokens,
            money.0,
        ],
    )?;
    Ok(())
}

/// A request that cost nothing leaves no row.
pub(super) fn forget(tx: &mut Tx<'_>, owner: &TaskScope, reservation: &str) -> Result<(), StoreError> {
    tx.execute(
        "delete from spending where tenant_id = ?1 and task_id = ?2 and reservation_id = ?3",
        &values![&owner.scope.tenant, &owner.task, reservation],
    )?;
    Ok(())
}

/// How long a run has worked so far.
pub(super) fn worked(tx: &mut Tx<'_>, owner: &TaskScope, run: &str, worked_ms: u64) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into run_times (tenant_id, task_id, run_id, started_at, worked_ms, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6)
         on conflict (tenant_id, task_id, run_id) do update set worked_ms = excluded.worked_ms",
        &values![&owner.scope.tenant, &owner.task, run, now, worked_ms, SCHEMA],
    )?;
    Ok(())
}
