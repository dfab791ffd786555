//! `longhaul network chat`: a person takes part from the terminal.

use std::{io::BufRead, path::PathBuf, time::Duration};

use clap::Args;
use longhaul::chat::{Chat, ChatRequest, Shown, Typed};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    args::Global,
    commands::work,
    exit::Exit,
    progress::{Ink, Style, print_line},
};

/// Take part in a network from the terminal: say something, hear what is said
///
/// What you type is said in the channel at hand; `/help` lists what else there is. Piped in, each line is a line typed,
/// and the end of the input leaves once nothing has been said for `--linger` seconds.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network chat --as ada
  longhaul network chat --url http://127.0.0.1:8700 --channel milvus_channel
  echo 'Which index should I take?' | longhaul network chat --as ada --linger 20")]
pub(crate) struct ChatArgs {
    /// The network's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8700")]
    url: String,
    /// Your name there
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "person")]
    name: String,
    /// The channel at hand
    #[arg(long, value_name = "CHANNEL", default_value = "general")]
    channel: String,
    /// The group to ask for
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// That group's credential: the hexadecimal SHA-256 of its password
    #[arg(long, value_name = "DIGEST", env = "LONGHAUL_CREDENTIAL", hide_env_values = true, default_value = "")]
    credential: String,
    /// A file for your secret, to come back under the same name
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Seconds of silence after the end of the input before leaving
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    linger: u64,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &ChatArgs) -> anyhow::Result<Exit> {
    let runtime = work::runtime()?;
    let done = runtime.block_on(chat(global, command));
    // Standard input may still be waited for.
    runtime.shutdown_background();
    done
}

async fn chat(global: &Global, command: &ChatArgs) -> anyhow::Result<Exit> {
    let request = ChatRequest {
        url: command.url.clone(),
        name: command.name.clone(),
        group: command.group.clone(),
        credential: command.credential.clone(),
        state: command.state.clone(),
    };
    let mut chat = Chat::join(request).await?;
    let style = global.style();
    if !global.json {
        let name = style.paint(Ink::Strong, chat.name());
        print_line(&format!("{name} is in {}, in #{}; /help lists what there is", chat.network(), command.channel))?;
    }
    act(global, &mut chat, Typed::Channel(command.channel.trim_start_matches('#').to_owned())).await?;
    let exit = talk(global, command, &mut chat, style).await?;
    if command.state.is_none() {
        chat.leave().await?;
    }
    Ok(exit)
}

async fn talk(global: &Global, command: &ChatArgs, chat: &mut Chat, style: Style) -> anyhow::Result<Exit> {
    let mut lines = typed();
    let ears = chat.ears();
    let (heard_in, mut heard) = mpsc::channel(64);
    let listening = tokio::spawn(async move {
        loop {
            let next = ears.hear(Duration::from_secs(20)).await;
            let ends = next.is_err();
            if heard_in.send(next).await.is_err() || ends {
                return;
            }
        }
    });
    let mut signals = work::Signals::listen()?;
    let mut is_over = false;
    let linger = Duration::from_secs(command.linger);
    let exit = loop {
        tokio::select! {
            biased;
            () = signals.next() => break Exit::Done,
            line = lines.recv(), if !is_over => match line.map(|line| Typed::read(&line)) {
                None => is_over = true,
                Some(Typed::Quit) => break Exit::Done,
                Some(typed) => act(global, chat, typed).await?,
            },
            next = heard.recv() => match next {
                Some(messages) => {
                    for message in messages? {
                        if let Some(shown) = chat.show(message) {
                            show(global, style, &shown)?;
                        }
                    }
                }
                None => break Exit::Failed,
            },
            () = tokio::time::sleep(linger), if is_over => break Exit::Done,
        }
    };
    listening.abort();
    Ok(exit)
}

/// Lines of standard input, read beside everything else.
fn typed() -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receive
}

async fn act(global: &Global, chat: &mut Chat, typed: Typed) -> anyhow::Result<()> {
    // What could not be sent is said, and the talk goes on.
    let lines = chat.act(typed).await.unwrap_or_else(|refusal| vec![format!("not sent: {refusal}")]);
    for line in lines {
        if global.json {
            print_line(&json!({"note": line}).to_string())?;
        } else {
            print_line(&global.style().paint(Ink::Faint, &line))?;
        }
    }
    Ok(())
}

fn show(global: &Global, style: Style, shown: &Shown) -> anyhow::Result<()> {
    let Shown { number, place, from, text, answers } = shown;
    if global.json {
        let told = json!({"number": number, "place": place, "from": from, "text": text, "answers": answers});
        return Ok(print_line(&told.to_string())?);
    }
    let under = answers.map_or_else(String::new, |number| format!(" to {number}"));
    let head = style.paint(Ink::Faint, &format!("{number:>3} {place}{under}"));
    Ok(print_line(&format!("{head} {}: {text}", style.paint(Ink::Strong, from)))?)
}
