//! The protocol's own types, as its description says, and their JSON form.
//!
//! Invariant: both bindings with JSON and the one without have the same types, so that nothing is translated twice; the
//! JSON form is what the description's rules for JSON (ProtoJSON) make of it, never a form written by hand.

use std::sync::LazyLock;

use longhaul_core::TimeMs;
use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

use crate::error::A2aError;

/// What `specification/a2a.proto` describes.
#[expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated from the protocol's description")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/lf.a2a.v1.rs"));
}

/// What gRPC carries beside a status code.
#[expect(clippy::all, clippy::pedantic, unreachable_pub, reason = "generated from the description of these messages")]
pub(crate) mod rpc {
    include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
}

/// The description itself, for gRPC's reflection.
pub const FILE_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/a2a.bin"));

static POOL: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTORS).ok());

fn descriptor<M: Name>() -> Option<MessageDescriptor> {
    POOL.as_ref()?.get_message_by_name(&M::full_name())
}

/// The JSON form of a message. Fields that are not set are left out.
pub(crate) fn to_json<M: Message + Name>(message: &M) -> Value {
    let Some(descriptor) = descriptor::<M>() else { return Value::Null };
    let mut dynamic = DynamicMessage::new(descriptor);
    if dynamic.transcode_from(message).is_err() {
        return Value::Null;
    }
    let written = dynamic.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new());
    whole_numbers(written.unwrap_or_default())
}

/// The protocol keeps numbers of free data as floating-point ones; what was written as 42 is shown as 42, not as 42.0.
fn whole_numbers(value: Value) -> Value {
    /// Beyond this not every whole number is one of these.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range where that is exact")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT_MAX => (float as i64).into(),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, whole_numbers(value))).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other,
    }
}

/// Reads a message from its JSON form; fields that this version does not know are passed over.
///
/// # Errors
/// [`A2aError::InvalidParams`] with the place that is wrong.
pub(crate) fn from_json<M: Message + Name + Default>(value: Value) -> Result<M, A2aError> {
    let Some(descriptor) = descriptor::<M>() else {
        return Err(A2aError::Internal("the description of the protocol is missing in this program".to_owned()));
    };
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(descriptor, value, &options)
        .map_err(|error| A2aError::invalid("", format!("this is not a {}: {error}", M::NAME)))?
        .transcode_to()
        .map_err(|error| A2aError::invalid("", format!("this is not a {}: {error}", M::NAME)))
}

/// A point in time, as the protocol writes it.
pub(crate) fn timestamp(at: TimeMs) -> prost_types::Timestamp {
    let nanos = i32::try_from(at.0.rem_euclid(1_000)).unwrap_or_default() * 1_000_000;
    prost_types::Timestamp { seconds: at.0.div_euclid(1_000), nanos }
}

/// Milliseconds of a point in time.
pub(crate) fn milliseconds(at: &prost_types::Timestamp) -> i64 {
    at.seconds.saturating_mul(1_000).saturating_add(i64::from(at.nanos) / 1_000_000)
}
