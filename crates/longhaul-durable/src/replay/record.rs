//! From a store to a case; the graph is not needed.
//!
//! It owns what of an execution's rows goes into a case. Invariants: all of it is read in one snapshot, checkpoints are
//! checked first, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::{ExecutionId, Scope, TenantId, Visibility};
use longhaul_store::{ReadTx, Store, StoreError, events_of, values};
use serde_json::{Value, value::RawValue};

use super::{
    case::{
        Begins, CASE_V, Case, CaseCheckpoint, CaseEnd, CaseError, CaseEvent, CaseExecution, CaseIntervention, CaseStep,
        CaseWait, Origin,
    },
    criteria::Criteria,
    place,
    redact::Redaction,
};
use crate::{
    DurableError, Execution, Form, Runtime, StepId, WaitInfo, checkpoint,
    records::{checkpoints, executions, family, interventions, waits, whole},
    seal::Spot,
};

/// Events of one case.
const EVENTS_MAX: u32 = 100_000;

/// Kinds of events that the runtime itself writes when a replay comes to the same place.
const OWN: [&str; 3] = ["wait.opened", "wait.answered", "wait.expired"];

impl Runtime {
    /// Makes a case of an execution, whichever program ran it and whatever became of it. Its acceptance criteria say
    /// no more than how it ended; the state it ended with is left open.
    ///
    /// # Errors
    /// [`CaseError::Unfit`] when its beginning is gone, [`CaseError::RedactsNothing`], [`CaseError::TooLarge`],
    /// [`CaseError::Durable`].
    pub async fn record_case(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        redaction: &Redaction,
    ) -> Result<Case, CaseError> {
        let case = read_case(self.store()?, scope, execution).await?;
        let case = redaction.apply(case)?;
        case.to_text()?;
        Ok(case)
    }
}

/// Reads a case as it is.
pub(super) async fn read_case(store: &Store, scope: &Scope, execution: &ExecutionId) -> Result<Case, CaseError> {
    let (scope, id) = (scope.clone(), execution.clone());
    store.read(move |read| case_of(read, &scope, &id)).await
}

fn case_of(read: &ReadTx<'_>, scope: &Scope, id: &ExecutionId) -> Result<Case, CaseError> {
    let root = executions::by_id(read, scope, id)?
        .ok_or_else(|| CaseError::Durable(DurableError::NoExecution { execution: id.clone() }))?;
    let mut family = Vec::new();
    for member in family::members(read, &scope.tenant, id)? {
        family.extend(executions::by_id(read, scope, &member)?);
    }
    family.sort_by_key(|member| (member.id != *id, member.started_at, member.id.clone()));
    let ids: Vec<_> = family.iter().map(|member| member.id.clone()).collect();
    let mut places = BTreeMap::new();
    let mut cases = Vec::with_capacity(family.len());
    for member in &family {
        cases.push(one(read, &scope.tenant, member, &mut places)?);
    }
    let mut added = Vec::new();
    for member in &family {
        added.extend(interventions::all(read, member)?);
    }
    let interventions = added.into_iter().map(|added| CaseIntervention {
        author: added.author,
        note: added.note,
        payload: added.payload,
    });
    let accept = Criteria { status: Some(root.status.as_str().to_owned()), ..Criteria::default() };
    let mut case = Case {
        longhaul_case: CASE_V,
        name: format!("{} {}", root.graph, root.thread),
        accept,
        scope: root.scope.clone(),
        interventions: interventions.collect(),
        executions: cases,
        events: Vec::new(),
        final_state: None,
        redacted: 0,
    };
    case.events = events(read, scope, &ids, &case, &places)?;
    Ok(case)
}

