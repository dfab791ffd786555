//! The one table of every key: its name, its kind, who may set it, its default and what it is for. Files, the environment,
//! `--set` and `docs/configuration.md` all follow from it, so that none of them can know a key the others do not.

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Any text that is not empty.
    Text,
    /// Text that is never shown.
    Secret,
    /// A file or folder; `~/` is the user's home, relative paths start where they are written.
    Path,
    /// Paths inside the project, relative to it.
    ProjectPaths,
    /// Files or folders; each as in [`Kind::Path`].
    Paths,
    /// `http://…` or `https://…`.
    Url,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Integer {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `openai:NAME`, `anthropic:NAME`, `openai-responses:NAME`, `cassette:FILE` or `cassette:demo`.
    ModelSpec,
    /// A list of them.
    ModelSpecs,
    /// A path (embedded memory) or `http://host:19530` (Milvus).
    MemoryUri,
    /// An index of a Milvus server with its parameters.
    MemoryIndex,
    /// A folder, or `s3://bucket/prefix`.
    FolderOrBucket,
    /// Days, or `never`, for kinds of memories: `note=90, fact=never`.
    DaysByKind,
    /// Hosts of an allowlist.
    Hosts,
    /// Patterns of tool calls.
    ToolPatterns,
    /// Servers of tools by name, each a table.
    McpServers,
    /// Profiles of context packs by name, each a table.
    ContextProfiles,
    /// `own`, or `acp:COMMAND`.
    AgentSpec,
    /// An amount of money.
    Money,
    /// What models cost, by name, each a table.
    Prices,
    /// A program with its arguments, or a line for `sh`.
    Command,
}

/// Who may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Everybody, the project's own file included: it only tunes the work, within bounds.
    Anyone,
    /// Not the project's file, which the agent can write.
    UserOnly,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// `section.key`, or a single word at the top of the file.
    pub(crate) name: &'static str,
    /// The value's shape.
    pub(crate) kind: Kind,
    /// Who may set it.
    pub(crate) who: Who,
    /// Another environment variable that sets it, beside `LONGHAUL_…`.
    pub(crate) alias: Option<&'static str>,
    /// The default as it would be written, when it is a constant.
    pub(crate) default: Option<&'static str>,
    /// One sentence for the manual.
    pub(crate) about: &'static str,
}

