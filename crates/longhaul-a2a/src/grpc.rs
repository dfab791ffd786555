//! gRPC (section 10), the same operations over the protocol's own service.

use std::{future::Future, pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, metadata::MetadataMap};

use crate::{
    card::Reached,
    error::A2aError,
    http::named,
    service::{Call, Service},
    version::{self, Version},
    wire::v1::{
        AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
        GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
        ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
        SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
        a2a_service_server::A2aService,
    },
};

/// The service of the protocol's description.
#[derive(Debug, Clone)]
pub(crate) struct Binding(pub(crate) Arc<Service>);

type Updates = Pin<Box<dyn Stream<Item = Result<StreamResponse, Status>> + Send>>;

fn text<'a>(metadata: &'a MetadataMap, name: &str) -> Option<&'a str> {
    metadata.get(name).and_then(|value| value.to_str().ok())
}

impl Binding {
    /// Who calls, which agent the request's `tenant` means, and the request.
    async fn call<T>(&self, request: Request<T>, tenant: fn(&T) -> &str) -> Result<(Call, T), A2aError> {
        let metadata = request.metadata();
        Version::only_1_0(text(metadata, version::HEADER))?;
        let caller = self.0.caller(text(metadata, "authorization")).await?;
        let extensions = version::extensions(text(metadata, version::EXTENSIONS));
        let request = request.into_inner();
        let agent = named(tenant(&request))?;
        Ok((Call { caller, agent, extensions }, request))
    }

    async fn done<T>(&self, work: impl Future<Output = Result<T, A2aError>>) -> Result<Response<T>, Status> {
        work.await.map(Response::new).map_err(|error| error.grpc(self.0.settings.statuses))
    }

    fn streamed(&self, updates: crate::follow::Updates) -> Updates {
        let statuses = self.0.settings.statuses;
        Box::pin(updates.map(move |update| update.map_err(|error| error.grpc(statuses))))
    }
}

#[tonic::async_trait]
impl A2aService for Binding {
    type SendStreamingMessageStream = Updates;
    type SubscribeToTaskStream = Updates;

    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.send(&call, request).await
        })
        .await
    }

    async fn send_streaming_message(&self, request: Request<SendMessageRequest>) -> Result<Response<Updates>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            Ok(self.streamed(self.0.stream(&call, request).await?))
        })
        .await
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<Task>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.get(&call, request).await
        })
        .await
    }

    async fn list_tasks(&self, request: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.list(&call, request).await
        })
        .await
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.cancel(&call, request).await
        })
        .await
    }

    async fn subscribe_to_task(&self, request: Request<SubscribeToTaskRequest>) -> Result<Response<Updates>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            Ok(self.streamed(self.0.subscribe(&call, request).await?))
        })
        .await
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<TaskPushNotificationConfig>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.create_push(&call, request).await
        })
        .await
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.get_push(&call, request).await
        })
        .await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<Response<ListTaskPushNotificationConfigsResponse>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.list_push(&call, request).await
        })
        .await
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<GetExtendedAgentCardRequest>,
    ) -> Result<Response<AgentCard>, Status> {
        self.done(async {
            let (call, _) = self.call(request, |request| &request.tenant).await?;
            self.0.extended_card(&call, &Reached::default())
        })
        .await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        self.done(async {
            let (call, request) = self.call(request, |request| &request.tenant).await?;
            self.0.delete_push(&call, request).await
        })
        .await
    }
}
