//! What a person does with executions and with what they left behind, whichever program runs them: look, answer, end,
//! settle, explain, back up and verify.
//!
//! It owns finding what is meant and saying what to do next; what an answer or an end is, the runtime says. Invariants:
//! whoever asks is named in what is recorded; only answering, ending and settling change a store.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_core::{TenantId, UserId};
//! use longhaul_operate::{Operator, StorePlace};
//!
//! let (tenant, user) = (TenantId::from_body("local"), UserId::from_body("me"));
//! let store = Some("./runs".to_owned());
//! let place = StorePlace { store, home: "/tmp".into(), bucket: None, tenant, user, actor: "me".into() };
//! let operator = Operator::open(place).await?;
//! for open in operator.waits().await? {
//!     println!("{} asks {:?}", open.wait.id, open.wait.name);
//! }
//! # Ok(()) }
//! ```

mod answering;
mod belonging;
mod chain;
mod erase;
mod error;
mod eval;
mod explaining;
mod keeping;
mod moments;
mod next;
mod operator;
mod points;
mod queued;
mod refs;
mod rows;
mod settling;
mod showing;
mod sound;
mod story;
mod tail;
mod target;
mod whereabouts;

pub use answering::{Answered, Decision};
pub use belonging::Belonging;
pub use chain::ChainLink;
pub use erase::ErasureReceipt;
pub use error::{ErrorKind, OperateError};
pub use eval::{CASE_LIMIT, CaseResult, EvalError, EvalReport, complete_case, file_name, run_cases};
pub use explaining::{Explanation, Fact, Line};
pub use keeping::{Kept, KeptFilter, Linked};
pub use moments::moment;
pub use operator::{OpenWait, Operator, StorePlace};
pub use settling::{Cancelled, Retried};
pub use showing::{SHOW_BYTES_MAX, Shown, harmless};
pub use tail::{Tail, TaskEvent};
pub use target::Target;
pub use whereabouts::{Asked, Reached, Standing, Unknown, Whereabouts};
