//! The community of `longhaul demo network`: a network served from a folder, a coordinator and three experts who join it
//! over HTTP, and a person who asks.
//!
//! It owns the wiring and the order of the story. Models' words come from a cassette (or from the model that the settings
//! name); network, transports, mods, store, memory and executions are real. Invariant: the story's questions are asked
//! over the network, by a member like every other.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_core::{Ambient, Scope};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_model::ChatModel;
use longhaul_mods::agents::{
    AgentFile, HttpLink, Joining, Link, MemorySettings, Message, Mind, MindParts,
    community::{COLLABORATION, Coordinator, CoordinatorSettings, Expert, KNOWLEDGE, Members, SOLUTIONS},
    partition,
};
use longhaul_network::{AgentId, Refusal, Registration, Via};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Longhaul, LonghaulError,
    chat::{Chat, ChatRequest},
    connect::Connected,
    network::{FILE, Network, NetworkError, StartOptions},
};

/// The network's file, in the older documented form.
pub const NETWORK_FILE: &str = include_str!("../../../demo/community/network.yaml");
/// What the story asks, one after the other: for all three experts, the same in other words, for one expert.
pub const QUESTIONS: [&str; 3] = [
    "How do I keep vector search in Milvus fast when an async Python service sends many queries, and what should the \
     Docker deployment look like?",
    "How can vector search in Milvus stay fast with many queries from an async Python service, and what should the \
     deployment with Docker look like?",
    "Which Milvus index should I take for ten million vectors?",
];
/// Longest time for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// Why the community does not work.
#[derive(Debug, thiserror::Error)]
pub enum CommunityError {
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The network said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Settings or model.
    #[error(transparent)]
    Longhaul(#[from] LonghaulError),
    /// The folder's file cannot be written.
    #[error("cannot write {path}; name another folder with --dir")]
    Folder {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// The network's file names no coordinator.
    #[error("{path} names no agent of type coordinator under `agents`")]
    NoCoordinator {
        /// The file.
        path: PathBuf,
    },
    /// Nobody answered in time.
    #[error("the coordinator did not answer within {} s", ANSWER_MAX.as_secs())]
    NoAnswer,
    /// An agent ended by itself.
    #[error("an agent of the community ended: {0}")]
    Ended(String),
}

/// A community at work.
pub struct Community {
    network: Network,
    url: String,
    coordinator: String,
    members: Members,
    memory: Memory,
    agents: JoinSet<Result<(), String>>,
    stop: CancellationToken,
    notices: Vec<String>,
    /// Servers of cassettes live as long.
    connected: Connected,
    indexer: Option<CancellationToken>,
}

impl std::fmt::Debug for Community {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Community").field("url", &self.url).finish_non_exhaustive()
    }
}

/// One thing that happened while a question was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `general`, `python_channel`; nothing for what was said to the person alone.
    pub channel: Option<String>,
    /// Who.
    pub from: String,
    /// What.
    pub text: String,
}

/// What a question came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub text: String,
    /// It came from memory, and no expert was asked.
    pub from_memory: bool,
    /// Nobody could answer.
    pub failed: bool,
}

