//! One call after the other over one connection: headers, time limits, repeating what may be repeated, and reading what
//! the server says of itself.
//!
//! It does not know what the calls are for. Invariant: every call ends within its limit, whatever the other side does,
//! and no error text holds the token.

use std::{fs, time::Duration};

use tonic::{
    Code, Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::MetadataValue,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::{
    Address, MilvusError,
    proto::{Answer, SERVICE, Status},
};

/// An answer may be this large: a page of vectors, not a collection.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attempts of a call that found nobody, within its limit.
const ATTEMPTS_MAX: u32 = 3;
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The code of a collection that does not exist, from Milvus 2.3 on and of milvus-lite.
const NO_COLLECTION: i32 = 100;
/// What older servers say of one.
const MISSING: [&str; 3] = ["collection not found", "can't find collection", "collectionnotexist"];

/// A connection, made when it is first used and again after it broke. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: Address,
    channel: Channel,
    header: Option<MetadataValue<tonic::metadata::Ascii>>,
}

impl Client {
    /// Prepares a connection; nothing is sent yet. Needs a tokio runtime.
    pub(crate) fn new(address: Address) -> Result<Self, MilvusError> {
        address.check_secrecy()?;
        let unusable = |problem: String| MilvusError::Address { address: address.to_string(), problem };
        let mut endpoint = Endpoint::from_shared(address.endpoint())
            .map_err(|error| unusable(error.to_string()))?
            .connect_timeout(CONNECT_LIMIT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(5));
        if address.tls() {
            let mut tls = ClientTlsConfig::new().with_native_roots().domain_name(address.host());
            if let Some(path) = &address.ca_file {
                let pem = fs::read(path).map_err(|source| MilvusError::CaFile { path: path.clone(), source })?;
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| unusable(chain(&error)))?;
        }
        let header = match &address.token {
            None => None,
            Some(token) => {
                let mut value: MetadataValue<_> =
                    token.header().parse().map_err(|_| unusable("the token cannot be sent as a header".to_owned()))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { channel: endpoint.connect_lazy(), address, header })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// One call. Finding nobody is tried again within the limit: nothing has been carried out then.
    pub(crate) async fn call<Q, A>(&self, method: &'static str, ask: Q, limit: Duration) -> Result<A, MilvusError>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let answer = async {
            let mut attempt = 1;
            loop {
                match self.once(method, ask.clone(), limit).await {
                    Err(status) if status.code() == Code::Unavailable && attempt < ATTEMPTS_MAX => attempt += 1,
                    Err(status) => return Err(self.transport(method, &status, limit)),
                    Ok(answer) => return Ok(answer),
                }
            }
        };
        let answer: A = tokio::time::timeout(limit, answer).await.map_err(|_| self.slow(method, limit))??;
        match answer.status() {
            Some(status) if status.code != 0 || status.error_code != 0 => Err(self.said(method, status)),
            _ => Ok(answer),
        }
    }

    async fn once<Q, A>(&self, method: &'static str, ask: Q, limit: Duration) -> Result<A, tonic::Status>
    where
        Q: prost::Message + 'static,
        A: Answer,
    {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|error| tonic::Status::unavailable(chain(&error)))?;
        let mut request = Request::new(ask);
        request.set_timeout(limit);
        if let Some(header) = &self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        if let Ok(database) = self.address.database().parse::<MetadataValue<_>>()
            && !database.is_empty()
        {
            request.metadata_mut().insert("dbname", database);
        }
        let path = PathAndQuery::try_from(format!("{SERVICE}{method}"))
            .map_err(|error| tonic::Status::internal(error.to_string()))?;
        let answer = grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    fn slow(&self, method: &'static str, limit: Duration) -> MilvusError {
        MilvusError::Slow { address: self.address.to_string(), method, limit }
    }

    /// What the transport made of it.
    fn transport(&self, method: &'static str, status: &tonic::Status, limit: Duration) -> MilvusError {
        let address = self.address.to_string();
        let problem = cut(&chain(status));
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => MilvusError::Unauthenticated { address },
            Code::DeadlineExceeded | Code::Cancelled => self.slow(method, limit),
            Code::Unimplemented | Code::OutOfRange | Code::DataLoss => {
                MilvusError::Garbage { address, method, problem }
            }
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable => MilvusError::Unreachable { address, method, problem },
        }
    }

    /// What the server itself answered.
    fn said(&self, method: &'static str, status: &Status) -> MilvusError {
        let address = self.address.to_string();
        let reason = cut(&status.reason);
        let code = if status.code == 0 { status.error_code } else { status.code };
        let words = reason.to_lowercase();
        if status.code == NO_COLLECTION || MISSING.iter().any(|missing| words.contains(missing)) {
            return MilvusError::Missing { address, collection: String::new() };
        }
        if words.contains("auth check failure") || words.contains("unauthenticated") {
            return MilvusError::Unauthenticated { address };
        }
        // 1: service not ready; 2: service unavailable; 3 and 9: memory and rate limits; retriable: the server knows.
        let busy = status.retriable || matches!(status.code, 1 | 2 | 3 | 8 | 9) || words.contains("not ready");
        if busy {
            return MilvusError::Unreachable { address, method, problem: reason };
        }
        MilvusError::Refused { address, method, code, reason }
    }

    /// An answer that does not hold together.
    pub(crate) fn garbage(&self, method: &'static str, problem: impl Into<String>) -> MilvusError {
        MilvusError::Garbage { address: self.address.to_string(), method, problem: problem.into() }
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}
