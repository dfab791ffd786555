//! The harness as a state graph: initialize → code → … → final_check, as in the two-agent demonstration.

use std::sync::Arc;

use longhaul_durable::{END, Graph, GraphBuilder, GraphError, NodeContext, NodeError, START};

use crate::{
    coding::code,
    environment::Harness,
    error::HarnessError,
    final_check::final_check,
    initializer::initialize,
    mirror,
    project::{self, Project},
    state::{HarnessState, Phase},
};

const INITIALIZE: &str = "initialize";
const CODE: &str = "code";
const FINAL_CHECK: &str = "final_check";

/// The graph over these components.
///
/// # Errors
/// When it is not well formed; the tests build it.
pub fn graph(harness: &Arc<Harness>) -> Result<Graph<HarnessState>, GraphError> {
    let [a, b, c] = [harness.clone(), harness.clone(), harness.clone()];
    GraphBuilder::<HarnessState>::new("harness", 1)
        .node(INITIALIZE, move |ctx, state| {
            let harness = a.clone();
            async move { initialize(&harness, &ctx, project_of(&harness, &ctx).await?, &state).await }
        })
        .node(CODE, move |ctx, state| {
            let harness = b.clone();
            async move { code(&harness, &ctx, project_of(&harness, &ctx).await?, &state).await }
        })
        .node(FINAL_CHECK, move |ctx, state| {
            let harness = c.clone();
            async move { final_check(&harness, &ctx, project_of(&harness, &ctx).await?, &state).await }
        })
        .branch(START, &[INITIALIZE, CODE, FINAL_CHECK], next)
        .branch(INITIALIZE, &[INITIALIZE, CODE, END], next)
        .branch(CODE, &[CODE, FINAL_CHECK, END], next)
        .branch(FINAL_CHECK, &[CODE, END], next)
        .build()
}

fn next(state: &HarnessState) -> &'static str {
    match state.phase {
        Phase::Planning => INITIALIZE,
        Phase::Coding => CODE,
        Phase::FinalCheck => FINAL_CHECK,
        Phase::Done | Phase::Stuck => END,
    }
}

async fn project_of(harness: &Harness, ctx: &NodeContext) -> Result<Project, NodeError> {
    let owner = ctx.scope().clone();
    let task = owner.task.clone();
    let found = harness.store.read(move |read| project::with_task(read, &owner.scope, &task)).await?;
    let mut project = found.ok_or_else(|| NodeError::gave_up(HarnessError::NoProject(ctx.scope().task.clone())))?;
    project.owner.trace = ctx.scope().trace.clone();
    if let Some(here) = mirror::folder_here(&harness.task_dir(&project.owner.task)) {
        project.dir = here;
    }
    Ok(project)
}
