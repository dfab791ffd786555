//! The operations of the protocol (specification, section 3), the same for every binding.
//!
//! It owns who calls and what is checked; the changes themselves are events that the mod in `bridge` answers. Invariant:
//! nothing is read or changed but for the owner that the call's credential names.

use std::sync::Arc;

use longhaul_core::Scope;
use longhaul_network::{Address, AgentId, Draft, Member, Network, Refusal, RefusalKind, Reply};
use longhaul_store::StoreError;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    bridge::{self, MOD},
    caller::Shared,
    check,
    error::A2aError,
    follow::{self, Follow, Updates},
    machine,
    push::{self, Courier, target::Targets},
    rows::{self, Kept, Place},
    settings::A2aSettings,
    speech,
    wire::{
        from_json, to_json,
        v1::{
            CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetTaskPushNotificationConfigRequest,
            GetTaskRequest, ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse,
            ListTasksRequest, ListTasksResponse, Message, SendMessageRequest, SendMessageResponse, StreamResponse,
            SubscribeToTaskRequest, Task, TaskPushNotificationConfig, TaskState, send_message_response,
            stream_response,
        },
    },
};

/// Who calls, with what, and which agent is meant.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// The agent that the address names; none for the network as a whole.
    pub(crate) agent: Option<AgentId>,
    /// Extensions that the client knows.
    pub(crate) extensions: Vec<String>,
}

/// A member and what its tasks are kept under.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) member: Member,
    pub(crate) owner: String,
}

/// What all bindings share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) network: Network,
    pub(crate) settings: A2aSettings,
    pub(crate) place: Place,
    pub(crate) shared: Shared,
    streams: Arc<Semaphore>,
    /// Ends the courier with the last binding.
    _ends: DropGuard,
}

impl Service {
    /// Over an open network; webhooks are sent from now on, as long as it lives. To be called within a tokio runtime.
    pub(crate) fn new(network: Network, settings: A2aSettings) -> Arc<Self> {
        let scope: Scope = network.scope().clone();
        let place = Place::new(&scope, network.id());
        let until = CancellationToken::new();
        let targets = Targets { this_machine: settings.push_to_this_machine };
        match Courier::new(network.store().clone(), place.clone(), targets, settings.kept) {
            Ok(courier) => drop(tokio::spawn(courier.run(until.clone()))),
            Err(why) => tracing::error!(why, "webhooks of tasks cannot be sent"),
        }
        let streams = Arc::new(Semaphore::new(settings.streams_max));
        Arc::new(Self { network, settings, place, shared: Shared::default(), streams, _ends: until.drop_guard() })
    }

    fn new_id(&self) -> String {
        self.network.store().ambient().ids.body()
    }

    /// `SendMessage` (3.1.1).
    pub(crate) async fn send(&self, call: &Call, request: SendMessageRequest) -> Result<SendMessageResponse, A2aError> {
        let settings = request.configuration.clone().unwrap_or_default();
        check::request(&self.settings, call, &request)?;
        let Some(message) = request.message.clone() else { return Err(check::no_message()) };
        if let Some(event) = check::event_of(&message)? {
            let answer = self.send_event(call, &message, event).await?;
            return Ok(SendMessageResponse { payload: Some(send_message_response::Payload::Message(answer)) });
        }
        let mut notices = self.network.store().listen(&self.place.channel());
        let (task, number) = self.begin(call, &request, settings.return_immediately).await?;
        let payload = if settings.return_immediately {
            send_message_response::Payload::Task(task)
        } else {
            let until = tokio::time::timeout(
                self.settings.wait_max,
                follow::settled(&self.network, &self.place, &mut notices, &task.id, number),
            );
            match until.await {
                Ok(settled) => settled?,
                Err(_) => send_message_response::Payload::Task(self.kept(call, &task.id).await?.task),
            }
        };
        let payload = match payload {
            send_message_response::Payload::Task(task) => {
                send_message_response::Payload::Task(trimmed(task, settings.history_length))
            }
            message @ send_message_response::Payload::Message(_) => message,
        };
        Ok(SendMessageResponse { payload: Some(payload) })
    }

