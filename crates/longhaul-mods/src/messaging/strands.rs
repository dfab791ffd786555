//! Strands: the messages of a thread, or of a conversation of two, numbered, so that a page of them is found at once.

use longhaul_network::{AgentId, Refusal, Stage};
use longhaul_store::{Row, StoreError, values};

use crate::{place::Place, shape::Page};

/// Version of what a row holds.
const V: u32 = 1;
/// Characters of the last message that lists show.
const LAST_CHARS_MAX: usize = 200;

/// One thread or conversation.
#[derive(Debug)]
pub(super) struct Strand {
    name: String,
    channel: Option<String>,
    between: Option<(String, String)>,
}

/// How a strand stands.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) strand: String,
    pub(super) low: Option<String>,
    pub(super) high: Option<String>,
    pub(super) count: i64,
    pub(super) last_sender: String,
    pub(super) last_text: String,
    pub(super) last_at: i64,
}

const STANDING: &str = "SELECT strand, low, high, count, last_sender, last_text, last_at FROM messaging_strands
    WHERE tenant_id = ?1 AND network_id = ?2";

fn standing(row: &Row<'_>) -> Result<Standing, StoreError> {
    Ok(Standing {
        strand: row.get(0)?,
        low: row.get(1)?,
        high: row.get(2)?,
        count: row.get(3)?,
        last_sender: row.get(4)?,
        last_text: row.get(5)?,
        last_at: row.get(6)?,
    })
}

impl Strand {
    /// The thread that this event began.
    pub(super) fn thread(root: &str, channel: Option<&str>) -> Self {
        Self { name: format!("t:{root}"), channel: channel.map(str::to_owned), between: None }
    }

    /// The conversation of these two.
    pub(super) fn between(a: &AgentId, b: &AgentId) -> Self {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        Self { name: format!("d:{low}:{high}"), channel: None, between: Some((low.to_string(), high.to_string())) }
    }

    /// One more message.
    pub(super) fn append(
        &self,
        stage: &mut Stage<'_, '_>,
        event_id: &str,
        sender: &AgentId,
        text: &str,
    ) -> Result<(), Refusal> {
        let (Place { tenant, network }, now) = (Place::of(stage), stage.now());
        let (low, high) = self.between.clone().unzip();
        let text: String = text.chars().take(LAST_CHARS_MAX).collect();
        let tx = stage.tx();
        tx.execute(
            "INSERT INTO messaging_strands (tenant_id, network_id, strand, v, channel, low, high, count, last_sender,
                 last_text, last_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10)
             ON CONFLICT (tenant_id, network_id, strand) DO UPDATE SET count = messaging_strands.count + 1,
                 last_sender = excluded.last_sender, last_text = excluded.last_text, last_at = excluded.last_at",
            &values![&tenant, &network, &self.name, V, self.channel.as_ref(), low, high, sender.as_str(), text, now],
        )?;
        tx.execute(
            "INSERT INTO messaging_entries (tenant_id, network_id, strand, n, event_id)
             SELECT tenant_id, network_id, strand, count, ?4 FROM messaging_strands
             WHERE tenant_id = ?1 AND network_id = ?2 AND strand = ?3",
            &values![&tenant, &network, &self.name, event_id],
        )?;
        Ok(())
    }

    /// How it stands, if there is any message in it.
    pub(super) fn standing(&self, stage: &Stage<'_, '_>) -> Result<Option<Standing>, Refusal> {
        let Place { tenant, network } = Place::of(stage);
        let sql = format!("{STANDING} AND strand = ?3");
        Ok(stage.rows().query_optional(&sql, &values![&tenant, &network, &self.name], standing)?)
    }

    /// The ids of its events, oldest first.
    pub(super) fn page(&self, stage: &Stage<'_, '_>, page: Page) -> Result<Vec<String>, Refusal> {
        let Place { tenant, network } = Place::of(stage);
        Ok(stage.rows().query(
            "SELECT event_id FROM messaging_entries WHERE tenant_id = ?1 AND network_id = ?2 AND strand = ?3
             AND n > ?4 AND n <= ?5 ORDER BY n",
            &values![&tenant, &network, &self.name, page.offset, page.offset.saturating_add(page.limit)],
            |row| row.get(0),
        )?)
    }
}

/// The threads that these events began.
pub(super) fn threads(stage: &Stage<'_, '_>, roots: &[&str]) -> Result<Vec<Standing>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let mut found = Vec::new();
    for some in roots.chunks(50) {
        let mut params = Vec::from(values![&tenant, &network]);
        params.extend(some.iter().map(|root| longhaul_store::Value::from(format!("t:{root}"))));
        let places: Vec<String> = (3..params.len() + 1).map(|n| format!("?{n}")).collect();
        let sql = format!("{STANDING} AND strand IN ({})", places.join(", "));
        found.extend(stage.rows().query(&sql, &params, standing)?);
    }
    Ok(found)
}

/// How many threads a channel has.
pub(super) fn threads_of(stage: &Stage<'_, '_>, channel: &str) -> Result<i64, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_one(
        "SELECT COUNT(*) FROM messaging_strands WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3",
        &values![&tenant, &network, channel],
        |row| row.get(0),
    )?)
}

/// The conversations of an agent, the most recent first.
pub(super) fn conversations(stage: &Stage<'_, '_>, agent: &AgentId, limit: usize) -> Result<Vec<Standing>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let mut found = Vec::new();
    for side in ["low", "high"] {
        let sql = format!("{STANDING} AND {side} = ?3 ORDER BY last_at DESC, strand LIMIT ?4");
        found.extend(stage.rows().query(&sql, &values![&tenant, &network, agent.as_str(), limit], standing)?);
    }
    found.sort_by(|a, b| b.last_at.cmp(&a.last_at).then_with(|| a.strand.cmp(&b.strand)));
    found.truncate(limit);
    Ok(found)
}
