//! Which memories a query may look at, decided on the columns before anything is scored.
//!
//! Access is decided before (`access`). Invariant: expiry is a condition of every filter and no query can lift it.

use std::collections::BTreeSet;

use longhaul_core::TimeMs;
use serde_json::Value;

use crate::{
    CONDITIONS_MAX, Condition, Kind, MemoryError, Op, Query,
    bits::Bits,
    columns::{Columns, Field, Scalar},
    item::{check_collection, check_name, check_tag, field},
};

/// Fields named when a filter asks for one that is not there.
const KNOWN_MAX: usize = 50;

/// A checked filter, ready to run.
#[derive(Debug)]
pub(crate) struct Filter {
    collections: Vec<String>,
    kinds: Vec<Kind>,
    tags: Vec<String>,
    task: Option<String>,
    user: Option<String>,
    thread: Option<String>,
    since: Option<i64>,
    until: Option<i64>,
    conditions: Vec<Checked>,
    subject: Option<String>,
    as_of: i64,
    known_at: Option<i64>,
    include_superseded: bool,
    now: i64,
}

/// A condition whose value is one that can be compared.
#[derive(Debug)]
struct Checked {
    field: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    OneOf(Vec<Scalar>),
    Not(Scalar),
    Less { than: Scalar, or_equal: bool },
    Greater { than: Scalar, or_equal: bool },
    Exists(bool),
}

impl Filter {
    /// # Errors
    /// [`MemoryError::Field`] for what cannot be filtered by.
    pub(crate) fn new(query: &Query, now: TimeMs) -> Result<Self, MemoryError> {
        query.collections.iter().try_for_each(|collection| check_collection(collection))?;
        query.tags.iter().try_for_each(|tag| check_tag(tag))?;
        if let Some(thread) = &query.thread {
            check_name("thread", thread)?;
        }
        if let Some(subject) = &query.subject {
            check_name("subject", subject)?;
        }
        if query.filter.len() > CONDITIONS_MAX {
            return Err(field("filter", &format!("{} conditions", query.filter.len()), "at most 32 conditions"));
        }
        Ok(Self {
            collections: query.collections.clone(),
            kinds: query.kinds.clone(),
            tags: query.tags.clone(),
            task: query.task.as_ref().map(ToString::to_string),
            user: query.user.as_ref().map(ToString::to_string),
            thread: query.thread.clone(),
            since: query.since.map(|at| at.0),
            until: query.until.map(|at| at.0),
            conditions: query.filter.iter().map(checked).collect::<Result<_, _>>()?,
            subject: query.subject.clone(),
            as_of: query.as_of.unwrap_or(now).0,
            known_at: query.known_at.map(|at| at.0),
            include_superseded: query.include_superseded,
            now: now.0,
        })
    }

    /// Refuses conditions on fields that none of these partitions has, unless there is nothing in them.
    ///
    /// # Errors
    /// [`MemoryError::UnknownField`].
    pub(crate) fn check_fields(&self, partitions: &[&Columns]) -> Result<(), MemoryError> {
        if partitions.iter().all(|columns| columns.live() == 0) {
            return Ok(());
        }
        for Checked { field, .. } in &self.conditions {
            if partitions.iter().all(|columns| columns.field(field).is_none()) {
                let known: BTreeSet<&String> = partitions.iter().flat_map(|columns| columns.fields()).collect();
                let known = known.into_iter().take(KNOWN_MAX).cloned().collect();
                return Err(MemoryError::UnknownField { field: field.chars().take(80).collect(), known });
            }
        }
        Ok(())
    }

    /// The members of one partition.
    pub(crate) fn run(&self, columns: &Columns) -> Bits {
        let mut bits = columns.all();
        for Checked { field, test } in &self.conditions {
            keep(&mut bits, columns.field(field), test);
        }
        for tag in &self.tags {
            let mut tagged = Bits::up_to(columns.tagged(tag).last().map_or(0, |last| i64::from(*last)));
            columns.tagged(tag).iter().for_each(|seq| tagged.add(i64::from(*seq)));
            bits.intersect(&tagged);
        }
        if let Some(thread) = &self.thread {
            columns.keep_thread(&mut bits, thread);
        }
        if let Some(task) = &self.task {
            columns.keep_task(&mut bits, task);
        }
        if let Some(user) = &self.user {
            columns.keep_user(&mut bits, user);
        }
        if !self.collections.is_empty() {
            columns.keep_collections(&mut bits, &self.collections);
        }
        if !self.kinds.is_empty() {
            columns.keep_kinds(&mut bits, &self.kinds);
        }
        if self.since.is_some() || self.until.is_some() {
            columns.keep_happened(&mut bits, self.since.unwrap_or(i64::MIN), self.until.unwrap_or(i64::MAX));
        }
        if let Some(at) = self.known_at {
            columns.keep_known(&mut bits, at);
        }
        columns.keep_unexpired(&mut bits, self.now);
        self.facts(columns, &mut bits);
        bits
    }