impl Community {
    /// Starts network and agents in this folder; writes its file where there is none.
    ///
    /// # Errors
    /// [`CommunityError`].
    pub async fn start(longhaul: &Longhaul, dir: &Path, port: Option<u16>) -> Result<Self, CommunityError> {
        let path = dir.join(FILE);
        if !path.exists() {
            let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, NETWORK_FILE));
            written.map_err(|source| CommunityError::Folder { path: path.clone(), source })?;
        }
        let (connected, _) = longhaul.connect(None).await?;
        let embedder = longhaul.embedder().ok();
        let options = StartOptions {
            settings: Some(longhaul.settings().clone()),
            any_ports: port.is_none(),
            http_port: port,
            ..StartOptions::default()
        };
        let network = Network::start_with(dir, options).await?;
        let mut notices = network.notices().to_vec();
        if embedder.is_none() {
            notices.push("questions are compared by their words only, as there is no embedding model".to_owned());
        }
        let members = Members::of(&network.engine().view().settings)?;
        let Some(coordinator) = members.coordinator.clone() else {
            return Err(CommunityError::NoCoordinator { path });
        };
        let url = network.url().unwrap_or_default();
        let memory = Memory::new(network.engine().store().clone(), embedder.clone());
        let indexer = embedder.is_some().then(|| {
            let (end, indexer) = (CancellationToken::new(), memory.indexer());
            let ended = end.clone();
            tokio::spawn(async move { indexer.run(ended.cancelled()).await });
            end
        });
        let mut community = Self {
            network,
            url,
            coordinator,
            members,
            memory,
            agents: JoinSet::new(),
            stop: CancellationToken::new(),
            notices,
            connected,
            indexer,
        };
        community.start_agents(dir).await?;
        Ok(community)
    }

    async fn start_agents(&mut self, dir: &Path) -> Result<(), CommunityError> {
        let model = self.connected.model.clone();
        for expert in self.members.experts.clone() {
            let file = expert_file(&expert);
            let parts = self.parts(dir, &file, model.clone()).await?;
            let mind = Mind::new(file, parts).await?;
            let stop = self.stop.clone();
            self.agents.spawn(async move { mind.run(stop).await.map(drop).map_err(|refusal| refusal.to_string()) });
        }
        let agent: AgentId = self.coordinator.parse()?;
        let file = coordinator_file(agent);
        let parts = self.parts(dir, &file, model).await?;
        let settings = CoordinatorSettings {
            file,
            channels: self.members.channels.clone(),
            experts: self.members.experts.clone(),
            expert_limit: Duration::from_secs(60),
        };
        let coordinator = Coordinator::new(settings, parts).await?;
        let stop = self.stop.clone();
        self.agents.spawn(async move { coordinator.run(stop).await.map(drop).map_err(|refusal| refusal.to_string()) });
        Ok(())
    }

    /// Joins over HTTP, like an agent of anybody.
    async fn parts(
        &self,
        dir: &Path,
        file: &AgentFile,
        model: Arc<dyn ChatModel>,
    ) -> Result<MindParts, CommunityError> {
        let mut registration = Registration::new(file.agent.clone(), Via::Http);
        registration.capabilities.clone_from(&file.capabilities);
        registration.metadata.insert("description".into(), file.description.clone().into());
        let state = Some(dir.join(".longhaul").join("agents").join(format!("{}.json", file.agent)));
        let link: Arc<dyn Link> =
            Arc::new(HttpLink::join(Joining { url: self.url.clone(), registration, state }).await?);
        let store = self.network.engine().store().clone();
        let runtime = Runtime::new(store.clone(), Ambient::system());
        Ok(MindParts { link, store, runtime, scope: Scope::single_user(), model, memory: Some(self.memory.clone()) })
    }

    /// Where the network is served.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The network itself.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What should be known of how it was started.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Who takes part: the coordinator, then the experts with what they are asked about.
    #[must_use]
    pub fn members(&self) -> Vec<(String, String)> {
        let experts = self.members.experts.iter();
        let experts = experts.map(|expert| (expert.agent.to_string(), expert.keywords.join(", ")));
        std::iter::once((self.coordinator.clone(), "asks, waits, merges".to_owned())).chain(experts).collect()
    }

    /// A person joins over HTTP.
    ///
    /// # Errors
    /// When the name is held.
    pub async fn person(&self, name: &str) -> Result<Chat, CommunityError> {
        let request = ChatRequest {
            url: self.url.clone(),
            name: name.to_owned(),
            group: None,
            credential: String::new(),
            state: None,
        };
        Ok(Chat::join(request).await?)
    }

    /// The person asks in `general` and listens until the coordinator has answered; `told` hears all that is said.
    ///
    /// # Errors
    /// [`CommunityError::NoAnswer`]; when an agent has ended.
    pub async fn ask(
        &mut self,
        person: &mut Chat,
        question: &str,
        mut told: impl FnMut(Line),
    ) -> Result<Answered, CommunityError> {
        let ears = person.ears();
        let typed = crate::chat::Typed::Say(question.to_owned());
        told(Line { channel: Some("general".to_owned()), from: person.name().to_owned(), text: question.to_owned() });
        person.act(typed).await?;
        let coordinator = self.coordinator.clone();
        let listening = async {
            loop {
                for message in ears.hear(Duration::from_secs(10)).await? {
                    told(Line {
                        channel: message.channel.clone(),
                        from: message.from.clone(),
                        text: message.text.clone(),
                    });
                    if message.from == coordinator && is_answer(&message) {
                        return Ok::<_, Refusal>(message);
                    }
                }
            }
        };
        let answer: Message = tokio::select! {
            answered = tokio::time::timeout(ANSWER_MAX, listening) => answered.map_err(|_| CommunityError::NoAnswer)??,
            Some(ended) = self.agents.join_next() => {
                let why = match ended {
                    Ok(Ok(())) => "it was told to".to_owned(),
                    Ok(Err(why)) => why,
                    Err(error) => error.to_string(),
                };
                return Err(CommunityError::Ended(why));
            }
        };
        let from_memory = answer.text.starts_with("From memory:");
        Ok(Answered { failed: answer.failed.is_some(), text: answer.text, from_memory })
    }

    /// What is in the shared memory now, by collection.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remembered(&self) -> Result<Vec<(&'static str, usize)>, CommunityError> {
        let namespace = partition(self.network.engine().id());
        let mut counts = Vec::new();
        for collection in [KNOWLEDGE, COLLABORATION, SOLUTIONS] {
            let query = longhaul_memory::Query {
                namespaces: vec![namespace.clone()],
                collections: vec![collection.to_owned()],
                ..longhaul_memory::Query::new("Milvus Python Docker", 200)
            };
            let recall = self.memory.search(&Scope::single_user(), &query).await;
            let recall = recall.map_err(|error| Refusal::from(longhaul_store::StoreError::from(error)))?;
            counts.push((collection, recall.considered));
        }
        Ok(counts)
    }

    /// Ends agents and network; what they had begun goes on with the next start in the same folder.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.agents.join_next().await.is_some() {}
        if let Some(indexer) = self.indexer {
            indexer.cancel();
        }
        self.network.stop().await;
    }
}

/// Whether it is the answer and not a word on the way to it.
fn is_answer(message: &Message) -> bool {
    message.reply_to.is_some() && !message.interim
}

fn expert_file(expert: &Expert) -> AgentFile {
    let instruction = format!(
        "You are {}, an expert for {}. You answer the part of a question that is about your field, in a few sentences, \
         and say nothing about other fields.",
        expert.agent, expert.domain
    );
    let mut file = AgentFile::new(expert.agent.clone(), &instruction);
    file.description = format!("answers questions about {}", expert.domain);
    file.capabilities = vec![expert.domain.clone()];
    file.memory = MemorySettings { recall: vec![KNOWLEDGE.to_owned()], keep: Some(KNOWLEDGE.to_owned()), hits_max: 3 };
    file.budget.per_task = Some(60_000);
    file
}

fn coordinator_file(agent: AgentId) -> AgentFile {
    let mut file = AgentFile::new(agent, "You merge what experts say into one answer, and add nothing of your own.");
    file.description = "analyses questions, asks experts, merges what they say".to_owned();
    file.budget.per_task = Some(60_000);
    file
}
