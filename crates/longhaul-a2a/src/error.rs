//! What can go wrong, once for all bindings: each translates the same kinds (specification, section 5.4).
//!
//! Invariant: an error of the protocol always carries its `ErrorInfo`; nothing here tells a caller whether a task of
//! somebody else exists.

use longhaul_network::{Refusal, RefusalKind};
use longhaul_store::StoreError;
use prost::{Message, Name};
use serde_json::{Value, json};
use tonic::Code;

use crate::{settings::Statuses, wire::rpc};

/// Who names the reasons in `ErrorInfo`.
const DOMAIN: &str = "a2a-protocol.org";

/// Why an operation was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum A2aError {
    /// No such task, or none of the caller's.
    #[error("there is no task {0:?} of yours here: list yours with ListTasks")]
    TaskNotFound(String),
    /// It has ended.
    #[error("task {0:?} has ended and cannot be canceled any more")]
    TaskNotCancelable(String),
    /// The card does not declare push notifications.
    #[error("push notifications are switched off here: follow the task with SubscribeToTask, or ask with GetTask")]
    PushNotSupported,
    /// Not possible with this agent or in this state.
    #[error("{0}")]
    Unsupported(String),
    /// A media type that nobody here reads.
    #[error("{0}")]
    ContentType(String),
    /// There is no extended card.
    #[error("there is no extended card here")]
    ExtendedCardNotConfigured,
    /// The client does not declare an extension that it must know.
    #[error("this agent wants its clients to know {0}: name it in the header A2A-Extensions")]
    ExtensionRequired(String),
    /// A version that is not spoken here.
    #[error("version {0:?} is not spoken here: send the header A2A-Version: 1.0{1}")]
    Version(String, &'static str),
    /// A field is wrong.
    #[error("{message}")]
    InvalidParams {
        /// The path to the field, with dots; empty for all of it.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// Not a request of JSON-RPC.
    #[error("{0}")]
    InvalidRequest(String),
    /// No JSON.
    #[error("this is not JSON: {0}")]
    Parse(String),
    /// A method that there is none of.
    #[error("there is no method {0:?} here")]
    MethodNotFound(String),
    /// No agent of that name.
    #[error("there is no agent {0:?} here")]
    NoAgent(String),
    /// No proof of who calls, or a wrong one.
    #[error(
        "say who you are: send the header Authorization: Bearer AGENT_ID:SECRET with the secret that registering gave"
    )]
    Unauthenticated,
    /// Known, and not allowed.
    #[error("{0}")]
    Forbidden(String),
    /// Somebody was first.
    #[error("{0}")]
    Conflict(String),
    /// Too large, too often, too many.
    #[error("{message}")]
    Exhausted {
        /// Why.
        message: String,
        /// Milliseconds after which trying again makes sense.
        retry_after_ms: Option<u64>,
    },
    /// Not now.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of this program.
    #[error("{0}")]
    Internal(String),
}

/// How the three bindings name one kind.
struct Names {
    /// In `ErrorInfo`; none where the protocol has no name for it.
    reason: Option<&'static str>,
    code: i32,
    grpc: Code,
    http: u16,
    /// HTTP and gRPC of release 1.0.0, where they were others.
    before: Option<(Code, u16)>,
}

const fn names(reason: &'static str, code: i32, grpc: Code, http: u16) -> Names {
    Names { reason: Some(reason), code, grpc, http, before: None }
}

const fn plain(code: i32, grpc: Code, http: u16) -> Names {
    Names { reason: None, code, grpc, http, before: None }
}

impl Names {
    const fn before(self, grpc: Code, http: u16) -> Self {
        Self { before: Some((grpc, http)), ..self }
    }
}

