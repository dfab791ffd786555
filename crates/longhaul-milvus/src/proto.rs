//! The part of the Milvus protocol that is spoken here, as messages written by hand.
//!
//! It owns field numbers and nothing else. Source: milvus-io/milvus-proto, `proto/{milvus,schema,common}.proto`; the
//! numbers are the same from Milvus 2.2 to the newest. Written out because generating them needs protoc or a build
//! script, and this is a fortieth of the whole. Invariant: a field that is not named here is skipped when read and has
//! its default when sent, so newer servers are understood.

mod data;
mod request;

pub(crate) use data::*;
pub(crate) use request::*;

/// The service's name in every path.
pub(crate) const SERVICE: &str = "/milvus.proto.milvus.MilvusService/";

/// `common.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    /// The older code; 0 is success. Newer servers fill `code`, too.
    #[prost(int32, tag = "1")]
    pub(crate) error_code: i32,
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
    #[prost(bool, tag = "4")]
    pub(crate) retriable: bool,
}

/// `common.KeyValuePair`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValuePair {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `common.ConsistencyLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum ConsistencyLevel {
    Strong = 0,
    Session = 1,
    Bounded = 2,
    Eventually = 3,
    /// The request names the timestamp up to which writes must be seen.
    Customized = 4,
}

/// An answer that says how it went.
pub(crate) trait Answer: prost::Message + Default + 'static {
    /// What the server says of the call; without one it went well.
    fn status(&self) -> Option<&Status>;
}

macro_rules! answers {
    ($($name:ident),+) => {
        $(impl Answer for $name {
            fn status(&self) -> Option<&Status> {
                self.status.as_ref()
            }
        })+
    };
}

answers!(
    DescribeCollectionResponse,
    DescribeIndexResponse,
    FlushResponse,
    GetLoadStateResponse,
    GetVersionResponse,
    MutationResult,
    QueryResults,
    SearchResults
);

impl Answer for Status {
    fn status(&self) -> Option<&Status> {
        Some(self)
    }
}
