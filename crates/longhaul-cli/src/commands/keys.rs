//! `longhaul keys`: who may use the gateway. Whoever may open the store may make keys for any tenant.

use clap::{Args, Subcommand};
use longhaul::{
    TenantId, TimeMs, UserId, keys_of, moment,
    server::keys::{Key, KeyRing, NewKey, Role},
};
use serde_json::{Value, json};

use super::{at_store::person, work};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::print_line,
};

/// Keys listed at a time.
const PAGE: u32 = 1_000;

/// Make, list and revoke the keys of the gateway
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Make a key and print it, once
///
/// The store keeps its digest only. A viewer looks; an operator makes tasks, answers, cancels, retries and writes; an
/// owner manages the tenant's keys as well and reads its audit log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul keys create --user user_ada --role operator --label \"Ada's laptop\" --expires 90d
  longhaul keys create --tenant tenant_acme --user user_bot --role viewer --json | jq -r .secret")]
struct Create {
    /// Whose data it reaches
    #[arg(long, value_name = "ID", default_value = "tenant_default")]
    tenant: TenantId,
    /// Of which user
    #[arg(long, value_name = "ID", default_value = "user_default")]
    user: UserId,
    /// What it may do: viewer, operator or owner
    #[arg(long, value_name = "ROLE", default_value = "operator")]
    role: Role,
    /// What people call it
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = label)]
    label: String,
    /// After how long it ends, as in 12h, 90d; never if nothing is said
    #[arg(long, value_name = "TIME", value_parser = life)]
    expires: Option<i64>,
    #[command(flatten)]
    store: Store,
}

/// List a tenant's keys by their prefix, also those that no longer hold
#[derive(Debug, Args)]
struct List {
    /// Whose keys
    #[arg(long, value_name = "ID", default_value = "tenant_default")]
    tenant: TenantId,
    #[command(flatten)]
    store: Store,
}

/// Revoke a key: a running server refuses it within a second
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul keys revoke 3fa2b41c90de               by the twelve digits behind lh_")]
struct Revoke {
    /// Its prefix or its id
    #[arg(value_name = "PREFIX|ID", value_parser = name)]
    key: String,
    /// Whose key
    #[arg(long, value_name = "ID", default_value = "tenant_default")]
    tenant: TenantId,
    #[command(flatten)]
    store: Store,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
struct Store {
    /// The store: its folder, or postgres://USER:PASSWORD@HOST/DATABASE [default: the home's]
    #[arg(long, value_name = "DIR|URL", env = "LONGHAUL_STORE", hide_env_values = true)]
    store: Option<String>,
}

impl Store {
    async fn keys(&self, global: &Global) -> anyhow::Result<KeyRing> {
        let settings = global.settings(None, &[])?;
        Ok(keys_of(&settings, self.store.clone().filter(|store| !store.is_empty())).await?)
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &KeysArgs) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        match &command.command {
            KeysCommand::Create(command) => create(global, command).await,
            KeysCommand::List(command) => list(global, command).await,
            KeysCommand::Revoke(command) => revoke(global, command).await,
        }
    })
}

async fn create(global: &Global, command: &Create) -> anyhow::Result<Exit> {
    let keys = command.store.keys(global).await?;
    let Create { tenant, user, role, label, expires, .. } = command;
    let made = keys.create(NewKey {
        scope: longhaul::Scope { tenant: tenant.clone(), user: user.clone() },
        role: *role,
        label: label.clone(),
        expires_at: expires.map(|life| TimeMs(super::at_store::now() + life)),
        created_by: format!("cli/{}", person()),
    });
    let made = made.await?;
    if global.json {
        let mut shown = object(&made.key);
        shown["secret"] = made.secret.expose().into();
        print_line(&shown.to_string())?;
    } else {
        print_line(&format!(
            "{}\n\nthe key of a {role}, for {user} of {tenant}; it is shown this once",
            made.secret.expose()
        ))?;
    }
    Ok(Exit::Done)
}

async fn list(global: &Global, command: &List) -> anyhow::Result<Exit> {
    let keys = command.store.keys(global).await?;
    let now = TimeMs(super::at_store::now());
    let mut after = None;
    loop {
        let page = keys.list(&command.tenant, after.as_ref(), PAGE).await?;
        for key in &page {
            print_line(&if global.json { object(key).to_string() } else { line(key, now) })?;
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE as usize) else { break };
        after = Some(last.id.clone());
    }
    Ok(Exit::Done)
}

async fn revoke(global: &Global, command: &Revoke) -> anyhow::Result<Exit> {
    let keys = command.store.keys(global).await?;
    let Some(key) = keys.revoke(&command.tenant, &command.key).await? else {
        let message =
            format!("{} has no key {:?}; `longhaul keys list` shows those there are", command.tenant, command.key);
        return Err(Refusal::because(Exit::Usage, message));
    };
    print_line(&if global.json {
        object(&key).to_string()
    } else {
        format!("lh_{} opens nothing any more", key.prefix)
    })?;
    Ok(Exit::Done)
}

fn line(key: &Key, now: TimeMs) -> String {
    let standing = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {} UTC", moment(at.0)),
        (None, Some(at)) if at <= now => format!("ended {} UTC", moment(at.0)),
        (None, Some(at)) => format!("until {} UTC", moment(at.0)),
        (None, None) => "no end".to_owned(),
    };
    let (role, user, made, label) = (key.role.as_str(), &key.scope.user, moment(key.created_at.0), &key.label);
    format!("lh_{}  {role:<8}  {user}  {standing}  made {made} UTC  {label}", key.prefix)
}

fn object(key: &Key) -> Value {
    json!({
        "id": key.id, "prefix": key.prefix, "tenant": key.scope.tenant, "user": key.scope.user, "role": key.role,
        "label": key.label, "created_by": key.created_by, "created_at": key.created_at, "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    })
}

/// `90s`, `30m`, `12h`, `90d`, in milliseconds.
fn life(text: &str) -> Result<i64, String> {
    let unit = |last: char| match last {
        's' => Some(1_000),
        'm' => Some(60_000),
        'h' => Some(3_600_000),
        'd' => Some(86_400_000),
        _ => None,
    };
    let read = || {
        let last = text.chars().last()?;
        let number: i64 = text.strip_suffix(last)?.parse().ok().filter(|number| (1..=36_500).contains(number))?;
        number.checked_mul(unit(last)?)
    };
    read().ok_or_else(|| "write a number from 1 to 36500 and s, m, h or d, as in 90d".to_owned())
}

fn label(text: &str) -> Result<String, String> {
    if text.chars().count() <= 200 && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("write at most 200 characters on one line".to_owned())
    }
}

/// A key's prefix with or without `lh_`, or its id. A whole key is no name: it would stay in the shell's history.
fn name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("lh_").unwrap_or(text);
    if name.len() <= 80
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || (b == b'_' && name.starts_with("key_")))
    {
        Ok(name.to_owned())
    } else {
        Err("name it by the twelve digits behind lh_, or by its id; not by the whole key".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_numbers_with_a_unit() {
        assert_eq!((life("90s"), life("12h"), life("90d")), (Ok(90_000), Ok(43_200_000), Ok(7_776_000_000)));
        for wrong in ["", "d", "90", "-1d", "0d", "1w", "99999d", "1 d"] {
            assert!(life(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_is_named_by_its_prefix_and_never_by_its_text() {
        assert_eq!(name("lh_3fa2b41c90de").as_deref(), Ok("3fa2b41c90de"));
        assert_eq!(name("key_a-1").as_deref(), Ok("key_a-1"));
        assert!(name("lh_3fa2b41c90de_0011").is_err());
    }
}
