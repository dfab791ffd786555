//! Who may be in a network.

use clap::Args;
use longhaul::network::Operating;
use serde_json::json;

use super::{Folder, FolderFlag};
use crate::{args::Global, exit::Exit, progress::print_line};

/// Send an agent away: its queue, its memberships and its secret end
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network kick mallory --dir research --reason \"posts the same thing all day\"")]
pub(super) struct Kick {
    /// Whom
    agent: String,
    /// Said to everybody
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    folder: FolderFlag,
}

/// Print a credential that lets one newcomer in, once, within a day
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network invite research --group writers     to be shown as password_hash when registering")]
pub(super) struct Invite {
    #[command(flatten)]
    folder: Folder,
    /// Into which group [default: the network's default group]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
}

pub(super) async fn kick(global: &Global, command: &Kick) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let done = network.kick(&command.agent, &command.reason).await;
    network.leave().await;
    done?;
    let said = json!({"kicked": command.agent}).to_string();
    print_line(&if global.json { said } else { format!("{} has been sent away", command.agent) })?;
    Ok(Exit::Done)
}

pub(super) async fn invite(global: &Global, command: &Invite) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let credential = network.invite(command.group.as_deref()).await;
    network.leave().await;
    let credential = credential?;
    print_line(&if global.json { json!({"credential": credential}).to_string() } else { credential })?;
    Ok(Exit::Done)
}
