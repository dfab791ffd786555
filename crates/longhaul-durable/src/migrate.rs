//! Taking over executions that another release of the graph began.
//!
//! It owns the rules: what may go on as it is, what is changed first, what is refused. Invariants: what is refused is
//! not changed; a migration is one commit, and keeps what it replaced as an execution that is given up.

use std::sync::Arc;

use longhaul_core::{EventDraft, ExecutionId, TimeMs};
use longhaul_store::{ReadTx, Tx};
use serde_json::{Value, json};

use crate::{
    DurableError, Execution, Form, Graph, GraphState, Status,
    checkpoint::{self, Replayed},
    fit,
    graph::{Migration, Takes},
    limits,
    machine::Position,
    records::{
        Pen,
        checkpoints::{self, CheckpointRow, Log, NewCheckpoint},
        executions,
    },
};

/// A state as it was recorded, and where the execution stood.
pub(crate) struct Recorded {
    pub(crate) state: Value,
    pub(crate) position: Position,
}

/// Reads a recorded state by the type that it had, and makes sure that the type does not lose anything.
pub(crate) fn read<Old: GraphState>(execution: &ExecutionId, log: &Log) -> Result<Recorded, DurableError> {
    let missing = || DurableError::NoCheckpoint { execution: execution.clone(), superstep: 0 };
    let damaged = |superstep| DurableError::Damaged { execution: execution.clone(), ns: String::new(), superstep };
    checkpoint::check_log(execution, "", log).map_err(damaged)?;
    let last = log.rows.last().ok_or_else(missing)?;
    let position = checkpoint::position_of(last).ok_or_else(|| damaged(last.superstep))?;
    let from = log.rows.iter().rposition(|row| row.form == Form::Full);
    let (base, deltas): (&str, &[CheckpointRow]) = match (from, &log.snapshot) {
        (Some(at), _) => (&log.rows[at].data, &log.rows[at + 1..]),
        (None, Some(snapshot)) => (&snapshot.state, &log.rows[1..]),
        (None, None) => return Err(missing()),
    };
    let unread = |lost| DurableError::OldState { execution: execution.clone(), lost };
    let base: Value = serde_json::from_str(base).map_err(|_| unread(None))?;
    if deltas.is_empty() {
        // It was recorded whole: nobody has to understand it.
        return Ok(Recorded { state: base, position });
    }
    let typed: Old = serde_json::from_value(base.clone()).map_err(|_| unread(None))?;
    lossless(&base, &typed, "state").map_err(|path| unread(Some(path)))?;
    for row in deltas {
        let recorded: Value = serde_json::from_str(&row.data).map_err(|_| unread(None))?;
        let lost = match row.v {
            1 => serde_json::from_value::<Old::Update>(recorded.clone())
                .map(|update| lossless(&recorded, &update, "update")),
            _ => serde_json::from_value::<Vec<Vec<Old::Update>>>(recorded.clone())
                .map(|updates| lossless(&recorded, &updates, "update")),
        };
        lost.map_err(|_| unread(None))?.map_err(|path| unread(Some(path)))?;
    }
    let Replayed { state, .. } = checkpoint::replay::<Old>(execution, "", log, None)?.ok_or_else(missing)?;
    Ok(Recorded { state: serde_json::to_value(state).map_err(Arc::new)?, position })
}

/// Gives the path to something that was recorded and is not in the value that was read.
fn lossless(recorded: &Value, read: &impl serde::Serialize, path: &str) -> Result<(), String> {
    match serde_json::to_value(read) {
        Ok(read) => contains(&read, recorded, path),
        Err(_) => Err(path.to_owned()),
    }
}

fn contains(read: &Value, recorded: &Value, path: &str) -> Result<(), String> {
    match (recorded, read) {
        (Value::Object(recorded), Value::Object(read)) => recorded.iter().try_for_each(|(key, value)| {
            let path = format!("{path}.{key}");
            match read.get(key) {
                Some(read) => contains(read, value, &path),
                None if value.is_null() => Ok(()),
                None => Err(path),
            }
        }),
        (Value::Array(recorded), Value::Array(read)) if recorded.len() == read.len() => {
            let mut items = recorded.iter().zip(read).enumerate();
            items.try_for_each(|(index, (recorded, read))| contains(read, recorded, &format!("{path}[{index}]")))
        }
        (Value::Array(_) | Value::Object(_), _) => Err(path.to_owned()),
        // Another way to write the same value is no loss.
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Ok(()),
    }
}

impl<S: GraphState> Graph<S> {
    /// Refuses an execution that is not this graph's own or cannot be gone on with as it is.
    pub(crate) fn check_same(&self, execution: &Execution) -> Result<(), DurableError> {
        match self.takes(&execution.fingerprint, execution.state_version) {
            Takes::Own | Takes::Compatible => Ok(()),
            Takes::Migrated(_) | Takes::Foreign => Err(changed(self, execution, Vec::new())),
        }
    }

    fn title(&self) -> String {
        title(&self.shape().name, self.shape().version, &self.fingerprint().hex(), self.state_version())
    }
}

/// `harness 1 (3fa2b41c), state 1`: two graphs of one version may still differ in shape.
fn title(name: &str, version: u32, hex: &str, state_version: u32) -> String {
    format!("{name} {version} ({}), state {state_version}", hex.split_at(8).0)
}

fn changed<S: GraphState>(graph: &Graph<S>, execution: &Execution, misfits: Vec<crate::Misfit>) -> DurableError {
    let Execution { graph: name, graph_version, fingerprint, state_version, .. } = execution;
    DurableError::GraphChanged {
        thread: execution.thread.clone(),
        recorded: title(name, *graph_version, &fingerprint.hex(), *state_version),
        current: graph.title(),
        misfits,
    }
}

