//! Durable execution: a graph of typed state whose runs survive crashes, with recorded steps, checkpoints and a ledger
//! of effects.
//!
//! It owns *when* code runs and what is recorded of it; it knows nothing of models, tools or browsers (invariant 3). A
//! node is ordinary async code. After a crash it runs again from its top, but each of its recorded steps returns its
//! stored result without being polled, so nothing happens twice.
//!
//! ```
//! use longhaul_core::{Ambient, TaskScope};
//! use longhaul_durable::{Effect, END, GraphBuilder, GraphState, MIGRATIONS, Outcome, RunOptions, Runtime, START};
//! use longhaul_store::{Store, StoreSettings};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
//! struct Notes {
//!     #[append]
//!     lines: Vec<String>, // a checkpoint stores what is added, not the whole
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let graph = GraphBuilder::<Notes>::new("notes", 1)
//!     .node("write", |ctx, state| async move {
//!         let n = state.lines.len();
//!         // The work is a future that is polled once and never again.
//!         let line = ctx.step("ask a model", Effect::Pure, async move { Ok(format!("line {n}")) }).await?;
//!         Ok(NotesUpdate::new().lines([line]))
//!     })
//!     .edge(START, "write")
//!     .branch("write", &["write", END], |state| if state.lines.len() < 3 { "write" } else { END })
//!     .build()?;
//!
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await?;
//! let runtime = Runtime::new(store, Ambient::system());
//! let scope = TaskScope::single_user();
//! // Starts the thread's execution, or goes on where a killed process had got to.
//! let outcome = runtime.run(&graph, &scope, &"notes_001".parse()?, Notes::default(), RunOptions::default()).await?;
//! let Outcome::Completed(notes) = outcome else { panic!("{outcome:?}") };
//! assert_eq!(notes.lines, ["line 0", "line 1", "line 2"]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The repository's `docs/durable.md` is a tour of ten minutes, `docs/from-langgraph.md` is for those who know
//! LangGraph, and `examples/` has programs that tell a story each.

mod active;
mod answer_schema;
mod answering;
mod beginning;
mod builder;
mod cancelling;
mod check;
mod checkpoint;
mod checks;
mod children;
mod context;
mod crew;
mod delivering;
#[doc(hidden)]
pub mod derived;
mod editing;
mod ending;
pub mod erasing;
mod error;
mod executions;
mod fit;
mod flow;
mod forking;
mod frame;
mod graph;
mod history;
mod inspect;
mod intervening;
mod limits;
mod listing;
mod machine;
mod measure;
mod mermaid;
mod migrate;
mod observe;
mod open;
mod pausing;
mod policy;
mod progress;
mod queue;
mod recording;
mod records;
pub mod replay;
mod resources;
mod retention;
mod run;
mod runtime;
mod schema;
mod seal;
mod settling;
mod shape;
mod state;
mod step;
mod stream;
mod superstep;
mod task;
mod timers;
mod waits;
mod waking;
mod walking;
mod webhook;
mod worker;

pub use answer_schema::AnswerSchemaError;
pub use builder::GraphBuilder;
pub use check::GraphError;
pub use checks::CHECKS;
pub use context::NodeContext;
pub use delivering::Delivered;
pub use error::{DurableError, NodeError};
pub use executions::{ExecutionFilter, ExecutionView, Happening, Moment, StatusError};
pub use fit::Misfit;
pub use flow::{Flow, Input, Planned, Route, Send};
pub use graph::{Graph, MigrateFrom, MissingResource};
pub use history::{Checkpoint, Point, PointError};
pub use inspect::{Inspection, Problem};
pub use intervening::{INTERVENTION_BYTES_MAX, Intervention, InterventionId, InterventionIdError};
pub use limits::LimitError;
pub use listing::WaitFilter;
pub use longhaul_durable_macros::GraphState;
pub use machine::{Action, Finished, Position, RouteError, Routes, Signals, close, plan, start};
pub use observe::{Observed, Observer};
pub use policy::{CacheKey, NodePolicy, Retry};
pub use progress::{News, Progress};
pub use queue::{Enqueue, Enqueued, Entry, EntryFilter, EntryId, EntryIdError, EntryStatus, QUEUE_MAX, QUEUED};
pub use records::{
    checkpoints::Form,
    effects::PendingEffect,
    executions::{CancelRequest, Execution, Status},
};
pub use resources::{Key, KeyId, Resources};
pub use retention::{Pruned, Retention};
pub use runtime::{Outcome, RunOptions, Runtime, StopWhen};
pub use schema::MIGRATIONS;
pub use settling::Settlement;
pub use shape::{Child, END, NodeShape, START, Shape, Way, Ways};
pub use state::{ConflictError, Field, GraphState, Reducer};
pub use step::{Effect, Probed, StepError, StepId, StepIdError};
pub use stream::{
    BUSINESS_EVENT_V, BusinessEvent, DevStream, DevView, DevViews, EventStream, ForUsers, StreamOf, StreamedEvent,
    to_ui_json,
};
pub use timers::{Deadlines, Fired};
pub use waits::{Answer, Continued, GivenAnswer, Wait, WaitId, WaitIdError, WaitInfo, WaitKind, WaitStatus};
pub use waking::{READY, Ready};
pub use walking::{Recorded, recorded_values};
pub use webhook::{WaitToken, WaitTokenError};
pub use worker::{Worked, Worker};

/// The guide's pages, so that what they show is compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/durable.md")]
    struct Tour;

    #[doc = include_str!("../../../docs/from-langgraph.md")]
    struct FromLangGraph;

    #[doc = include_str!("../../../docs/observing.md")]
    struct Observing;

    #[doc = include_str!("../../../docs/evaluation.md")]
    struct Evaluation;
}
