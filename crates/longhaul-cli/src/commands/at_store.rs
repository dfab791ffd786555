//! Which store a command looks at, as whom, and how the facts of executions are written in a line.

use std::fs;

use clap::Args;
use longhaul::{Ambient, ExecutionStatus, Operator, StorePlace, TenantId, UserId};

use crate::{
    args::Global,
    progress::{Glyph, Ink, Style, count},
};

/// Where executions are recorded.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreFlags {
    /// The store: its folder, or postgres://USER:PASSWORD@HOST/DATABASE [default: the home's]
    #[arg(long, value_name = "DIR|URL", env = "LONGHAUL_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Whose executions
    #[arg(long, value_name = "ID", default_value = "tenant_default")]
    tenant: TenantId,
    /// Of which user
    #[arg(long, value_name = "ID", default_value = "user_default")]
    user: UserId,
}

impl StoreFlags {
    /// Opens the store.
    pub(super) async fn open(&self, global: &Global) -> anyhow::Result<Operator> {
        let settings = global.settings(None, &[])?;
        let place = StorePlace {
            store: self.store.clone().filter(|store| !store.is_empty()),
            bucket: settings.bucket()?,
            home: settings.home,
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            actor: person(),
        };
        Ok(Operator::open(place).await?)
    }

    /// The tenant whose rows are meant.
    pub(super) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Said when nothing is found: others may have something.
    pub(super) async fn others(&self, store: &Operator) -> anyhow::Result<Vec<String>> {
        let owners = store.owners().await?;
        let others = owners.into_iter().filter(|(tenant, user, _)| (tenant, user) != (&self.tenant, &self.user));
        let mut told = Vec::new();
        for (tenant, user, many) in others {
            told.push(format!("--tenant {tenant} --user {user} has {}", count(many, "execution")));
        }
        Ok(told)
    }
}

/// The account at the terminal: what is recorded as who answered.
pub(super) fn person() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid).then(|| name.to_owned())
    });
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("uid {uid}"))
}

/// Milliseconds since the epoch.
pub(super) fn now() -> i64 {
    Ambient::system().clock.now().0
}

/// `12 s`, `5 min`, `3 h`, `12 days`.
pub(super) fn age(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The mark and the ink of a status.
pub(super) fn look(status: ExecutionStatus) -> (Glyph, Ink) {
    match status {
        ExecutionStatus::Completed => (Glyph::Pass, Ink::Good),
        ExecutionStatus::Failed => (Glyph::Fail, Ink::Bad),
        ExecutionStatus::Waiting => (Glyph::Notice, Ink::Notice),
        ExecutionStatus::Running => (Glyph::Session, Ink::Strong),
        ExecutionStatus::Stopped | ExecutionStatus::Cancelled | ExecutionStatus::Abandoned => {
            (Glyph::Detail, Ink::Faint)
        }
    }
}

/// A fact below the line it belongs to.
pub(super) fn below(style: Style, ink: Option<Ink>, text: &str) -> String {
    let text = style.fit_after(2, text);
    format!("  {}", ink.map_or(text.clone(), |ink| style.paint(ink, &text)))
}

/// A fact with its name, in columns.
pub(super) fn named(style: Style, name: &str, value: &str) -> String {
    format!("  {name:<11} {}", style.fit_after(14, value))
}