impl A2aError {
    /// A field is wrong.
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::InvalidParams { field: field.to_owned(), message: message.into() }
    }

    fn names(&self) -> Names {
        use Code::{FailedPrecondition, InvalidArgument, Unimplemented};
        match self {
            Self::TaskNotFound(_) => names("TASK_NOT_FOUND", -32001, Code::NotFound, 404),
            Self::TaskNotCancelable(_) => {
                names("TASK_NOT_CANCELABLE", -32002, FailedPrecondition, 400).before(FailedPrecondition, 409)
            }
            Self::PushNotSupported => {
                names("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, FailedPrecondition, 400).before(Unimplemented, 400)
            }
            Self::Unsupported(_) => {
                names("UNSUPPORTED_OPERATION", -32004, FailedPrecondition, 400).before(Unimplemented, 400)
            }
            Self::ContentType(_) => {
                names("CONTENT_TYPE_NOT_SUPPORTED", -32005, InvalidArgument, 400).before(InvalidArgument, 415)
            }
            Self::ExtendedCardNotConfigured => {
                names("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, FailedPrecondition, 400)
            }
            Self::ExtensionRequired(_) => names("EXTENSION_SUPPORT_REQUIRED", -32008, FailedPrecondition, 400),
            Self::Version(..) => {
                names("VERSION_NOT_SUPPORTED", -32009, FailedPrecondition, 400).before(Unimplemented, 400)
            }
            Self::InvalidParams { .. } => plain(-32602, InvalidArgument, 400),
            Self::InvalidRequest(_) => plain(-32600, InvalidArgument, 400),
            Self::Parse(_) => plain(-32700, InvalidArgument, 400),
            Self::MethodNotFound(_) => plain(-32601, Unimplemented, 404),
            Self::NoAgent(_) => plain(-32602, Code::NotFound, 404),
            Self::Unauthenticated => plain(-32050, Code::Unauthenticated, 401),
            Self::Forbidden(_) => plain(-32051, Code::PermissionDenied, 403),
            Self::Conflict(_) => plain(-32052, Code::Aborted, 409),
            Self::Exhausted { .. } => plain(-32053, Code::ResourceExhausted, 429),
            Self::Unavailable(_) => plain(-32054, Code::Unavailable, 503),
            Self::Internal(_) => plain(-32603, Code::Internal, 500),
        }
    }

    fn about(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::TaskNotFound(task) | Self::TaskNotCancelable(task) => vec![("taskId", task.clone())],
            Self::Version(version, _) => vec![("version", version.clone())],
            _ => Vec::new(),
        }
    }

    fn details(&self) -> Vec<Value> {
        if let Some(reason) = self.names().reason {
            let metadata: serde_json::Map<_, _> =
                self.about().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
            return vec![json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason, "domain": DOMAIN, "metadata": metadata,
            })];
        }
        match self {
            Self::InvalidParams { field, message } => vec![json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": field, "description": message }],
            })],
            _ => Vec::new(),
        }
    }

    /// The error object of JSON-RPC (section 9.5).
    pub(crate) fn json_rpc(&self) -> Value {
        let mut error = json!({ "code": self.names().code, "message": self.to_string() });
        let details = self.details();
        if !details.is_empty() {
            error["data"] = details.into();
        }
        error
    }

    /// Status and body over REST (section 11.6).
    pub(crate) fn rest(&self, statuses: Statuses) -> (u16, Value) {
        let names = self.names();
        let (grpc, http) = statuses.pick((names.grpc, names.http), names.before);
        let mut error = json!({ "code": http, "status": word(grpc), "message": self.to_string() });
        let details = self.details();
        if !details.is_empty() {
            error["details"] = details.into();
        }
        (http, json!({ "error": error }))
    }

    /// The status of gRPC (section 10.6).
    pub(crate) fn grpc(&self, statuses: Statuses) -> tonic::Status {
        let names = self.names();
        let (code, _) = statuses.pick((names.grpc, names.http), names.before);
        let detail = match (names.reason, self) {
            (Some(reason), _) => {
                let metadata = self.about().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                any(&rpc::ErrorInfo { reason: reason.to_owned(), domain: DOMAIN.to_owned(), metadata })
            }
            (None, Self::InvalidParams { field, message }) => any(&rpc::BadRequest {
                field_violations: vec![rpc::bad_request::FieldViolation {
                    field: field.clone(),
                    description: message.clone(),
                }],
            }),
            (None, _) => return tonic::Status::new(code, self.to_string()),
        };
        let whole = rpc::Status { code: code as i32, message: self.to_string(), details: vec![detail] };
        tonic::Status::with_details(code, self.to_string(), whole.encode_to_vec().into())
    }

    /// Milliseconds after which trying again makes sense.
    pub(crate) fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Exhausted { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        }
    }
}

fn any<M: Message + Name>(message: &M) -> prost_types::Any {
    prost_types::Any { type_url: format!("type.googleapis.com/{}", M::full_name()), value: message.encode_to_vec() }
}

/// The name of a status in gRPC's own words.
fn word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl From<Refusal> for A2aError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.message;
        match refusal.kind {
            RefusalKind::Invalid => Self::InvalidParams { field: String::new(), message },
            RefusalKind::Unauthenticated => Self::Unauthenticated,
            RefusalKind::Forbidden => Self::Forbidden(message),
            RefusalKind::Missing => Self::InvalidParams { field: String::new(), message },
            RefusalKind::Conflict => Self::Conflict(message),
            RefusalKind::TooLarge | RefusalKind::TooMany => {
                Self::Exhausted { message, retry_after_ms: refusal.retry_after_ms }
            }
            RefusalKind::TimedOut | RefusalKind::Unavailable => Self::Unavailable(message),
        }
    }
}

impl From<StoreError> for A2aError {
    fn from(error: StoreError) -> Self {
        // What exactly failed is for the operator.
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
        Self::Unavailable("the network's store failed: try again later".to_owned())
    }
}