    /// `SendStreamingMessage` (3.1.2).
    pub(crate) async fn stream(
        self: &Arc<Self>,
        call: &Call,
        request: SendMessageRequest,
    ) -> Result<Updates, A2aError> {
        self.streams_offered()?;
        check::request(&self.settings, call, &request)?;
        let Some(message) = request.message.clone() else { return Err(check::no_message()) };
        if let Some(event) = check::event_of(&message)? {
            let answer = self.send_event(call, &message, event).await?;
            let only = StreamResponse { payload: Some(stream_response::Payload::Message(answer)) };
            return Ok(follow::only(only));
        }
        let permit = self.permit()?;
        let notices = self.network.store().listen(&self.place.channel());
        let (task, number) = self.begin(call, &request, true).await?;
        let trim = request.configuration.and_then(|settings| settings.history_length);
        let first = trimmed(task, trim);
        Ok(Follow::new(self.clone(), notices, permit, first, number).until_the_owner_is_asked().updates())
    }

    /// `SubscribeToTask` (3.1.6).
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        call: &Call,
        request: SubscribeToTaskRequest,
    ) -> Result<Updates, A2aError> {
        self.streams_offered()?;
        let permit = self.permit()?;
        let notices = self.network.store().listen(&self.place.channel());
        let kept = self.kept(call, &request.id).await?;
        if machine::has_ended(kept.state()) {
            return Err(A2aError::Unsupported(format!("task {:?} has ended: read it with GetTask", request.id)));
        }
        Ok(Follow::new(self.clone(), notices, permit, kept.task, kept.number).updates())
    }

    fn streams_offered(&self) -> Result<(), A2aError> {
        match self.settings.streaming {
            true => Ok(()),
            false => Err(A2aError::Unsupported("streams are switched off here: ask with GetTask".to_owned())),
        }
    }

    fn permit(&self) -> Result<tokio::sync::OwnedSemaphorePermit, A2aError> {
        self.streams.clone().try_acquire_owned().map_err(|_| A2aError::Exhausted {
            message: format!("{} streams are open already: close some, or ask with GetTask", self.settings.streams_max),
            retry_after_ms: Some(1_000),
        })
    }

    /// `GetTask` (3.1.3).
    pub(crate) async fn get(&self, call: &Call, request: GetTaskRequest) -> Result<Task, A2aError> {
        check::history_length(request.history_length)?;
        let kept = self.kept(call, &request.id).await?;
        Ok(trimmed(kept.task, request.history_length))
    }

    /// `ListTasks` (3.1.4).
    pub(crate) async fn list(&self, call: &Call, request: ListTasksRequest) -> Result<ListTasksResponse, A2aError> {
        let (wanted, size) = check::list(call, &request)?;
        let place = self.place.clone();
        let page = wanted.clone();
        let (mut found, total) =
            self.network.store().read(move |read| rows::list(read, &place, &page)).await.map_err(store)?;
        let more = found.len() > size;
        found.truncate(size);
        let next_page_token = match found.last() {
            Some((at, last)) if more => check::page_token(*at, &last.task.id),
            _ => String::new(),
        };
        let with_artifacts = request.include_artifacts.unwrap_or_default();
        let tasks = found.into_iter().map(|(_, kept)| {
            let mut task = trimmed(kept.task, request.history_length);
            if !with_artifacts {
                task.artifacts.clear();
            }
            task
        });
        Ok(ListTasksResponse {
            tasks: tasks.collect(),
            next_page_token,
            page_size: i32::try_from(size).unwrap_or(i32::MAX),
            total_size: i32::try_from(total).unwrap_or(i32::MAX),
        })
    }

    /// `CancelTask` (3.1.5).
    pub(crate) async fn cancel(&self, call: &Call, request: CancelTaskRequest) -> Result<Task, A2aError> {
        let kept = self.kept(call, &request.id).await?;
        if kept.state() == TaskState::Canceled {
            return Ok(kept.task);
        }
        if machine::has_ended(kept.state()) {
            return Err(A2aError::TaskNotCancelable(request.id));
        }
        let payload = speech::object(json!({ "task_id": request.id }));
        let sent = self.ask(call, self.new_id(), bridge::CANCEL, payload).await;
        let reply = sent.map_err(|refusal| match refusal.kind {
            RefusalKind::Conflict => A2aError::TaskNotCancelable(request.id.clone()),
            RefusalKind::Missing => A2aError::TaskNotFound(request.id.clone()),
            _ => refusal.into(),
        })?;
        Ok(told(&reply)?.0)
    }

    /// `CreateTaskPushNotificationConfig` (3.1.7).
    pub(crate) async fn create_push(
        &self,
        call: &Call,
        config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.push_offered()?;
        let kept = self.kept(call, &config.task_id).await?;
        let config = self.push_checked(config)?;
        let (place, new, number) = (self.place.clone(), config.clone(), kept.number);
        let store = self.network.store();
        let written: Result<bool, StoreError> = store
            .write(move |tx| {
                if push::rows::others(tx, &place, &new.task_id, &new.id)? >= push::rows::CONFIGS_MAX {
                    return Ok(false);
                }
                let now = tx.now();
                push::rows::put(tx, &place, &new, number, now)?;
                Ok(true)
            })
            .await;
        match written? {
            true => Ok(shown(config)),
            false => Err(A2aError::Exhausted {
                message: format!("a task has at most {} webhooks: delete one", push::rows::CONFIGS_MAX),
                retry_after_ms: None,
            }),
        }
    }

    /// `GetTaskPushNotificationConfig` (3.1.8).
    pub(crate) async fn get_push(
        &self,
        call: &Call,
        request: GetTaskPushNotificationConfigRequest,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.push_offered()?;
        let all = self.pushes(call, &request.task_id).await?;
        let found = all.into_iter().find(|config| config.id == request.id);
        found.map(shown).ok_or(A2aError::TaskNotFound(request.id))
    }

    /// `ListTaskPushNotificationConfigs` (3.1.9). All on one page, as there are few.
    pub(crate) async fn list_push(
        &self,
        call: &Call,
        request: ListTaskPushNotificationConfigsRequest,
    ) -> Result<ListTaskPushNotificationConfigsResponse, A2aError> {
        self.push_offered()?;
        let configs = self.pushes(call, &request.task_id).await?.into_iter().map(shown).collect();
        Ok(ListTaskPushNotificationConfigsResponse { configs, next_page_token: String::new() })
    }

    /// `DeleteTaskPushNotificationConfig` (3.1.10).
    pub(crate) async fn delete_push(
        &self,
        call: &Call,
        request: DeleteTaskPushNotificationConfigRequest,
    ) -> Result<(), A2aError> {
        self.push_offered()?;
        let kept = self.kept(call, &request.task_id).await?;
        let place = self.place.clone();
        let store = self.network.store();
        Ok(store.write(move |tx| push::rows::delete(tx, &place, &kept.task.id, &request.id)).await?)
    }

    async fn pushes(&self, call: &Call, task: &str) -> Result<Vec<TaskPushNotificationConfig>, A2aError> {
        let kept = self.kept(call, task).await?;
        let place = self.place.clone();
        Ok(self.network.store().read(move |read| push::rows::list(read, &place, &kept.task.id)).await?)
    }

    fn push_offered(&self) -> Result<(), A2aError> {
        if self.settings.push { Ok(()) } else { Err(A2aError::PushNotSupported) }
    }

    fn push_checked(&self, config: TaskPushNotificationConfig) -> Result<TaskPushNotificationConfig, A2aError> {
        let targets = Targets { this_machine: self.settings.push_to_this_machine };
        targets.read(&config.url).map_err(|error| A2aError::invalid("url", error.to_string()))?;
        let id = if config.id.is_empty() { self.new_id() } else { config.id };
        check::push_id(&id)?;
        Ok(TaskPushNotificationConfig { id, tenant: String::new(), ..config })
    }

    /// The caller's task, which the address of the call leads to.
    async fn kept(&self, call: &Call, task: &str) -> Result<Kept, A2aError> {
        let missing = || A2aError::TaskNotFound(task.to_owned());
        check::task_id(task)?;
        let (place, id) = (self.place.clone(), task.to_owned());
        let found = self.network.store().read(move |read| rows::get(read, &place, &id)).await.map_err(store)?;
        let mine = |kept: &Kept| kept.owner == call.caller.owner && !kept.direct;
        let here = |kept: &Kept| call.agent.as_ref().is_none_or(|agent| agent.as_str() == kept.agent);
        found.filter(mine).filter(here).ok_or_else(missing)
    }

    /// Gives the message to its agent. The task as it stands then, and the number of its last update.
    async fn begin(&self, call: &Call, request: &SendMessageRequest, announce: bool) -> Result<(Task, i64), A2aError> {
        let message = request.message.clone().unwrap_or_default();
        let task = message.task_id.clone();
        let agent = match task.as_str() {
            "" => self.agent_for(call)?,
            task => {
                let kept = self.kept(call, task).await?;
                check::more(&kept, &message)?;
                kept.agent
            }
        };
        let mut payload = Map::new();
        payload.insert("agent".to_owned(), agent.into());
        payload.insert("message".to_owned(), to_json(&message));
        payload.insert("announce".to_owned(), announce.into());
        let configuration = request.configuration.as_ref();
        if let Some(config) = configuration.and_then(|found| found.task_push_notification_config.clone()) {
            self.push_offered()?;
            payload.insert("push".to_owned(), to_json(&self.push_checked(config)?));
        }
        // By itself the protocol lets clients use the id of a message again for another one.
        let once = call.extensions.iter().any(|known| known == check::ONCE_EXTENSION);
        let draft_id = if once { message.message_id } else { self.new_id() };
        let reply = self.ask(call, draft_id, bridge::SEND, payload).await.map_err(|refusal| match refusal.kind {
            RefusalKind::Conflict if once && task.is_empty() => A2aError::Conflict(refusal.message),
            RefusalKind::Conflict => A2aError::Unsupported(refusal.message),
            RefusalKind::Missing if !task.is_empty() => A2aError::TaskNotFound(task.clone()),
            _ => refusal.into(),
        })?;
        told(&reply)
    }

    /// Who is to answer.
    fn agent_for(&self, call: &Call) -> Result<String, A2aError> {
        let agent = call.agent.as_ref().or(self.settings.coordinator.as_ref()).ok_or_else(|| {
            A2aError::Unsupported(
                "this network has no coordinator who answers for it: speak to one of its agents, at \
                 /a2a/agents/ID or with its id as `tenant`"
                    .to_owned(),
            )
        })?;
        match self.network.agent(agent) {
            Some(view) => Ok(view.agent.to_string()),
            None => Err(A2aError::NoAgent(agent.to_string())),
        }
    }

    /// Sends a command to the mod.
    async fn ask(&self, call: &Call, id: String, name: &str, payload: Map<String, Value>) -> Result<Reply, Refusal> {
        let draft = Draft::new(id, name.parse()?, Address::Mod(MOD.to_owned()), payload);
        let reply = self.network.send(&call.caller.member, draft).await?;
        self.shared.drain(&self.network, &call.caller).await;
        Ok(reply)
    }

    /// Sends the event that a message holds, as the member who calls. Its answer as a message.
    async fn send_event(&self, call: &Call, message: &Message, mut draft: Draft) -> Result<Message, A2aError> {
        draft.id.clone_from(&message.message_id);
        let reply = self.network.send(&call.caller.member, draft).await?;
        let data = json!({
            "success": reply.success, "message": reply.message, "data": reply.data, "repeated": reply.repeated,
        });
        let part = from_json(json!({ "data": data, "mediaType": check::EVENT_TYPE }))?;
        let context_id = match message.context_id.as_str() {
            "" => self.new_id(),
            given => given.to_owned(),
        };
        let id = format!("{}-answer", message.message_id);
        Ok(Message {
            context_id,
            extensions: vec![check::EVENT_EXTENSION.to_owned()],
            ..speech::message_of(&id, vec![part])
        })
    }
}

fn store(error: StoreError) -> A2aError {
    error.into()
}

/// The task in the mod's answer, and the number of its last update.
fn told(reply: &Reply) -> Result<(Task, i64), A2aError> {
    let data = reply.data.clone().filter(|_| reply.success);
    let Some(data) = data else {
        // Without the mod nobody answers.
        return Err(A2aError::Unavailable(format!("nothing was done: {}", reply.message)));
    };
    let number = data["number"].as_i64().unwrap_or_default();
    Ok((from_json(data["task"].clone())?, number))
}

/// The task with the last messages of its history only (3.2.4).
fn trimmed(mut task: Task, history_length: Option<i32>) -> Task {
    if let Some(length) = history_length {
        let drop = task.history.len().saturating_sub(usize::try_from(length).unwrap_or_default());
        task.history.drain(..drop);
    }
    task
}

/// A webhook as its owner reads it: what it shows its receiver is written, never read.
fn shown(mut config: TaskPushNotificationConfig) -> TaskPushNotificationConfig {
    if let Some(authentication) = &mut config.authentication {
        authentication.credentials.clear();
    }
    config
}
