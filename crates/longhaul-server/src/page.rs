//! Lists in pages: at most so many items, and the id behind which the next page begins.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Items of a page unless the caller asks for another number.
const LIMIT: u32 = 50;
/// Most items of a page.
const LIMIT_MAX: u32 = 200;

/// How many items somebody asks for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub(crate) struct Limit(u32);

impl Default for Limit {
    fn default() -> Self {
        Self(LIMIT)
    }
}

impl TryFrom<u32> for Limit {
    type Error = String;
    fn try_from(limit: u32) -> Result<Self, String> {
        if (1..=LIMIT_MAX).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(format!("limit: write a number from 1 to {LIMIT_MAX}"))
        }
    }
}

impl Limit {
    /// One more than is shown, which tells whether there is another page.
    pub(crate) fn and_one(self) -> u32 {
        self.0 + 1
    }

    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where the next page begins: give it as `after`. Nothing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    /// From rows that were asked for with [`Limit::and_one`].
    pub(crate) fn of<R>(mut rows: Vec<R>, limit: Limit, name: impl Fn(&R) -> String, view: impl Fn(R) -> T) -> Self {
        let more = rows.len() > limit.0 as usize;
        rows.truncate(limit.0 as usize);
        let next = rows.last().filter(|_| more).map(name);
        Self { items: rows.into_iter().map(view).collect(), next }
    }
}