    /// Takes out facts that do not hold, and with a subject all that are not about it.
    fn facts(&self, columns: &Columns, bits: &mut Bits) {
        if let Some(subject) = &self.subject {
            let mut about = Bits::up_to(columns.facts().last().map_or(0, |fact| fact.seq));
            let facts = columns.facts().iter().filter(|fact| columns.is_about(fact, subject));
            facts.for_each(|fact| about.add(fact.seq));
            bits.intersect(&about);
        }
        if self.include_superseded {
            return;
        }
        let believed_at = self.known_at.unwrap_or(i64::MAX - 1);
        for fact in columns.facts() {
            // A fact that was superseded later was believed as it stood: its end was not known yet.
            let is_superseded = fact.superseded_at <= believed_at;
            let is_valid = fact.valid_from <= self.as_of && self.as_of < fact.valid_to;
            let was_open = self.known_at.is_some() && fact.superseded_at != i64::MAX && !is_superseded;
            let holds = if was_open { fact.valid_from <= self.as_of } else { is_valid };
            if !holds || (is_superseded && self.as_of == self.now) {
                bits.remove(fact.seq);
            }
        }
    }
}

fn checked(condition: &Condition) -> Result<Checked, MemoryError> {
    let expected = "a text, a number, true or false";
    let scalar = |value: &Value| Scalar::of(value).ok_or_else(|| field("filter", &value.to_string(), expected));
    let value = &condition.value;
    let test = match condition.op {
        Op::Eq => Test::OneOf(vec![scalar(value)?]),
        Op::Ne => Test::Not(scalar(value)?),
        Op::Lt => Test::Less { than: scalar(value)?, or_equal: false },
        Op::Le => Test::Less { than: scalar(value)?, or_equal: true },
        Op::Gt => Test::Greater { than: scalar(value)?, or_equal: false },
        Op::Ge => Test::Greater { than: scalar(value)?, or_equal: true },
        Op::In => {
            let Value::Array(values) = value else {
                return Err(field("filter", &value.to_string(), "an array of texts, numbers, true or false"));
            };
            Test::OneOf(values.iter().map(scalar).collect::<Result<_, _>>()?)
        }
        Op::Exists => match value {
            Value::Bool(exists) => Test::Exists(*exists),
            Value::Null => Test::Exists(true),
            _ => return Err(field("filter", &value.to_string(), "true or false")),
        },
    };
    if condition.field.is_empty() {
        return Err(field("filter", "a condition without a field", "the name of a field of the metadata"));
    }
    Ok(Checked { field: condition.field.clone(), test })
}

fn keep(bits: &mut Bits, column: Option<&Field>, test: &Test) {
    let Some(column) = column else {
        // No memory here has the field.
        if !matches!(test, Test::Not(_) | Test::Exists(false)) {
            bits.retain(|_| false);
        }
        return;
    };
    let by_order = |than: &Scalar, or_equal: bool, wanted: std::cmp::Ordering| {
        column.table(false, |scalar| {
            scalar.compared(than).is_some_and(|order| order == wanted || (or_equal && order.is_eq()))
        })
    };
    let table = match test {
        Test::OneOf(scalars) => match scalars.as_slice() {
            [one] => {
                let wanted = column.known(one).unwrap_or(u32::MAX);
                return bits.retain(|number| column.value(number) == wanted);
            }
            many => column.table(false, |scalar| many.contains(scalar)),
        },
        Test::Not(one) => {
            let unwanted = column.known(one).unwrap_or(u32::MAX);
            return bits.retain(|number| column.value(number) != unwanted);
        }
        Test::Exists(exists) => return bits.retain(|number| (column.value(number) != 0) == *exists),
        Test::Less { than, or_equal } => by_order(than, *or_equal, std::cmp::Ordering::Less),
        Test::Greater { than, or_equal } => by_order(than, *or_equal, std::cmp::Ordering::Greater),
    };
    bits.retain(|number| table.get(column.value(number) as usize).copied().unwrap_or(false));
}