/// Why a graph does not go on with an execution of another.
pub(crate) fn refusal<S: GraphState>(
    read: &ReadTx<'_>,
    graph: &Graph<S>,
    execution: &Execution,
) -> Result<DurableError, DurableError> {
    let tenant = &execution.scope.scope.tenant;
    let log = checkpoints::log(read, tenant, &execution.id, "", u64::MAX, false)?;
    let mut misfits = fit::of_fields(graph.shape(), &log);
    if let Some(position) = log.rows.last().and_then(checkpoint::position_of) {
        misfits.extend(fit::of_execution(read, tenant, &execution.id, graph.shape(), &position)?);
    }
    Ok(changed(graph, execution, misfits))
}

/// Makes an execution the graph's own, if it is not already.
pub(crate) fn take_over<S: GraphState>(
    tx: &mut Tx<'_>,
    pen: &Pen,
    graph: &Graph<S>,
    execution: &Execution,
    takes: Takes<'_>,
) -> Result<(), DurableError> {
    let (kind, data) = match takes {
        Takes::Own => return Ok(()),
        Takes::Foreign => return Err(refusal(tx, graph, execution)?),
        Takes::Compatible => {
            let log = checkpoints::log(tx, pen.tenant(), pen.execution(), "", u64::MAX, false)?;
            if let Some(position) = log.rows.last().and_then(checkpoint::position_of) {
                let misfits = fit::of_execution(tx, pen.tenant(), pen.execution(), graph.shape(), &position)?;
                if !misfits.is_empty() {
                    return Err(changed(graph, execution, misfits));
                }
            }
            ("execution.adopted", json!({}))
        }
        Takes::Migrated(migration) => {
            let archive = migrate(tx, pen, graph, execution, migration)?;
            ("execution.migrated", json!({ "before": archive }))
        }
    };
    pen.adopt(tx, graph.shape().version, graph.fingerprint(), graph.state_version())?;
    let mut data = data;
    data["from"] =
        json!(title(&execution.graph, execution.graph_version, &execution.fingerprint.hex(), execution.state_version));
    data["to"] = json!(graph.title());
    tx.append_event(pen.scope(), Some(pen.execution()), None, EventDraft::internal(kind, data))?;
    Ok(())
}

/// Puts the changed state and position in place of the last checkpoint, and gives the execution that keeps that.
fn migrate<S: GraphState>(
    tx: &mut Tx<'_>,
    pen: &Pen,
    graph: &Graph<S>,
    execution: &Execution,
    migration: &Migration,
) -> Result<ExecutionId, DurableError> {
    let log = checkpoints::log(tx, pen.tenant(), pen.execution(), "", u64::MAX, false)?;
    let Recorded { mut state, mut position } = (migration.read)(&execution.id, &log)?;
    let superstep = position.superstep;
    let archive = keep(tx, pen, execution, &state, &position)?;
    (migration.code)(&mut state, &mut position)
        .map_err(|source| DurableError::Migration { thread: execution.thread.clone(), source: source.into() })?;
    position.superstep = superstep;
    let misfits = fit::of_execution(tx, pen.tenant(), pen.execution(), graph.shape(), &position)?;
    if !misfits.is_empty() {
        return Err(DurableError::Misfits { thread: execution.thread.clone(), misfits });
    }
    let unfit = |source: serde_json::Error| DurableError::Migration {
        thread: execution.thread.clone(),
        source: Arc::new(source),
    };
    let state: S = serde_json::from_value(state).map_err(unfit)?;
    limits::check_state::<S>(&state)?;
    let row = whole_row(tx, pen, superstep, &state, &position, "migrated")?;
    pen.replace_last(tx, row)?;
    Ok(archive)
}

/// A row with a whole state behind the one before this superstep.
fn whole_row(
    tx: &Tx<'_>,
    pen: &Pen,
    superstep: u64,
    state: &impl serde::Serialize,
    position: &Position,
    nodes: &str,
) -> Result<NewCheckpoint, DurableError> {
    let data = serde_json::to_string(state).map_err(Arc::new)?;
    let frontier = serde_json::to_string(position).map_err(Arc::new)?;
    let log = match superstep.checked_sub(1) {
        Some(before) => checkpoints::log(tx, pen.tenant(), pen.execution(), "", before, false)?,
        None => Log::default(),
    };
    let before = log.rows.last().and_then(checkpoint::digest_of);
    let before = before.unwrap_or_else(|| checkpoint::chain_start(pen.execution(), ""));
    let chain = checkpoint::chain_next(&before, Form::Full, &data, &frontier);
    let (nodes, chain) = (nodes.to_owned(), *chain.as_bytes());
    Ok(NewCheckpoint { superstep, nodes, frontier, form: Form::Full, data, chain })
}

/// Keeps what a migration replaces: as an execution of its own that is given up, older than the one that goes on.
fn keep(
    tx: &mut Tx<'_>,
    pen: &Pen,
    execution: &Execution,
    state: &Value,
    position: &Position,
) -> Result<ExecutionId, DurableError> {
    let now = tx.now();
    let id = ExecutionId::from_body(&tx.ambient().ids.body());
    let archive = Execution {
        id: id.clone(),
        status: Status::Abandoned,
        cancel: None,
        parent_step: None,
        forked_from: Some(format!("{}@{}", execution.id, position.superstep)),
        started_at: TimeMs(execution.started_at.0 - 1),
        updated_at: now,
        closed_at: Some(now),
        ..execution.clone()
    };
    executions::insert(tx, &archive)?;
    let pen = Pen::new(execution.scope.clone(), id.clone(), pen.token().clone());
    let row = whole_row(tx, &pen, position.superstep, state, position, "before migration")?;
    pen.insert_checkpoint(tx, "", row)?;
    Ok(id)
}
