//! Conversations over a real store, on both stores.

mod appending;
mod deleting;
mod learning;
mod searching;
mod windows;

use longhaul_core::{SessionId, TaskScope, ToolCall};
use longhaul_store::{ReadTx, Store, StoreError};
use longhaul_workspace::sessions::{NewMessage, Session, Sessions, StoredMessage};

use crate::ground::{Ground, on_postgres, owner, scope};

impl Ground {
    /// The conversations of the user `a` of the tenant `t`.
    fn talks(&self) -> Sessions {
        self.workspace.user(&scope("t", "a")).sessions()
    }

    /// A conversation of the user `a` by its name.
    fn talk(&self, session: &str) -> Session {
        self.workspace.task(&in_session("a", session)).session()
    }

    async fn said(&self, session: &str, message: NewMessage) -> StoredMessage {
        self.talk(session).append(message).await.expect("it is appended")
    }
}

fn in_session(user: &str, session: &str) -> TaskScope {
    TaskScope { session: SessionId::from_body(session), ..owner("t", user, "t1") }
}

fn id(session: &str) -> SessionId {
    SessionId::from_body(session)
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "shell".into(), arguments: r#"{"cmd":"ls"}"#.into() }
}

fn tables(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let sql = if on_postgres() {
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1"
    } else {
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
    };
    read.query(sql, &[], |row| row.get::<String>(0))
}

/// How many rows each table has.
async fn counts(store: &Store) -> Vec<(String, i64)> {
    let count = |read: &ReadTx<'_>| {
        let tables = tables(read)?;
        let count = |name: String| {
            let sql = format!("SELECT count(*) FROM \"{name}\"");
            let rows = read.query_one(&sql, &[], |row| row.get::<i64>(0))?;
            Ok((name, rows))
        };
        tables.into_iter().map(count).collect::<Result<Vec<_>, StoreError>>()
    };
    store.read(count).await.expect("the tables are counted")
}

/// The tables in which a text stands, in any column.
async fn holding(store: &Store, text: &'static str) -> Vec<String> {
    let holds = move |read: &ReadTx<'_>| {
        let mut found = Vec::new();
        for name in tables(read)? {
            let columns = if on_postgres() {
                "SELECT column_name::text FROM information_schema.columns
                 WHERE table_schema = current_schema() AND table_name = ?1"
            } else {
                "SELECT name FROM pragma_table_info(?1)"
            };
            let columns = read.query(columns, &[name.as_str().into()], |row| row.get::<String>(0))?;
            for column in columns {
                let sql = format!("SELECT count(*) FROM \"{name}\" WHERE CAST(\"{column}\" AS TEXT) LIKE ?1");
                let pattern = format!("%{text}%");
                if read.query_one(&sql, &[pattern.into()], |row| row.get::<i64>(0))? > 0 {
                    found.push(format!("{name}.{column}"));
                }
            }
        }
        Ok::<_, StoreError>(found)
    };
    store.read(holds).await.expect("the tables are searched")
}
