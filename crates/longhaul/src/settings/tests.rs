//! Settings as a user meets them: files, variables and flags in, values or one sentence out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::*;

/// A user's home with a project beside it.
struct House {
    root: TempDir,
    sources: Sources,
}

fn house() -> House {
    let root = TempDir::new().unwrap();
    let at = root.path().canonicalize().unwrap();
    for folder in ["config", "app/src", "elsewhere"] {
        fs::create_dir_all(at.join(folder)).unwrap();
    }
    let sources = Sources {
        user_home: Some(at.clone()),
        config_dir: Some(at.join("config")),
        working_dir: at.join("elsewhere"),
        project: Some(at.join("app")),
        ..Sources::default()
    };
    House { root, sources }
}

impl House {
    fn path(&self, relative: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(relative)
    }

    fn file(self, relative: &str, text: &str) -> Self {
        fs::write(self.path(relative), text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn flag(mut self, key: &str, value: &str) -> Self {
        self.sources = self.sources.with_flag(key, value, "--set");
        self
    }

    fn standing_in(mut self, relative: &str) -> Self {
        self.sources.working_dir = self.path(relative);
        self
    }

    fn load(&self) -> Settings {
        Settings::load(&self.sources).unwrap()
    }

    /// The refusal, with the temporary folder written as `~`.
    fn refusal(&self) -> String {
        let text = Settings::load(&self.sources).unwrap_err().to_string();
        text.replace(&self.path("").display().to_string(), "~/")
    }
}

#[test]
fn every_default_is_valid_and_inside_its_bounds() {
    let settings = house().load();
    assert_eq!(settings.model.base_url, "https://api.openai.com/v1");
    assert_eq!(settings.network, NetworkSettings { host: "localhost".into(), port: 8700 });
    assert_eq!(settings.studio.port, 8050);
    assert_eq!(settings.sandbox.network, SandboxNetwork::Loopback);
    assert_eq!(settings.embedding.dimension, 384);
    assert!(settings.origins.is_empty() && settings.notices.is_empty());
    assert!(settings.home.ends_with(".local/share/longhaul"), "{:?}", settings.home);
}

#[test]
fn each_source_overrides_the_one_before_it() {
    let turns = |house: &House| house.load().harness.turns_max;
    let house = house();
    assert_eq!(turns(&house), 120);
    let house = house.file("config/longhaul.toml", "[harness]\nturns_max = 11\n");
    assert_eq!(turns(&house), 11);
    let house = house.file("app/longhaul.toml", "[harness]\nturns_max = 12\n");
    assert_eq!(turns(&house), 12);
    let house = house.file("config/.env", "LONGHAUL_HARNESS_TURNS_MAX=13\n");
    assert_eq!(turns(&house), 13);
    let house = house.file("elsewhere/.env", "LONGHAUL_HARNESS_TURNS_MAX=14\n");
    assert_eq!(turns(&house), 14);
    let house = house.variable("LONGHAUL_HARNESS_TURNS_MAX", "15");
    assert_eq!(turns(&house), 15);
    let house = house.flag("harness.turns_max", "16");
    assert_eq!(turns(&house), 16);
    assert_eq!(house.load().origins["harness.turns_max"].to_string(), "--set");
}

#[test]
fn a_service_that_embeds_is_told_with_its_model_and_length() {
    let with = |more: &str| {
        let text = format!("[embedding]\nurl = \"http://127.0.0.1:8080/v1/\"\n{more}");
        house().file("config/longhaul.toml", &text)
    };
    let settings = with("model = \"bge-m3\"\ndimension = 1024\n").variable("EMBEDDING_API_KEY", "sk-secret").load();
    assert_eq!(settings.embedding.url.as_deref(), Some("http://127.0.0.1:8080/v1"));
    assert_eq!((settings.embedding.model.as_str(), settings.embedding.dimension), ("bge-m3", 1024));
    assert!(settings.notices.is_empty() && !format!("{settings:?}").contains("sk-secret"));
    for (more, named) in [
        ("", "embedding.model"),
        ("model = \"bge-m3\"\n", "embedding.dimension"),
        ("model = \"bge-m3\"\ndimension = 1024\npath = \"m\"\n", "embedding.path"),
    ] {
        let refusal = with(more).refusal();
        assert!(refusal.contains(named) && refusal.contains("embedding.url"), "{refusal}");
    }
}

#[test]
fn the_names_of_the_documents_are_honoured() {
    let settings = house()
        .variable("OPENAI_API_KEY", "sk-secret")
        .variable("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")
        .variable("OPENAI_MODEL", "gpt-4o")
        .variable("MILVUS_URI", "./milvus.db")
        .variable("EMBEDDING_MODEL", "text-embedding-3-large")
        .variable("EMBEDDING_DIMENSION", "3072")
        .variable("NETWORK_HOST", "127.0.0.1")
        .variable("NETWORK_PORT", "9700")
        .variable("STUDIO_PORT", "9050")
        .load();
    assert_eq!(settings.model.spec, Some(ModelSpec::OpenAi("gpt-4o".into())));
    assert_eq!(settings.model.base_url, "http://127.0.0.1:8080/v1");
    assert_eq!(settings.model.api_key.as_ref().map(Secret::expose), Some("sk-secret"));
    assert_eq!(settings.memory.uri.as_deref(), Some("./milvus.db"));
    assert_eq!(settings.embedding.dimension, 3072);
    assert_eq!((settings.network.port, settings.studio.port), (9700, 9050));
    assert!(settings.notices[0].contains("text-embedding-3-large is not used"), "{:?}", settings.notices);
    assert!(!format!("{settings:?}").contains("sk-secret"));
}

#[test]
fn our_own_variable_wins_over_the_documents_name() {
    let house = house().variable("OPENAI_MODEL", "gpt-4o").variable("LONGHAUL_MODEL_SPEC", "cassette:demo");
    assert_eq!(house.load().model.spec, Some(ModelSpec::CassetteDemo));
}

#[test]
fn a_server_for_memories_is_an_address_without_secrets() {
    let settings = house().variable("MILVUS_URI", "http://milvus:19530").variable("MILVUS_TOKEN", "root:sesame").load();
    assert_eq!(settings.memory.uri.as_deref(), Some("http://milvus:19530"));
    assert!(settings.memory.token.is_some() && !format!("{settings:?}").contains("sesame"));
    let refusal = house().variable("MILVUS_URI", "http://user:sesame@milvus:19530").refusal();
    assert!(refusal.contains("MILVUS_TOKEN") && !refusal.contains("sesame"), "{refusal}");
    let refusal = house().variable("MILVUS_URI", "ftp://milvus").refusal();
    assert!(refusal.contains("expected http:// or https://"), "{refusal}");
}

#[test]
fn unknown_keys_name_file_line_and_the_nearest_key() {
    let check = |text: &str, expected: &str| {
        assert_eq!(house().file("config/longhaul.toml", text).refusal(), expected);
    };
    check(
        "[model]\nwindow_tokens = 9000\nbase_ulr = \"http://x\"\n",
        "~/config/longhaul.toml:3: unknown key `model.base_ulr`, did you mean `model.base_url`?; every key is listed in docs/configuration.md",
    );
    check(
        "[modell]\nspec = \"openai:x\"\n",
        "~/config/longhaul.toml:1: unknown key `modell`, did you mean `model.fallback`?; every key is listed in docs/configuration.md",
    );
    check(
        "base_url = \"http://x\"\n",
        "~/config/longhaul.toml:1: unknown key `base_url`, did you mean `model.base_url`?; every key is listed in docs/configuration.md",
    );
    let refusal = house().variable("LONGHAUL_MODEL_BASEURL", "http://x").refusal();
    assert!(refusal.contains("did you mean `LONGHAUL_MODEL_BASE_URL`?"), "{refusal}");
    let refusal = house().flag("zzz", "1").refusal();
    assert_eq!(refusal, "--set: unknown key `zzz`; every key is listed in docs/configuration.md");
}

#[test]
fn the_project_may_tune_the_work_and_nothing_else() {
    for key in KEYS {
        let value = match key.kind {
            Kind::Integer { min, .. } => min.to_string(),
            Kind::Bool => "true".to_owned(),
            Kind::Text | Kind::Secret | Kind::Path | Kind::Paths | Kind::ProjectPaths | Kind::Url | Kind::Choice(_) => {
                "\"loopback\"".to_owned()
            }
            Kind::AgentSpec => "\"own\"".to_owned(),
            Kind::McpServers => "{ docs = { command = \"docs-mcp\" } }".to_owned(),
            Kind::ModelSpec | Kind::ModelSpecs | Kind::MemoryUri | Kind::MemoryIndex => "\"openai:x\"".to_owned(),
            Kind::DaysByKind | Kind::FolderOrBucket => "\"note=90\"".to_owned(),
            Kind::ContextProfiles => "{ mine = { base = \"auto\" } }".to_owned(),
            Kind::Money => "0.5".to_owned(),
            Kind::Hosts | Kind::ToolPatterns => "[\"*\"]".to_owned(),
            Kind::Command => "[\"tell-me\", \"--now\"]".to_owned(),
            Kind::Prices => "{ gpt = { input = 1.25, output = 10 } }".to_owned(),
        };
        let house = house().file("app/longhaul.toml", &format!("{} = {value}\n", key.name));
        match key.who {
            keys::Who::Anyone => assert!(house.load().origins.contains_key(key.name)),
            keys::Who::UserOnly => {
                let refusal = house.refusal();
                assert!(
                    refusal.starts_with(&format!("~/app/longhaul.toml:1: `{}` cannot be set", key.name)),
                    "{refusal}"
                );
                assert!(refusal.contains("move it to ~/config/longhaul.toml"), "{refusal}");
            }
        }
    }
    let reachable: Vec<&str> = KEYS.iter().filter(|key| key.who == keys::Who::Anyone).map(|key| key.name).collect();
    assert!(
        reachable.iter().all(|name| !name.starts_with("sandbox.") && !name.starts_with("browser.")),
        "{reachable:?}"
    );
}

#[test]
fn a_dot_env_within_the_agents_reach_is_not_read_and_that_is_said() {
    let inside = house().file("app/.env", "OPENAI_BASE_URL=http://evil/v1\n").standing_in("app");
    let settings = inside.load();
    assert_eq!(settings.model.base_url, "https://api.openai.com/v1");
    assert!(settings.notices[0].contains("/app/.env was not read"), "{:?}", settings.notices);
    let deeper = house().file("app/src/.env", "OPENAI_BASE_URL=http://evil/v1\n").standing_in("app/src");
    assert_eq!(deeper.load().model.base_url, "https://api.openai.com/v1");
    let outside = house().file("elsewhere/.env", "OPENAI_BASE_URL=http://mine/v1\n");
    assert_eq!(outside.load().model.base_url, "http://mine/v1");
}

#[test]
fn a_link_does_not_lead_a_dot_env_around_the_rule() {
    let house = house().file("app/.env", "OPENAI_BASE_URL=http://evil/v1\n");
    std::os::unix::fs::symlink(house.path("app"), house.path("link")).unwrap();
    let settings = house.standing_in("link").load();
    assert_eq!(settings.model.base_url, "https://api.openai.com/v1");
    assert_eq!(settings.notices.len(), 1);
}

#[test]
fn values_of_the_wrong_shape_say_what_would_do() {
    let check = |key: &str, value: &str, expected: &str| {
        assert_eq!(house().flag(key, value).refusal(), format!("--set: `{key}` must be {expected}"));
    };
    check(
        "model.spec",
        "gpt-4o",
        "openai:NAME, anthropic:NAME, openai-responses:NAME, cassette:FILE or cassette:demo, not `gpt-4o`",
    );
    check(
        "model.spec",
        "openai:",
        "openai:NAME, anthropic:NAME, openai-responses:NAME, cassette:FILE or cassette:demo, not `openai:`",
    );
    check("harness.turns_max", "4", "a whole number from 5 to 1000, not `4`");
    check("harness.turns_max", "many", "a whole number from 5 to 1000, not `many`");
    check("browser.headed", "maybe", "true or false, not `maybe`");
    check("sandbox.network", "all", "one of loopback, host, not `all`");
    check("sandbox.readonly", "../up", "a list of relative paths inside the project, not `../up`");
    check(
        "memory.half_life_days",
        "thought=3",
        "a list such as `note=90, fact=never`, of progress, commit, episode, note, lesson, decision, fact, preference, not `thought=3`",
    );
    check("embedding.dimension", "512", "384 for all-MiniLM-L6-v2, not `512`");
    let refusal = house().flag("model.base_url", "https://name:pw@host/v1").refusal();
    assert!(refusal.contains("no user name"), "{refusal}");
}

#[test]
fn a_secret_of_the_wrong_shape_is_not_repeated() {
    let refusal = house().file("config/longhaul.toml", "[model]\napi_key = [\"sk-secret\"]\n").refusal();
    assert_eq!(refusal, "~/config/longhaul.toml:2: `model.api_key` must be text that is not empty");
    let refusal = house().file("config/.env", "A=b\nOPENAI_API_KEY='sk-secret\n").refusal();
    assert!(refusal.starts_with("~/config/.env:2: ") && !refusal.contains("sk-secret"), "{refusal}");
}

#[test]
fn a_file_that_is_not_toml_names_the_line() {
    let refusal = house().file("config/longhaul.toml", "[model]\nspec = \n").refusal();
    assert!(refusal.starts_with("~/config/longhaul.toml:2: "), "{refusal}");
}

#[test]
fn paths_start_where_they_are_written() {
    let house = house()
        .file(
            "config/longhaul.toml",
            "home = \"~/data\"\n[embedding]\npath = \"minilm\"\n[sandbox]\ntoolchains = [\"~/.cargo\"]\n",
        )
        .flag("model.spec", "cassette:story.toml");
    let settings = house.load();
    assert_eq!(settings.home, house.path("data"));
    assert_eq!(settings.sandbox.toolchains, [house.path(".cargo")]);
    assert_eq!(settings.embedding.path, Some(house.path("config/minilm")));
    assert_eq!(settings.model.spec, Some(ModelSpec::Cassette(house.path("elsewhere/story.toml"))));
}

#[test]
fn a_request_without_any_home_is_told_what_to_set() {
    let sources = Sources { working_dir: PathBuf::from("/"), ..Sources::default() };
    assert!(Settings::load(&sources).unwrap_err().to_string().contains("set HOME"));
}

#[test]
fn the_manual_page_lists_the_table_as_it_is() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("<!-- keys: generated -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of keys -->").unwrap();
    let right = format!("{before}<!-- keys: generated -->\n{}\n<!-- end of keys -->{after}", manual());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &right).unwrap();
    }
    assert!(
        text == right,
        "docs/configuration.md is out of date; run UPDATE_DOCS=1 cargo test -p longhaul the_manual_page"
    );
}

