//! Whether an id names something, and whose it is.
//!
//! It owns the register of questions; each component answers for its own rows, by a query that a migration step of its
//! own enters under the prefix of its ids: `INSERT INTO link_ends (prefix, query) VALUES ('note_', 'SELECT user_id FROM
//! notes WHERE tenant_id = ?1 AND note_id = ?2')`. The query gives, as text, the user who owns the row, or NULL where
//! all users of the tenant do. For ids with further parts, `exec_1/node/3/name#1`, the prefix is `exec_/`, and `?3` is
//! what stands before the first slash. Being in the database, the register is complete whichever program opens the
//! store. Invariant: an id counts as there only if a row of its tenant says so.

use longhaul_core::{Scope, UserId};

use crate::{ReadTx, StoreError, Value, values};

/// What an id names, as far as the rows tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdStanding {
    /// A row of the tenant, owned by this user, or by all of them.
    There {
        /// The user who owns it, if one does.
        owner: Option<UserId>,
    },
    /// Nothing in this tenant.
    Gone,
    /// No component knows ids that begin like this.
    UnknownKind {
        /// What those begin with that are known.
        known: Vec<String>,
    },
}

impl ReadTx<'_> {
    /// What an id names within the tenant: a task, a record, a step, whatever has registered.
    ///
    /// # Errors
    /// Those of the database.
    pub fn standing_of(&self, scope: &Scope, id: &str) -> Result<IdStanding, StoreError> {
        let (head, is_part) = id.split_once('/').map_or((id, false), |(head, _)| (head, true));
        let prefix = head.find('_').map_or("", |end| &head[..=end]);
        let prefix = if is_part { format!("{prefix}/") } else { prefix.to_owned() };
        let by_prefix = "SELECT query FROM link_ends WHERE prefix = ?1";
        let Some(query) = self.query_optional(by_prefix, &values![&prefix], |row| row.get::<String>(0))? else {
            let known = self.query("SELECT prefix FROM link_ends ORDER BY prefix", &[], |row| row.get(0))?;
            return Ok(IdStanding::UnknownKind { known });
        };
        let mut params: Vec<Value> = values![&scope.tenant, id].to_vec();
        if is_part {
            params.push(head.into());
        }
        let owner = self.query_optional(&query, &params, |row| row.get::<Option<UserId>>(0))?;
        Ok(owner.map_or(IdStanding::Gone, |owner| IdStanding::There { owner }))
    }
}