fn one(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &Execution,
    places: &mut BTreeMap<String, StepId>,
) -> Result<CaseExecution, CaseError> {
    let id = &execution.id;
    let mut rows = Vec::new();
    let mut begins = None;
    for ns in whole::namespaces(read, tenant, id, "%")? {
        let log = checkpoints::log(read, tenant, id, &ns, u64::MAX, true)?;
        let damaged = |superstep| DurableError::Damaged { execution: id.clone(), ns: ns.clone(), superstep };
        checkpoint::check_log(id, &ns, &log).map_err(damaged)?;
        let names = nodes(read, tenant, id, &ns)?;
        let mut log_rows = &log.rows[..];
        if ns.is_empty() {
            let at = log_rows.iter().rposition(|row| row.form == Form::Full).filter(|_| log.snapshot.is_none());
            let Some(at) = at.filter(|at| log_rows[*at].v > 1) else { return Err(unfit(id)) };
            let first = &log_rows[at];
            begins =
                Some(Begins { superstep: first.superstep, state: raw(&first.data)?, position: json(&first.frontier)? });
            log_rows = &log_rows[at..];
        }
        for row in log_rows {
            rows.push(CaseCheckpoint {
                ns: ns.clone(),
                superstep: row.superstep,
                nodes: names.get(&row.superstep).cloned().unwrap_or_default(),
                edited: row.form == Form::Edited,
                updates: if row.data.is_empty() { Value::Null } else { json(&row.data)? },
                next: json(&row.frontier)?,
                digest: longhaul_core::Digest::of(""),
            });
        }
    }
    let begins = begins.ok_or_else(|| unfit(id))?;
    let from = begins.superstep;
    let waits = waits::select(
        read,
        "tenant_id = ?1 AND execution_id = ?2 ORDER BY ns, superstep, task, ordinal",
        &values![tenant, id],
    )?;
    let waits: Vec<WaitInfo> =
        waits.into_iter().filter(|wait| place::outermost(&wait.place.ns, wait.place.superstep) > from).collect();
    places.extend(waits.iter().map(|wait| (wait.id.to_string(), wait.place.clone())));
    let steps = steps(read, tenant, id)?;
    let mut made = CaseExecution {
        id: id.clone(),
        thread: execution.thread.clone(),
        parent_step: execution.parent_step.as_deref().and_then(|step| step.parse().ok()),
        graph: execution.graph.clone(),
        graph_version: execution.graph_version,
        fingerprint: execution.fingerprint,
        state_version: execution.state_version,
        started_at: execution.started_at,
        begins,
        end: CaseEnd { status: execution.status.as_str().to_owned(), error: execution.error.clone() },
        checkpoints: rows,
        steps: steps.into_iter().filter(|step| place::outermost(&step.step.ns, step.step.superstep) > from).collect(),
        waits: waits.into_iter().map(wait).collect(),
    };
    made.rechain();
    Ok(made)
}

fn unfit(execution: &ExecutionId) -> CaseError {
    let why = "its beginning was pruned, or recorded by the first release: record executions before their history is \
               pruned, or fork it and record the fork";
    CaseError::Unfit { execution: execution.clone(), why: why.to_owned() }
}

fn wait(wait: WaitInfo) -> CaseWait {
    CaseWait {
        place: wait.place,
        kind: wait.kind,
        payload: wait.payload,
        schema: wait.schema,
        correlation: wait.correlation,
        status: wait.status,
        value: wait.value,
        actor: wait.actor,
        ended_at: wait.answered_at,
    }
}

