//! Lists of tasks, and one task with its reports. Reads only.

use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::{
    Call,
    rows::{Status, TASK, Task, task},
};
use crate::{acting::seconds, shape::wrong};

impl Call<'_, '_> {
    pub(super) fn list(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let empty = Map::new();
        let filter = self.fields.object("filter")?.unwrap_or(&empty);
        let role = match filter.get("role").or_else(|| self.fields.value("role")) {
            None | Some(Value::Null) => "delegated_by_me",
            Some(role) => role.as_str().unwrap_or_default(),
        };
        let page = self.fields.page(20, 500)?;
        let mut params = values![&self.here.tenant, &self.here.network, &self.actor.id].to_vec();
        let mut conditions = match role {
            "delegated_by_me" => "delegator_id = ?3".to_owned(),
            "assigned_to_me" => "assignee_id = ?3".to_owned(),
            "any" => "(delegator_id = ?3 OR assignee_id = ?3)".to_owned(),
            _ => return Err(wrong("filter.role", "is none of delegated_by_me, assigned_to_me, any")),
        };
        let wanted = statuses(filter.get("status"))?;
        if !wanted.is_empty() {
            let first = params.len() + 1;
            params.extend(wanted.iter().map(|status| status.as_str().into()));
            let numbers: Vec<String> = (first..=params.len()).map(|number| format!("?{number}")).collect();
            conditions.push_str(&format!(" AND status IN ({})", numbers.join(", ")));
        }
        let from = format!("FROM delegated_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND {conditions}");
        let read = stage.rows();
        let total: i64 = read.query_one(&format!("SELECT count(*) {from}"), &params, |row| row.get(0))?;
        params.extend(values![page.limit, page.offset]);
        let (limit, offset) = (params.len() - 1, params.len());
        let sql = format!("SELECT {TASK} {from} ORDER BY created_at DESC, task_id LIMIT ?{limit} OFFSET ?{offset}");
        let tasks: Vec<Value> = read.query(&sql, &params, task)?.iter().map(Task::listed).collect();
        let has_more = page.has_more(tasks.len(), total);
        let data = json!({"tasks": tasks, "total_count": total, "has_more": has_more});
        Ok(Reply::done(format!("{total} tasks"), Some(data)))
    }

    pub(super) fn get(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let task = match self.known(stage)? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let sql = "SELECT agent_id, reported_at, message, data FROM delegated_reports
                   WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 ORDER BY nth";
        let key = values![&self.here.tenant, &self.here.network, &task.id];
        let reports = stage.rows().query(sql, &key, |row| {
            Ok(json!({
                "agent_id": row.get::<String>(0)?, "timestamp": seconds(row.get(1)?),
                "message": row.get::<String>(2)?, "data": row.get::<Option<Value>>(3)?,
            }))
        })?;
        Ok(Reply::done("task", Some(task.shown(&reports))))
    }
}

/// The states that are asked for; none for all of them.
fn statuses(given: Option<&Value>) -> Result<Vec<Status>, Refusal> {
    let words: Vec<&Value> = match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(words)) => words.iter().take(Status::ALL.len()).collect(),
        Some(word) => vec![word],
    };
    let read = |word: &Value| word.as_str().and_then(Status::read);
    let unknown = || wrong("filter.status", "is none of submitted, working, completed, failed, canceled, rejected");
    words.into_iter().map(|word| read(word).ok_or_else(unknown)).collect()
}