#[test]
fn profiles_of_ones_own_are_read_and_checked() {
    let written = "[context]\nprofile = \"tender\"\n[context.profiles.tender]\nbase = \"dossier\"\nrecency_floor = 0.25\n\
                   [context.profiles.dossier]\nbase = \"research\"\nkinds = { decision = 1.5, note = 0 }\n\
                   follow = [\"supports\", \"cites\"]\ntokenizer = \"models/tokenizer.json\"\n";
    let house = house().file("config/longhaul.toml", written);
    let context = house.load().context;
    assert_eq!((context.profile.as_str(), context.budget_tokens), ("tender", 12_000));
    let made = context.profiles.get("tender").unwrap();
    assert!((made.recency_floor - 0.25).abs() < 1e-6 && made.kind_weight("note") == 0.0);
    assert_eq!(made.follow, ["supports", "cites"]);
    let expected = longhaul_workspace::context::Tokenizer::File(house.path("config/models/tokenizer.json"));
    assert_eq!(made.tokenizer, expected);
}

#[test]
fn a_profile_that_says_what_none_can_say_is_refused_where_it_is_written() {
    for (written, expected) in [
        ("[context.profiles.mine]\nweight = 1\n", "weight of the context profile `mine` must be one of base"),
        ("[context.profiles.mine]\nrecency_floor = 2\n", "must be a number from 0 to 1"),
        ("[context.profiles.mine]\nbase = \"theirs\"\n", "there is no context profile \"theirs\"; there are: auto"),
        ("[context.profiles.a]\nbase = \"b\"\n[context.profiles.b]\nbase = \"a\"\n", "there is no context profile"),
        ("[context]\nprofiles = 3\n", "must be tables `[context.profiles.NAME]`"),
    ] {
        let error = house().file("config/longhaul.toml", written).refusal();
        assert!(error.contains(expected) && error.contains("longhaul.toml:"), "{error}");
    }
    let error = house().file("app/longhaul.toml", "[context.profiles.mine]\nrecent = 1\n").refusal();
    assert!(error.contains("cannot be set in a project's longhaul.toml"), "{error}");
}

