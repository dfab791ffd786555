//! Which memories a query may look at, decided by the store before anything is scored (invariant 7).
//!
//! Invariant: the tenant and the expiry are conditions of every statement built here and no query can lift them.

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Value, values};

use crate::{MemoryError, Query, bits::Bits, item};

/// A checked filter, ready to run.
#[derive(Debug)]
pub(crate) struct Filter {
    sql: String,
    params: Vec<Value>,
}

impl Filter {
    /// # Errors
    /// [`MemoryError::Field`] for a collection or a metadata value that cannot be filtered by.
    pub(crate) fn new(scope: &Scope, query: &Query, now: TimeMs) -> Result<Self, MemoryError> {
        let mut filter = Self {
            sql: "SELECT seq FROM memories WHERE tenant_id = ?1 AND (expires_at IS NULL OR expires_at > ?2)".to_owned(),
            params: values![&scope.tenant, now].into(),
        };
        for collection in &query.collections {
            item::check_collection(collection)?;
        }
        filter.one_of("collection", query.collections.iter().map(Value::from).collect());
        filter.one_of("kind", query.kinds.iter().map(|kind| kind.as_str().into()).collect());
        filter.also("task_id =", query.task.as_ref().map(Value::from));
        filter.also("user_id =", query.user.as_ref().map(Value::from));
        filter.also("created_at >=", query.since.map(Value::from));
        filter.also("created_at <", query.until.map(Value::from));
        for (key, value) in &query.meta {
            filter.meta(key, value)?;
        }
        Ok(filter)
    }

    /// The members, among numbers up to `last_seq`.
    pub(crate) fn run(&self, read: &ReadTx<'_>, last_seq: i64) -> Result<Bits, StoreError> {
        let mut allowed = Bits::up_to(last_seq);
        read.for_each(&self.sql, &self.params, |row| {
            allowed.add(row.get(0)?);
            Ok(true)
        })?;
        Ok(allowed)
    }

    fn bind(&mut self, value: Value) -> String {
        self.params.push(value);
        format!("?{}", self.params.len())
    }

    fn one_of(&mut self, column: &str, values: Vec<Value>) {
        if !values.is_empty() {
            let places: Vec<String> = values.into_iter().map(|value| self.bind(value)).collect();
            self.sql.push_str(&format!(" AND {column} IN ({})", places.join(", ")));
        }
    }

    fn also(&mut self, condition: &str, value: Option<Value>) {
        if let Some(value) = value {
            let place = self.bind(value);
            self.sql.push_str(&format!(" AND {condition} {place}"));
        }
    }

    /// The one place whose SQL is not the same on every database.
    fn meta(&mut self, key: &str, value: &serde_json::Value) -> Result<(), MemoryError> {
        if key.is_empty() || key.contains(['"', '\\', '\0']) {
            return Err(item::field("meta key", key, "a name without quotes or backslashes"));
        }
        let value = match value {
            serde_json::Value::String(text) => Value::from(text),
            serde_json::Value::Bool(truth) => Value::from(*truth),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::from(whole),
                (None, Some(real)) => Value::from(real),
                (None, None) => return Err(item::field("meta", &number.to_string(), "a number of 64 bits")),
            },
            serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                return Err(item::field("meta", &value.to_string(), "a text, a number, true or false"));
            }
        };
        let path = self.bind(Value::from(format!("$.\"{key}\"")));
        let value = self.bind(value);
        self.sql.push_str(&format!(" AND json_extract(meta, {path}) = {value}"));
        Ok(())
    }
}
