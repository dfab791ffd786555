//! Changes: what is written down of each, and how one is repeated without being made twice.
//!
//! It owns the tables `audit` and `idempotency`. Invariants: a change of our own rows, its entry in the audit log and
//! the answer that a repetition gets are one transaction; a change of another owner's has its entry before it begins;
//! neither table holds content or a secret.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_core::{Digest, TimeMs};
use longhaul_store::{Row, StoreError, Tx, values};
use serde_json::Value;

use crate::{Caller, Gateway, Problem};

/// With which a client names a request that it may repeat.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;

/// The version of a row of either table.
const V: u32 = 1;

/// The name that a request gives itself, if it does.
///
/// # Errors
/// 422 for a name that is none.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let fits = |text: &&str| {
        (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let (Some(key), None) = (value.to_str().ok().filter(fits), given.next()) else {
        let detail = format!("write one Idempotency-Key of 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters");
        return Err(Problem::invalid("header.idempotency-key", detail));
    };
    Ok(Some(key))
}

/// A change that somebody wishes for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) caller: Caller,
    /// What is to be done: `task.create`.
    pub(crate) action: &'static str,
    /// To what, as far as it is known before: an id.
    pub(crate) target: String,
    repeat: Option<Repeat>,
}

/// The request's name, and what tells it from another of the same name.
#[derive(Debug, Clone)]
struct Repeat {
    key: String,
    digest: [u8; 32],
}

/// What a change came to.
#[derive(Debug)]
pub(crate) struct Done {
    status: StatusCode,
    body: Value,
    /// What a repetition is answered, where that is less.
    kept: Option<Value>,
    location: Option<String>,
    target: Option<String>,
    detail: Value,
}

/// A change that took place, or one that was refused for a reason that is to be kept.
pub(crate) type Outcome = Result<Done, Problem>;

impl Done {
    /// It was done.
    pub(crate) fn ok(body: impl serde::Serialize) -> Result<Self, Problem> {
        Self::with(StatusCode::OK, body)
    }

    /// Something new is at this path.
    pub(crate) fn created(path: String, target: impl ToString, body: impl serde::Serialize) -> Result<Self, Problem> {
        let done = Self::with(StatusCode::CREATED, body)?;
        Ok(Self { location: Some(path), target: Some(target.to_string()), ..done })
    }

    /// It will be done by somebody else.
    pub(crate) fn accepted(path: String, target: impl ToString, body: impl serde::Serialize) -> Result<Self, Problem> {
        Ok(Self { status: StatusCode::ACCEPTED, ..Self::created(path, target, body)? })
    }

    fn with(status: StatusCode, body: impl serde::Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_value(body).map_err(|error| Problem::internal(&error))?;
        Ok(Self { status, body, kept: None, location: None, target: None, detail: Value::Null })
    }

    /// A field of the body that is told once: it is left out where the answer is kept.
    pub(crate) fn told_once(mut self, field: &str) -> Self {
        let mut kept = self.body.clone();
        if let Some(kept) = kept.as_object_mut() {
            kept.remove(field);
        }
        self.kept = Some(kept);
        self
    }

    /// More for the audit log: ids and choices, no content.
    pub(crate) fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }
}

/// An answer, made now or before.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    body: Value,
    location: Option<String>,
    replayed: bool,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(path) = self.location.and_then(|path| HeaderValue::from_str(&path).ok()) {
            response.headers_mut().insert(header::LOCATION, path);
        }
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl Wish {
    /// A wish without a name of its own.
    pub(crate) fn new(caller: Caller, action: &'static str, target: impl ToString) -> Self {
        Self { caller, action, target: target.to_string(), repeat: None }
    }

    /// Named by the request's header, where it has one. The same name with another action, target or body is refused.
    ///
    /// # Errors
    /// 422 for a name that is none.
    pub(crate) fn repeatable(mut self, headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        let Some(key) = idempotency_key(headers)? else { return Ok(self) };
        let digest = *Digest::of_parts([self.action.as_bytes(), self.target.as_bytes(), body]).as_bytes();
        self.repeat = Some(Repeat { key: key.to_owned(), digest });
        Ok(self)
    }

    /// What the request calls itself, for owners that know repetitions by a name.
    pub(crate) fn request_name(&self) -> Option<&str> {
        self.repeat.as_ref().map(|repeat| repeat.key.as_str())
    }
}

