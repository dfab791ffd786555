//! Longhaul as a library: everything wired together from settings. The command line is a thin view in front of it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul::{InitRequest, Longhaul, Program, RunLimits, settings::{Settings, Sources}};
//!
//! let settings = Settings::load(&Sources::of_this_process(None))?;
//! let longhaul = Longhaul::open(settings, Program::this_one()?).await?;
//! let dir = std::path::Path::new("notes");
//! let request = InitRequest::new("A page that keeps notes", dir);
//! longhaul.init(request, Default::default()).await?;
//! let report = longhaul.run(dir, RunLimits::default(), Default::default()).await?;
//! println!("{} of {} features pass", report.passing, report.total);
//! # Ok(()) }
//! ```

mod agents;
pub mod chat;
pub mod community;
mod connect;
mod elsewhere;
mod embedding;
mod error;
mod folder;
mod home;
mod machine;
mod mcp;
mod memories;
pub mod network;
pub mod network_agents;
mod notify;
mod parked;
mod people;
mod planning;
mod queries;
mod report;
mod runs;
mod serving;
pub mod settings;
mod until;
mod vectors;
mod verify;

pub use connect::{DEMO_CASSETTE, DEMO_OF_DOCUMENTS, DEMO_OF_NETWORK, DEMO_OF_RESEARCH};
pub use error::LonghaulError;
pub use home::{Longhaul, Program};
pub use longhaul_core::{
    Ambient, Digest, Event, ExecutionId, FeatureId, MemoryId, RecordId, Scope, SessionId, Subject, TaskId, TaskScope,
    TenantId, ThreadId, TimeMs, TraceId, UserId, Visibility,
};
pub use longhaul_durable as durable;
pub use longhaul_durable::{
    Entry, ExecutionFilter, ExecutionView, News, PendingEffect, Progress, Settlement, Status as ExecutionStatus,
    StatusError, WaitInfo, replay,
};
pub use longhaul_harness::{
    JOBS_MAX, Phase, Profile, ProfileError,
    features::{Feature, Standing as FeatureStanding},
    history::{Purpose, SessionEntry, SessionOutcome},
    planning::{Change, Changed, Recorded},
    project::Project,
    proposals::{Proof, Proposal, ProposalState},
    spending::{Money, MoneyError, Spent},
    verification::{Refusal, StoredVerdict},
};
pub use longhaul_knowledge as knowledge;
pub use longhaul_memory as memory;
pub use longhaul_model as model;
pub use longhaul_model::{
    Cassette, CassetteRecorder, CassetteServer, CassetteServerSettings, Problem, RecorderError, RecorderSettings,
};
pub use longhaul_operate as operate;
pub use longhaul_operate::{
    Answered, Asked, Belonging, CASE_LIMIT, Cancelled, CaseResult, ChainLink, Decision, ErasureReceipt, ErrorKind,
    EvalError, EvalReport, Explanation, Fact, Kept, KeptFilter, Line, Linked, OpenWait, OperateError, Operator,
    Reached, Retried, Shown, Standing, StorePlace, Tail, TaskEvent, Unknown, Whereabouts, complete_case, file_name,
    harmless, moment, run_cases,
};
pub use longhaul_server as server;
pub use longhaul_store as store;
pub use longhaul_store::{Backup, BackupProgress, Finding as StoreFinding, Report as StoreReport, Severity};
pub use longhaul_tools as tools;
pub use longhaul_tools::sandbox::init_main as sandbox_init_main;
pub use longhaul_workspace as workspace;
pub use mcp::{McpHttp, ToolOptions, memory_tools, serve_mcp};
pub use memories::{
    Correcting, Evaluation, Filters, Forgetting, Memories, MemoriesError, MemoriesPlace, MigrateTo, Migration, Missed,
    Packing, Question, Remembering, memory_error_kind, memory_over, questions, receipt_lines, review_error_kind,
    session_error_kind,
};
pub use network::Network;
pub use people::Resumed;
pub use planning::Shown as PlanShown;
pub use queries::{Details, FeatureView, ParkedView, Status};
pub use report::ReportWritten;
pub use runs::{Ending, InitRequest, RunLimits, RunReport};
pub use serving::{Listening, Serving, ServingError, keys_of};
pub use tokio_util::sync::CancellationToken;
pub use until::Until;
pub use verify::{VerdictView, VerifyRequest, junit, verify};
