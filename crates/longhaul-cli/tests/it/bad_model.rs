//! Models that are not named, not reachable, not willing or not models: told at once, without minutes of silence.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{
    program::{Account, Ended, embedding_model},
    service::{Manner, Service},
};

const SECRET: &str = "sk-very-secret";

/// What planning with this service comes to.
fn init(account: &Account, base_url: &str) -> Ended {
    let mut command =
        account.command(&["init", "a page", "--dir", "app", "--model", "openai:m", "--base-url", base_url]);
    command.env("OPENAI_API_KEY", SECRET).env("LONGHAUL_EMBEDDING_PATH", embedding_model());
    let ended = Ended::of(command.output().unwrap(), account.root());
    assert!(!ended.err.contains(SECRET) && !ended.out.contains(SECRET), "{ended:?}");
    ended
}

#[test]
fn no_model_and_no_key_are_told_with_what_to_set() {
    let account = Account::new();
    let nameless = account.run(&["init", "a page", "--dir", "app"]);
    assert_eq!((nameless.code, nameless.out.as_str()), (Some(2), ""), "{nameless:?}");
    assert!(nameless.err.contains("no model is named; add `--model openai:NAME`"), "{}", nameless.err);
    let keyless = account.run(&["init", "a page", "--dir", "app", "--model", "openai:gpt-4o"]);
    assert_eq!((keyless.code, keyless.out.as_str()), (Some(2), ""), "{keyless:?}");
    assert!(keyless.err.contains("no key for https://api.openai.com/v1; set OPENAI_API_KEY"), "{}", keyless.err);
    assert!(!account.path("app").exists());
}

#[test]
fn a_wrong_key_is_told_before_anything_is_begun() {
    let (account, service) = (Account::new(), Service::start(Manner::WrongKey));
    let ended = init(&account, &service.base_url);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("refused the API key (HTTP 401): Incorrect API key provided"), "{}", ended.err);
    assert!(ended.err.ends_with("set a valid key in OPENAI_API_KEY\n"), "{}", ended.err);
    assert!(!account.path("app").exists());
}

#[test]
fn a_service_that_is_not_there_is_told_at_once() {
    let account = Account::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // nobody listens any more
    let start = Instant::now();
    let ended = init(&account, &format!("http://{closed}/v1"));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains(&format!("cannot reach the model service at http://{closed}/v1")), "{}", ended.err);
    assert!(ended.err.contains("check that it runs and that the base URL is right"), "{}", ended.err);
    assert!(!account.path("app").exists());
}

#[test]
fn a_web_page_is_no_service_and_the_right_address_goes_on() {
    let (account, service) = (Account::new(), Service::start(Manner::WebPage));
    let ended = init(&account, &service.base_url);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("is not an OpenAI-compatible service"), "{}", ended.err);
    assert!(ended.err.contains("`longhaul run --dir ~/app` goes on where it stopped"), "{}", ended.err);
    // The address that is named last is the project's, as long as nothing is planned.
    let right = Service::start(Manner::WrongKey);
    let mended = init(&account, &right.base_url);
    assert!(mended.err.contains("refused the API key"), "{}", mended.err);
    let status = account.run(&["status", "--dir", "app"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.out.contains("finish the plan: longhaul run --dir ~/app"), "{}", status.out);
}

#[test]
fn an_overloaded_service_is_waited_for_in_the_open() {
    let (account, service) = (Account::new(), Service::start(Manner::Overloaded));
    let mut command = account.command(&["init", "a page", "--dir", "app", "--model", "openai:m"]);
    command.args(["--base-url", &service.base_url]).env("LONGHAUL_EMBEDDING_PATH", embedding_model());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let retry = told.into_iter().find(|line| line.contains("asked again in"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(retry.unwrap().contains("the model's service does not answer (HTTP 529)"));
}