fn nodes(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
) -> Result<BTreeMap<u64, String>, StoreError> {
    let rows = read.query(
        "SELECT superstep, nodes FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3",
        &values![tenant, execution, ns],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(rows.into_iter().collect())
}

fn steps(read: &ReadTx<'_>, tenant: &TenantId, execution: &ExecutionId) -> Result<Vec<CaseStep>, CaseError> {
    let rows = read.query(
        "SELECT ns, superstep, task, ordinal, node, name, effect, result FROM steps
         WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY ns, superstep, task, ordinal",
        &values![tenant, execution],
        |row| {
            let step = StepId {
                execution: execution.clone(),
                ns: row.get(0)?,
                superstep: row.get(1)?,
                task: row.get(2)?,
                ordinal: row.get(3)?,
                node: row.get(4)?,
                name: row.get(5)?,
            };
            let (superstep, task, ordinal) = (step.superstep, step.task, step.ordinal);
            let spot = Spot { tenant, execution, column: "steps.result", ns: &step.ns, superstep, task, ordinal };
            let result = spot.open(read, row.get(7)?)?;
            Ok((step, row.get::<String>(6)?, result))
        },
    )?;
    rows.into_iter().map(|(step, effect, result)| Ok(CaseStep { step, effect, result: raw(&result)? })).collect()
}

fn raw(text: &str) -> Result<Box<RawValue>, CaseError> {
    RawValue::from_string(text.to_owned()).map_err(|source| CaseError::Form { source })
}

fn json(text: &str) -> Result<Value, CaseError> {
    serde_json::from_str(text).map_err(|source| CaseError::Form { source })
}

/// The business events, without ids and times, and with the places of those that name a wait only.
fn events(
    read: &ReadTx<'_>,
    scope: &Scope,
    ids: &[ExecutionId],
    case: &Case,
    places: &BTreeMap<String, StepId>,
) -> Result<Vec<CaseEvent>, CaseError> {
    let known: BTreeSet<String> =
        case.executions.iter().flat_map(|execution| execution.steps.iter().map(|step| step.step.to_string())).collect();
    let mut made: Vec<(Option<String>, CaseEvent)> = Vec::new();
    for event in events_of(read, scope, ids, 0, EVENTS_MAX)? {
        if event.visibility != Visibility::Business {
            continue;
        }
        let Some(execution) = event.execution.clone() else { continue };
        let wait = event.data.get("wait").and_then(Value::as_str).map(str::to_owned);
        if event.kind == "wait.reopened" {
            // An answer that the node could not read: what counts is the one it could.
            let refused = made.iter().rposition(|(of, made)| made.kind == "wait.answered" && *of == wait);
            refused.map(|refused| made.remove(refused));
            continue;
        }
        let own = OWN.contains(&event.kind.as_str());
        let place = wait.as_ref().filter(|_| own).and_then(|wait| places.get(wait));
        let at = place.map(StepId::within).or(event.step);
        let origin = origin(case, &execution, &event.kind, at.as_deref(), &known);
        let mut data = event.data;
        if let Some(fields) = data.as_object_mut().filter(|_| own) {
            fields.remove("wait");
            fields.remove("deadline_at");
        }
        made.push((wait, CaseEvent { execution, kind: event.kind, at, data, origin }));
    }
    Ok(made.into_iter().map(|(_, event)| event).collect())
}

fn origin(case: &Case, execution: &ExecutionId, kind: &str, at: Option<&str>, known: &BTreeSet<String>) -> Origin {
    let Some(of) = case.executions.iter().find(|of| of.id == *execution) else { return Origin::Given };
    let Some(at) = at else { return Origin::Given };
    let is_step = known.contains(&format!("{execution}/{at}"));
    let Some(superstep) = place::of_event(case, of, Some(at)).and_then(|key| superstep_of(case, of, &key)) else {
        return Origin::Given;
    };
    let by_hand = of.checkpoints.iter().any(|row| row.edited && row.ns.is_empty() && row.superstep == superstep);
    // What was before the beginning of the case cannot be made again, nor what an edit has put aside.
    if superstep <= of.begins.superstep || by_hand {
        return Origin::Given;
    }
    // A node's own events name its run, not a step.
    if OWN.contains(&kind) || (!is_step && !at.contains('#')) { Origin::Replayed } else { Origin::Given }
}

/// The superstep of the execution's own outermost graph.
fn superstep_of(case: &Case, execution: &CaseExecution, key: &[(u64, u64)]) -> Option<u64> {
    let around = place::of_closing(case, execution, "", 0).len() - 1;
    key.get(around).map(|(superstep, _)| *superstep)
}