#[test]
fn prices_and_amounts_are_read_exactly() {
    let text = "[budget]\nmoney_max = 12.5\ntokens_max = 1_000\n\
        [prices.\"gpt-5.1\"]\ninput = 1.25\noutput = 10\ncache_read = 0.125\n";
    let budget = house().file("config/longhaul.toml", text).load().budget;
    assert_eq!(budget.money_max.unwrap().to_string(), "12.50");
    assert_eq!(budget.tokens_max, Some(1_000));
    let price = budget.prices.find("gpt-5.1-2026-05-01").unwrap();
    assert_eq!((price.input.0, price.output.0), (1_250_000, 10_000_000));
    assert_eq!((price.cache_read.unwrap().0, price.cache_write), (125_000, None));
    assert_eq!(house().flag("budget.money_max", "3").load().budget.money_max.unwrap().to_string(), "3.00");
    for wrong in ["input = 1", "input = 1\noutput = -2", "input = 1\noutput = 2\nper_token = 3"] {
        let refusal = house().file("config/longhaul.toml", &format!("[prices.m]\n{wrong}\n")).refusal();
        assert!(refusal.contains("`prices`") && refusal.contains("cache_read"), "{refusal}");
    }
    assert!(house().flag("budget.money_max", "much").refusal().contains("an amount such as 25 or 0.75"));
}