impl Gateway {
    /// Makes a change in one transaction with its entry in the audit log and the answer for repetitions. A refusal that
    /// the closure returns within is kept with what was written; one it fails with undoes all of it and is noted
    /// afterwards.
    pub(crate) async fn change(
        &self,
        wish: Wish,
        make: impl FnOnce(&mut Tx<'_>) -> Result<Outcome, Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let (noted, kept_max) = (wish.clone(), self.limits().idempotency_max);
        let written = self.store().write::<_, Problem>(move |tx| {
            if let Some(before) = claim(tx, &wish, kept_max)? {
                return Ok(Ok(before));
            }
            match make(tx)? {
                Ok(done) => {
                    note(tx, &wish, &done.target, "done", &done.detail)?;
                    Ok(Ok(keep(tx, &wish, done)?))
                }
                Err(problem) => {
                    note(tx, &wish, &None, "refused", &refusal(&problem))?;
                    unclaim(tx, &wish)?;
                    Ok(Err(problem))
                }
            }
        });
        match written.await {
            Ok(outcome) => outcome,
            Err(problem) => {
                self.note_refused(noted, &problem).await;
                Err(problem)
            }
        }
    }

    /// Makes a change that other owners make in transactions of their own: it is noted before it begins, and again when
    /// it has ended. Repeating it must do no harm by itself; a repetition with the same name is told the same answer.
    pub(crate) async fn change_outside(
        &self,
        wish: Wish,
        make: impl Future<Output = Outcome> + Send,
    ) -> Result<Answer, Problem> {
        let (asked, kept_max) = (wish.clone(), self.limits().idempotency_max);
        let before = self.store().write::<_, Problem>(move |tx| {
            let before = claim(tx, &asked, kept_max)?;
            if before.is_none() {
                note(tx, &asked, &None, "asked", &Value::Null)?;
                unclaim(tx, &asked)?;
            }
            Ok(before)
        });
        if let Some(before) = before.await? {
            return Ok(before);
        }
        match make.await {
            Ok(done) => {
                let kept = self.store().write::<_, Problem>(move |tx| {
                    if let Some(before) = claim(tx, &wish, kept_max)? {
                        return Ok(before);
                    }
                    note(tx, &wish, &done.target, "done", &done.detail)?;
                    Ok(keep(tx, &wish, done)?)
                });
                kept.await
            }
            Err(problem) => {
                self.note_refused(wish, &problem).await;
                Err(problem)
            }
        }
    }

    async fn note_refused(&self, wish: Wish, problem: &Problem) {
        let detail = refusal(problem);
        let noted = self.store().write(move |tx| note(tx, &wish, &None, "refused", &detail)).await;
        if let Err(error) = noted {
            tracing::error!(%error, "a refused change is not in the audit log");
        }
    }

    /// Forgets answers that nobody may ask for any more.
    pub(crate) async fn forget_answers(&self) {
        let oldest = self.ambient().clock.now().0 - millis(self.limits().idempotency_max);
        let forgotten =
            self.store().write(move |tx| tx.execute("DELETE FROM idempotency WHERE created_at < ?1", &values![oldest]));
        if let Err(error) = forgotten.await.map_err(|error: StoreError| error) {
            tracing::warn!(%error, "old answers were not removed");
        }
    }
}

fn refusal(problem: &Problem) -> Value {
    serde_json::json!({ "status": problem.status().as_u16(), "code": problem.code() })
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Takes the request's name, or gives the answer that was given under it.
fn claim(tx: &mut Tx<'_>, wish: &Wish, kept_max: Duration) -> Result<Option<Answer>, Problem> {
    let Some(Repeat { key, digest }) = &wish.repeat else { return Ok(None) };
    let (scope, now) = (wish.caller.scope(), tx.now());
    let claimed = tx.execute(
        "INSERT INTO idempotency (tenant_id, user_id, request_key, v, request_digest, status, answer, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, '', ?6)
         ON CONFLICT (tenant_id, user_id, request_key) DO UPDATE
             SET v = excluded.v, request_digest = excluded.request_digest, status = 0, answer = '',
                 created_at = excluded.created_at
             WHERE idempotency.created_at < ?7",
        &values![&scope.tenant, &scope.user, key, V, &digest[..], now, now.0 - millis(kept_max)],
    )?;
    if claimed > 0 {
        return Ok(None);
    }
    let found = tx.query_one(
        "SELECT request_digest, status, answer FROM idempotency
         WHERE tenant_id = ?1 AND user_id = ?2 AND request_key = ?3",
        &values![&scope.tenant, &scope.user, key],
        |row: &Row<'_>| Ok((row.get::<Vec<u8>>(0)?, row.get::<u32>(1)?, row.get::<Value>(2)?)),
    )?;
    let (before, status, mut kept) = found;
    if before != digest {
        let detail = "this Idempotency-Key was used for another request: take a new one for each change";
        return Err(Problem::conflict("idempotency_key_reused", detail).at("header.idempotency-key"));
    }
    let location = kept["location"].as_str().map(str::to_owned);
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.unwrap_or(StatusCode::OK);
    Ok(Some(Answer { status, body: kept["body"].take(), location, replayed: true }))
}

/// Gives the name back: nothing was done under it.
fn unclaim(tx: &mut Tx<'_>, wish: &Wish) -> Result<(), StoreError> {
    let Some(Repeat { key, .. }) = &wish.repeat else { return Ok(()) };
    let scope = wish.caller.scope();
    tx.execute(
        "DELETE FROM idempotency WHERE tenant_id = ?1 AND user_id = ?2 AND request_key = ?3",
        &values![&scope.tenant, &scope.user, key],
    )?;
    Ok(())
}

/// Keeps the answer under the name that was taken.
fn keep(tx: &mut Tx<'_>, wish: &Wish, done: Done) -> Result<Answer, StoreError> {
    let Done { status, body, kept, location, .. } = done;
    if let Some(Repeat { key, .. }) = &wish.repeat {
        let scope = wish.caller.scope();
        let answer = serde_json::json!({ "location": location, "body": kept.as_ref().unwrap_or(&body) });
        tx.execute(
            "UPDATE idempotency SET status = ?4, answer = ?5
             WHERE tenant_id = ?1 AND user_id = ?2 AND request_key = ?3",
            &values![&scope.tenant, &scope.user, key, u32::from(status.as_u16()), &answer],
        )?;
    }
    Ok(Answer { status, body, location, replayed: false })
}

/// One entry of the audit log.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) at: TimeMs,
    pub(crate) user: String,
    pub(crate) key: String,
    pub(crate) role: String,
    pub(crate) action: String,
    pub(crate) target: String,
    pub(crate) trace: String,
    pub(crate) outcome: String,
    pub(crate) detail: Value,
}

fn note(
    tx: &mut Tx<'_>,
    wish: &Wish,
    target: &Option<String>,
    outcome: &'static str,
    detail: &Value,
) -> Result<(), StoreError> {
    let (caller, id, now) = (&wish.caller, format!("audit_{}", tx.ambient().ids.body()), tx.now());
    let target = target.as_deref().unwrap_or(&wish.target);
    tracing::info!(
        tenant = %caller.scope().tenant, user = %caller.scope().user, key = %caller.key().prefix, trace = %caller.trace(),
        action = wish.action, target, outcome, "a change"
    );
    tx.execute(
        "INSERT INTO audit (tenant_id, audit_id, v, at, user_id, key_id, role, action, target, trace_id, outcome, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        &values![
            &caller.scope().tenant,
            id,
            V,
            now,
            &caller.scope().user,
            caller.key().id.as_str(),
            caller.role().as_str(),
            wish.action,
            target,
            caller.trace(),
            outcome,
            detail,
        ],
    )?;
    Ok(())
}

const ENTRIES: &str = "SELECT audit_id, at, user_id, key_id, role, action, target, trace_id, outcome, detail FROM audit
    WHERE tenant_id = ?1";

/// The tenant's entries, the newest first: those before this one, and those about this target.
pub(crate) fn entries(
    read: &longhaul_store::ReadTx<'_>,
    caller: &Caller,
    target: Option<&str>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let (mut sql, mut params) = (ENTRIES.to_owned(), values![&caller.scope().tenant].to_vec());
    for (condition, value) in [("audit_id <", after), ("target =", target)] {
        if let Some(value) = value {
            params.push(value.into());
            sql.push_str(&format!(" AND {condition} ?{}", params.len()));
        }
    }
    sql.push_str(&format!(" ORDER BY audit_id DESC LIMIT {limit}"));
    read.query(&sql, &params, |row| {
        Ok(Entry {
            id: row.get(0)?,
            at: row.get(1)?,
            user: row.get(2)?,
            key: row.get(3)?,
            role: row.get(4)?,
            action: row.get(5)?,
            target: row.get(6)?,
            trace: row.get(7)?,
            outcome: row.get(8)?,
            detail: row.get(9)?,
        })
    })
}
