//! One file per command. Each reads its settings, does its work and says how it ended.

mod agent;
mod answer;
mod at_store;
mod cassette;
mod context;
mod conversations;
mod demo;
mod demo_network;
mod doctor;
mod erase;
mod eval;
mod executions;
mod explain;
mod features;
mod init;
mod keep;
mod kept;
mod keys;
mod knowledge;
mod log;
mod mcp;
mod memory;
mod network;
mod people;
mod report;
mod review;
mod run;
pub(crate) mod sandbox_init;
mod serve;
mod sessions;
mod settle;
mod setup;
mod skills;
mod standing;
mod status;
mod tail;
mod verify;
mod waits;
mod work;

use clap::Subcommand;

use crate::{args::Cli, exit::Exit};

/// What can be asked for, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Init),
    Run(run::Run),
    Status(status::StatusArgs),
    Features(features::Features),
    Log(log::Log),
    Verify(verify::Verify),
    Steer(people::Steer),
    Pause(people::Pause),
    TakeOver(people::TakeOver),
    Resume(people::Resume),
    Report(report::Report),
    Executions(executions::Executions),
    Waits(waits::Waits),
    Approve(answer::Approve),
    Reject(answer::Reject),
    Cancel(settle::Cancel),
    Retry(settle::Retry),
    Where(standing::Where),
    Whose(standing::Whose),
    Explain(explain::Explain),
    Eval(eval::EvalArgs),
    Records(kept::Records),
    Links(kept::Links),
    Show(kept::Show),
    Tail(tail::Tail),
    Memory(memory::MemoryArgs),
    Knowledge(knowledge::KnowledgeArgs),
    Context(Box<context::Context>),
    Sessions(sessions::SessionsArgs),
    Conversations(conversations::ConversationsArgs),
    Review(review::ReviewArgs),
    Skills(skills::SkillsArgs),
    Mcp(Box<mcp::Mcp>),
    Serve(Box<serve::Serve>),
    Network(Box<network::NetworkArgs>),
    Agent(Box<agent::AgentArgs>),
    Keys(keys::KeysArgs),
    Backup(keep::BackupArgs),
    Store(keep::StoreArgs),
    Erase(erase::Erase),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Setup(setup::Setup),
    Cassette(cassette::CassetteArgs),
}

/// Runs the command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { global, command } = cli;
    match command {
        Command::Init(command) => init::run(&global, &command),
        Command::Run(command) => run::run(&global, &command),
        Command::Status(command) => status::status(&global, &command),
        Command::Features(command) => features::run(&global, &command),
        Command::Log(command) => log::run(&global, &command),
        Command::Verify(command) => verify::run(&global, &command),
        Command::Steer(command) => people::steer(&global, &command),
        Command::Pause(command) => people::pause(&global, &command),
        Command::TakeOver(command) => people::take_over(&global, &command),
        Command::Resume(command) => people::resume(&global, &command),
        Command::Report(command) => report::run(&global, &command),
        Command::Executions(command) => executions::run(&global, &command),
        Command::Waits(command) => waits::run(&global, &command),
        Command::Approve(command) => answer::approve(&global, &command),
        Command::Reject(command) => answer::reject(&global, &command),
        Command::Cancel(command) => settle::cancel(&global, &command),
        Command::Retry(command) => settle::retry(&global, &command),
        Command::Eval(command) => eval::run(&global, &command),
        Command::Where(command) => standing::whereabouts(&global, &command),
        Command::Whose(command) => standing::whose(&global, &command),
        Command::Explain(command) => explain::run(&global, &command),
        Command::Records(command) => kept::records(&global, &command),
        Command::Links(command) => kept::links(&global, &command),
        Command::Show(command) => kept::show(&global, &command),
        Command::Tail(command) => tail::run(&global, &command),
        Command::Memory(command) => memory::run(&global, &command),
        Command::Knowledge(command) => knowledge::run(&global, &command),
        Command::Context(command) => context::run(&global, &command),
        Command::Sessions(command) => sessions::run(&global, &command),
        Command::Conversations(command) => conversations::run(&global, &command),
        Command::Review(command) => review::run(&global, &command),
        Command::Skills(command) => skills::run(&global, &command),
        Command::Mcp(command) => mcp::run(&global, &command),
        Command::Serve(command) => serve::run(&global, &command),
        Command::Network(command) => network::run(&global, &command),
        Command::Agent(command) => agent::run(&global, &command),
        Command::Keys(command) => keys::run(&global, &command),
        Command::Backup(command) => keep::backup(&global, &command),
        Command::Store(command) => keep::store(&global, &command),
        Command::Erase(command) => erase::run(&global, &command),
        Command::Demo(command) => demo::run(&global, &command),
        Command::Doctor(command) => doctor::run(&global, &command),
        Command::Setup(command) => setup::run(&global, &command),
        Command::Cassette(command) => cassette::run(&global, command),
    }
}