impl Key {
    /// The environment variable that sets it: `LONGHAUL_MODEL_BASE_URL`.
    pub(crate) fn variable(&self) -> String {
        format!("LONGHAUL_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const fn key(
    name: &'static str,
    kind: Kind,
    who: Who,
    alias: Option<&'static str>,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key { name, kind, who, alias, default, about }
}

use Who::{Anyone, UserOnly};

const fn int(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

/// Every key there is, in the order of the manual.
pub(crate) const KEYS: &[Key] = &[
    key(
        "home",
        Kind::Path,
        UserOnly,
        None,
        None,
        "Where the store, the checks and the evidence live. Default: `$XDG_DATA_HOME/longhaul`, else `~/.local/share/longhaul`.",
    ),
    key(
        "cache",
        Kind::Path,
        UserOnly,
        None,
        None,
        "Where downloaded models are kept. Default: `$XDG_CACHE_HOME/longhaul`, else `~/.cache/longhaul`.",
    ),
    key(
        "prices",
        Kind::Prices,
        UserOnly,
        None,
        None,
        "What models cost, for a million tokens each: a table `[prices.\"MODEL\"]` with `input`, `output`, and where the service has a cache `cache_read` and `cache_write`. Any currency, the same everywhere. A dated version costs what the name it begins with costs.",
    ),
    key(
        "store.url",
        Kind::Secret,
        UserOnly,
        None,
        None,
        "The PostgreSQL database that holds the rows, `postgres://USER:PASSWORD@HOST/DATABASE`, so that several machines share them. Default: the file in the home.",
    ),
    key(
        "store.lease_seconds",
        int(5, 3_600),
        UserOnly,
        None,
        Some("30"),
        "How long another machine that works on a project is respected after its last sign of life.",
    ),
    key(
        "store.blobs",
        Kind::Text,
        UserOnly,
        None,
        None,
        "Where large contents go: `s3://bucket/prefix` of an S3-compatible service, with its endpoint and keys in the usual `AWS_…` variables. What was kept before stays where it is and is found there. Default: `blobs` beside the store; for a store in PostgreSQL its rows.",
    ),
    key(
        "model.spec",
        Kind::ModelSpec,
        UserOnly,
        Some("OPENAI_MODEL"),
        None,
        "The model that works: `openai:NAME` for any OpenAI-compatible service, `openai-responses:NAME`, `anthropic:NAME`, `cassette:FILE` or `cassette:demo` for recorded replies. `OPENAI_MODEL=NAME` means `openai:NAME`. docs/models.md tells more.",
    ),
    key(
        "model.base_url",
        Kind::Url,
        UserOnly,
        Some("OPENAI_BASE_URL"),
        Some("https://api.openai.com/v1"),
        "Where OpenAI's service or a compatible one is. The path up to, not including, `/chat/completions` or `/responses`.",
    ),
    key(
        "model.api_key",
        Kind::Secret,
        UserOnly,
        Some("OPENAI_API_KEY"),
        None,
        "The service's key. Never printed, stored or given to the sandbox. A local service may need none.",
    ),
    key(
        "model.window_tokens",
        int(4_000, 10_000_000),
        Anyone,
        None,
        Some("128000"),
        "The model's context window; a session hands over before it is full.",
    ),
    key("model.answer_tokens_max", int(256, 1_000_000), Anyone, None, Some("16000"), "The most one answer may take."),
    key(
        "model.idle_seconds_max",
        int(5, 3_600),
        UserOnly,
        None,
        Some("120"),
        "How long the service may be silent before the call counts as failed and is tried again.",
    ),
    key(
        "model.fallback",
        Kind::ModelSpecs,
        UserOnly,
        None,
        None,
        "Models that answer where the first does not (overloaded, no credit, gone), in order. Each answer says which model gave it.",
    ),
    key(
        "model.anthropic_url",
        Kind::Url,
        UserOnly,
        Some("ANTHROPIC_BASE_URL"),
        Some("https://api.anthropic.com"),
        "Where Anthropic's service or a compatible one is. `/v1` is added where there is no path.",
    ),
    key(
        "model.anthropic_key",
        Kind::Secret,
        UserOnly,
        Some("ANTHROPIC_API_KEY"),
        None,
        "That service's key. Never printed, stored or given to the sandbox.",
    ),
    key(
        "model.thinking",
        Kind::Choice(&["off", "adaptive", "budget"]),
        UserOnly,
        None,
        Some("off"),
        "Whether a model of Anthropic's thinks before it answers: as much as it finds right, or up to `thinking_tokens`.",
    ),
    key(
        "model.thinking_tokens",
        int(1_024, 1_000_000),
        UserOnly,
        None,
        Some("4096"),
        "The most that it thinks with `thinking = \"budget\"`, on top of the answer's tokens.",
    ),
    key(
        "model.effort",
        Kind::Choice(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        UserOnly,
        None,
        None,
        "How much the model is to do for an answer, in a word that its service takes. Default: the service's.",
    ),
    key(
        "embedding.model",
        Kind::Text,
        UserOnly,
        Some("EMBEDDING_MODEL"),
        Some("all-MiniLM-L6-v2"),
        "The embedding model: the default's name, or what the service at `embedding.url` calls it. A model in a folder is named by `embedding.path`.",
    ),
    key(
        "embedding.dimension",
        int(1, 65_536),
        UserOnly,
        Some("EMBEDDING_DIMENSION"),
        Some("384"),
        "The length of the vectors of the service at `embedding.url`, which must be stated with it. A model in a folder says so itself.",
    ),
    key(
        "embedding.path",
        Kind::Path,
        UserOnly,
        None,
        None,
        "A folder that holds the embedding model: any BERT, RoBERTa or XLM-RoBERTa model of sentence-transformers (`model.safetensors`, `tokenizer.json`, `config.json`, and what lies beside them). Default: the copy `longhaul setup` put into the cache.",
    ),
    key(
        "embedding.url",
        Kind::Url,
        UserOnly,
        None,
        None,
        "An OpenAI-compatible service that embeds, instead of a model on this machine: the path up to, not including, `/embeddings`. Texts of memories and queries are sent there.",
    ),
    key(
        "embedding.api_key",
        Kind::Secret,
        UserOnly,
        Some("EMBEDDING_API_KEY"),
        None,
        "That service's key. Never printed, stored or given to the sandbox.",
    ),
    key(
        "embedding.query_prompt",
        Kind::Text,
        UserOnly,
        None,
        None,
        "What is put before a query, for models that want it (`query: `). Default: what the model's folder says.",
    ),
    key(
        "embedding.document_prompt",
        Kind::Text,
        UserOnly,
        None,
        None,
        "What is put before a text that is kept (`passage: `). Default: what the model's folder says.",
    ),
    key(
        "memory.uri",
        Kind::MemoryUri,
        UserOnly,
        Some("MILVUS_URI"),
        None,
        "Where memories are indexed: a path, or nothing, for the embedded engine (its rows are in the home folder's store, so the path itself is not used); `http://host:19530` or `https://host:19530` for a Milvus server, which then has a copy of all vectors. Rows stay in the store.",
    ),
    key(
        "memory.token",
        Kind::Secret,
        UserOnly,
        Some("MILVUS_TOKEN"),
        None,
        "How the Milvus server knows us: `user:password` or an API key. Never printed or stored. Over plain http only to this machine.",
    ),
    key(
        "memory.ca_file",
        Kind::Path,
        UserOnly,
        None,
        None,
        "A certificate authority (PEM) that signed the Milvus server's certificate, beside those that this machine trusts.",
    ),
    key(
        "memory.index",
        Kind::MemoryIndex,
        UserOnly,
        None,
        Some("hnsw"),
        "Which index the Milvus server builds: `hnsw(m=16, ef_construction=128, ef=128)` or `ivf_flat(nlist=1024, nprobe=32)`. Another one is built when the setting changes; rows are kept. The embedded engine chooses by itself.",
    ),
    key(
        "memory.half_life_days",
        Kind::DaysByKind,
        UserOnly,
        None,
        Some(""),
        "How fast memories of a kind fade: days after which half of what can fade of their weight is gone, as in `note=90, fact=never`. Default: 30 for progress and episode, 90 for commit, 180 for note and lesson, 365 for decision, never for fact and preference.",
    ),
    key(
        "memory.cold",
        Kind::FolderOrBucket,
        UserOnly,
        None,
        None,
        "Where memories go that nobody uses: a folder, or `s3://bucket/prefix` with its endpoint and keys in the usual `AWS_…` variables. Default: `cold` beside the store; for a store in PostgreSQL none.",
    ),
    key(
        "memory.cold_unused_days",
        int(0, 36_500),
        UserOnly,
        None,
        None,
        "A memory that nobody used for so many days becomes cold. Without this and the next key none does by itself.",
    ),
    key(
        "memory.cold_unseen_days",
        int(0, 36_500),
        UserOnly,
        None,
        None,
        "A memory that was in no result for so many days becomes cold.",
    ),
    key(
        "memory.cold_keep_newest",
        int(0, 1_000_000),
        UserOnly,
        None,
        Some("1000"),
        "The newest so many memories of each namespace stay hot, whatever the rules say. Pinned ones do too.",
    ),
    key(
        "memory.review",
        Kind::Choice(&["sure", "ask", "never"]),
        UserOnly,
        None,
        Some("sure"),
        "What becomes of proposals for what is known of a user: `sure` applies what the user plainly said and asks about the rest, `ask` asks about all, `never` applies none.",
    ),
    key(
        "memory.recall_count",
        int(1, 50),
        Anyone,
        None,
        Some("8"),
        "How many memories are recalled when a session starts.",
    ),
    key(
        "context.profile",
        Kind::Text,
        UserOnly,
        None,
        Some("auto"),
        "The profile of a context pack where none is named: `auto`, `software_dev`, `document_review`, `research`, or one of your own.",
    ),
    key(
        "context.budget_tokens",
        int(0, 10_000_000),
        UserOnly,
        None,
        Some("12000"),
        "The most tokens of a context pack where no budget is named.",
    ),
    key(
        "context.profiles",
        Kind::ContextProfiles,
        UserOnly,
        None,
        None,
        "Profiles of your own: a table `[context.profiles.NAME]` with `base` and what differs from it, as in `kinds = \"decision=1.5, note=0.5\"`; [the workspace's page](workspace.md#profiles) lists what may stand there.",
    ),
    key(
        "sandbox.network",
        Kind::Choice(&["loopback", "host"]),
        UserOnly,
        None,
        Some("loopback"),
        "What the agent's commands may reach: `loopback` is a network of their own with nothing else in it, `host` is this machine's network with everything on it.",
    ),
    key(
        "sandbox.kind",
        Kind::Choice(&["any", "bubblewrap", "landlock"]),
        UserOnly,
        None,
        Some("any"),
        "How the sandbox is built: `any` is bubblewrap, and where that does not work Landlock, which bounds less.",
    ),
    key(
        "sandbox.allow",
        Kind::Hosts,
        UserOnly,
        None,
        Some(""),
        "Hosts which the agent's commands may reach through a proxy: `example.org` (ports 80 and 443), `example.org:8443`, `*.example.org`, `*` for every public host. Addresses of this machine and of private networks only if they are named themselves. A list; in the environment separated by commas.",
    ),
    key(
        "sandbox.readonly",
        Kind::ProjectPaths,
        UserOnly,
        None,
        Some(""),
        "Paths inside the project which the agent's commands may read and not write, beside `.git`. A list; in the environment separated by colons.",
    ),
    key(
        "sandbox.toolchains",
        Kind::Paths,
        UserOnly,
        None,
        Some(""),
        "Folders outside the project which the agent's commands may read, such as a toolchain below your home. `/usr` is always there. A list; in the environment separated by colons.",
    ),
    key(
        "sandbox.path_first",
        Kind::Paths,
        UserOnly,
        None,
        Some(""),
        "Folders put before `/usr/local/bin:/usr/bin:/bin` in the commands' `PATH`. A list; in the environment separated by colons.",
    ),
    key("sandbox.command_seconds_max", int(1, 3_600), UserOnly, None, Some("600"), "The longest a command may run."),
    key(
        "sandbox.output_bytes_max",
        int(1_024, 16_777_216),
        UserOnly,
        None,
        Some("30000"),
        "How much of a command's output the model is shown.",
    ),
    key(
        "sandbox.memory_mib_max",
        int(64, 1_048_576),
        UserOnly,
        None,
        Some("4096"),
        "The memory each process of a command may use.",
    ),
    key(
        "sandbox.processes_max",
        int(16, 65_536),
        UserOnly,
        None,
        Some("512"),
        "The processes a command may have at once.",
    ),
    key(
        "browser.program",
        Kind::Path,
        UserOnly,
        None,
        None,
        "The Chromium to verify with. Default: the first of `chromium`, `chromium-browser`, `google-chrome` on the PATH.",
    ),
    key("browser.headed", Kind::Bool, UserOnly, None, Some("false"), "Show the browser's window while it verifies."),
    key(
        "harness.sessions_max",
        int(1, 10_000),
        Anyone,
        None,
        Some("500"),
        "The most coding sessions one `run` starts.",
    ),
    key(
        "harness.turns_max",
        int(5, 1_000),
        Anyone,
        None,
        Some("120"),
        "The most model answers in one session; it hands over then.",
    ),
    key(
        "harness.feature_attempts_max",
        int(1, 20),
        Anyone,
        None,
        Some("5"),
        "How many sessions may fail at one feature before it is parked.",
    ),
    key(
        "harness.claims_max",
        int(1, 50),
        Anyone,
        None,
        Some("8"),
        "How many claims of success may be refused in one session before it ends.",
    ),
    key(
        "harness.regression_sample",
        int(1, 50),
        Anyone,
        None,
        Some("2"),
        "How many passing features each session verifies again before it starts.",
    ),
    key(
        "harness.boot_seconds_max",
        int(1, 600),
        Anyone,
        None,
        Some("30"),
        "How long `init.sh` may take until the application answers.",
    ),
    key(
        "harness.agent",
        Kind::AgentSpec,
        UserOnly,
        None,
        None,
        "Who works in coding sessions: `own`, or `acp:COMMAND` for an agent that speaks the Agent Client Protocol, as in `acp:claude-agent-acp`: docs/agents.md. Default: the one the project was begun with, else `own`.",
    ),
    key(
        "harness.agent_reads",
        Kind::Paths,
        UserOnly,
        None,
        Some(""),
        "Folders outside the project that the agent may read, beside those of its program.",
    ),
    key(
        "harness.agent_upstream",
        Kind::Url,
        UserOnly,
        None,
        None,
        "The service of the agent's model. Default: Anthropic's, OpenAI's or Google's, by the agent's name.",
    ),
    key(
        "harness.agent_key",
        Kind::Secret,
        UserOnly,
        None,
        None,
        "That service's key. It is added to requests outside the sandbox; the agent never has it.",
    ),
    key(
        "harness.agent_minutes_max",
        int(1, 10_080),
        UserOnly,
        None,
        Some("120"),
        "The longest one session of the agent may take.",
    ),
    key(
        "harness.agent_silence_minutes_max",
        int(1, 1_440),
        UserOnly,
        None,
        Some("15"),
        "The longest the agent may say and ask nothing; the session hands over then.",
    ),
    key(
        "harness.bisect_verifications",
        int(0, 20),
        Anyone,
        None,
        Some("6"),
        "How many verifications the search for the commit that broke a feature may take; with 0 a commit is named only when \
         there is but one.",
    ),
    key(
        "harness.bisect_seconds_max",
        int(0, 3_600),
        Anyone,
        None,
        Some("180"),
        "How long that search may go on before it begins another verification.",
    ),
    key(
        "harness.final_check_flows",
        int(1, 16),
        Anyone,
        None,
        Some("2"),
        "How many features are verified at a time when all are, before the project counts as done; one that fails is verified once more alone before that counts.",
    ),
    key(
        "harness.stuck_repeats_max",
        int(2, 50),
        Anyone,
        None,
        Some("4"),
        "How often a session may meet the same failure, make the same call in vain or bring the folder back to what it was, before its agent is told so; after that once more it hands over.",
    ),
    key(
        "harness.stuck_turns_max",
        int(5, 500),
        Anyone,
        None,
        Some("30"),
        "How many answers in a row may leave the folder as it is, before the same happens.",
    ),
    key(
        "harness.features_min",
        int(0, 2_000),
        Anyone,
        None,
        Some("0"),
        "The least features of a plan. 0 leaves it to the size that the initializer sees in the request: small 3, medium 40, large 200.",
    ),
    key(
        "harness.reviewer",
        Kind::Choice(&["person", "model"]),
        UserOnly,
        None,
        Some("person"),
        "Who decides when an agent proposes to change how a feature is verified: a `person` (`longhaul features proposals`), or the `model` in a context of its own, which sees nothing of the session that proposes.",
    ),
    key(
        "policy.allow",
        Kind::ToolPatterns,
        UserOnly,
        None,
        Some(""),
        "Tool calls that are carried out without asking: `TOOL` or `TOOL(ARGUMENT=TEXT)`, `*` for any text, as in `mcp__docs__*`. The tools of Longhaul itself need no rule, those of MCP servers are asked for. A list; in the environment separated by commas.",
    ),
    key(
        "policy.ask",
        Kind::ToolPatterns,
        UserOnly,
        None,
        Some(""),
        "Tool calls that wait for a person (`longhaul waits`), who sees the exact arguments. Stronger than `policy.allow`.",
    ),
    key(
        "policy.deny",
        Kind::ToolPatterns,
        UserOnly,
        None,
        Some(""),
        "Tool calls that are refused. Stronger than both. What commands can do is bounded by the sandbox, not by rules on their text.",
    ),
    key(
        "policy.after_outside",
        Kind::Choice(&["ask", "allow", "deny"]),
        UserOnly,
        None,
        Some("ask"),
        "What becomes of an allowed call that reaches outside, once the conversation has read text from outside.",
    ),
    key(
        "mcp.servers",
        Kind::McpServers,
        UserOnly,
        None,
        None,
        "MCP servers whose tools the agent may call, as `mcp__NAME__TOOL`: `[mcp.servers.NAME]` with `command`, `args` and `allow`, the hosts it may reach. They run in the sandbox.",
    ),
    key(
        "budget.tokens_max",
        int(1, 1_000_000_000_000),
        UserOnly,
        None,
        None,
        "The most tokens, sent and received, that a project may use. Prompt and longest answer are reserved before each request, so it is never exceeded.",
    ),
    key(
        "budget.money_max",
        Kind::Money,
        UserOnly,
        None,
        None,
        "The most money that a project may use, in the currency of `prices`; every model used must be there.",
    ),
    key("budget.hours_max", int(1, 100_000), UserOnly, None, None, "The most hours that runs of a project may work."),
    key(
        "budget.sessions_max",
        int(1, 100_000),
        UserOnly,
        None,
        None,
        "The most coding sessions that a project may have, over all its runs.",
    ),
    key(
        "budget.attempts",
        int(1, 20),
        UserOnly,
        None,
        None,
        "How many sessions may fail at one feature before it is parked, where the project's `harness.feature_attempts_max` is not stricter.",
    ),
    key(
        "notify.command",
        Kind::Command,
        UserOnly,
        None,
        None,
        "A command of yours, a list of program and arguments or a line for `sh`, that is run outside the sandbox when something happens that you may want to know of, with JSON on its standard input: docs/people.md.",
    ),
    key(
        "network.host",
        Kind::Text,
        UserOnly,
        Some("NETWORK_HOST"),
        Some("localhost"),
        "Where an agent network listens. Takes effect when `longhaul network` arrives.",
    ),
    key(
        "network.port",
        int(1, 65_535),
        UserOnly,
        Some("NETWORK_PORT"),
        Some("8700"),
        "Its port. Takes effect when `longhaul network` arrives.",
    ),
    key(
        "studio.port",
        int(1, 65_535),
        UserOnly,
        Some("STUDIO_PORT"),
        Some("8050"),
        "The Studio's port. Takes effect when the Studio arrives.",
    ),
];

/// Variables that begin with `LONGHAUL_` and are not settings.
pub(crate) const OTHER_VARIABLES: &[&str] =
    &["LONGHAUL_LOG", "LONGHAUL_CONFIG_DIR", "LONGHAUL_CASSETTE_LOG", "LONGHAUL_STORE"];

/// What tests tell the processes they start begins like this.
pub(crate) const TEST_PREFIX: &str = "LONGHAUL_TEST_";

/// Variables of the environment that hold keys.
pub(crate) fn secret_variables() -> Vec<String> {
    let secret = KEYS.iter().filter(|key| key.kind == Kind::Secret);
    secret.flat_map(|key| [Some(key.variable()), key.alias.map(str::to_owned)]).flatten().collect()
}

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The candidate most like `name`, if any is near enough to be what was meant.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
