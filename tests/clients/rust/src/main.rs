//! Drives the Rust client: a JSON command per line of stdin; answers, and what consumers receive, as lines of
//! stdout. Its argument are the options, as JSON.

mod consumers;
mod hold;
mod messages;
mod transactions;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use rocketmq_client_rust::{
    AclClientRPCHook, ClientConfig, ClientRuntime, ClientRuntimeConfig, DefaultMQProducer, MessageQueueSelector,
    SelectMessageQueueByHash, SessionCredentials, TransactionMQProducer,
};
use rocketmq_model::common::message::message_queue::MessageQueue;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_runtime::RuntimeOwner;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{Mutex, oneshot};

use crate::consumers::Consumer;
use crate::messages::{Outgoing, sent};

/// What a call failed with; the test judges it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
pub struct Options {
    name_server: String,
    /// The client's own is short for a busy machine.
    #[serde(default = "patient")]
    send_timeout_ms: u32,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    access_key: Option<String>,
    #[serde(default)]
    secret: String,
    #[serde(default)]
    token: Option<String>,
}

#[derive(Deserialize)]
pub struct Command {
    id: u64,
    call: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    member: Option<String>,
    #[serde(default)]
    tags: Option<String>,
    #[serde(default)]
    sql: Option<String>,
    /// The body of a message to work on until it is released.
    #[serde(default)]
    holding: Option<String>,
    #[serde(default)]
    failures: i32,
    #[serde(default)]
    orderly: bool,
    #[serde(default)]
    broadcasting: bool,
    #[serde(default)]
    pop: bool,
    #[serde(default)]
    count: usize,
    #[serde(default)]
    recall_handle: String,
    #[serde(default)]
    messages: Vec<Outgoing>,
    #[serde(flatten)]
    message: Outgoing,
}

pub struct Driver {
    options: Options,
    runtime: Arc<ClientRuntime>,
    producer: DefaultMQProducer,
    consumers: Mutex<HashMap<String, Consumer>>,
    deciding: Mutex<HashMap<String, TransactionMQProducer>>,
}

fn patient() -> u32 {
    60_000
}

fn main() -> Result<(), Failure> {
    let options: Options = serde_json::from_str(&std::env::args().nth(1).ok_or("no options")?)?;
    let owner = RuntimeOwner::new()?;
    let telemetry = TelemetryRuntimeGuard::noop();
    let runtime = ClientRuntime::try_new(
        owner.root_context().component("driver"),
        ClientRuntimeConfig::default(),
        telemetry.handle(),
    )?;
    owner.block_on(serve(options, runtime))
}

/// Carry out commands side by side until stdin ends.
async fn serve(options: Options, runtime: Arc<ClientRuntime>) -> Result<(), Failure> {
    let mut producer = DefaultMQProducer::builder(runtime.clone())
        .client_config(options.config("GID_rust"))
        .send_msg_timeout(options.send_timeout_ms)
        .producer_group("GID_rust");
    if let Some(hook) = options.hook() {
        producer = producer.rpc_hook(hook);
    }
    let mut producer = producer.build();
    producer.start().await?;
    let driver = Arc::new(Driver {
        options,
        runtime,
        producer,
        consumers: Mutex::default(),
        deciding: Mutex::default(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let command: Command = serde_json::from_str(&line)?;
        let driver = driver.clone();
        tokio::spawn(async move {
            let id = command.id;
            tell(&match driver.on(command).await {
                Ok(result) => json!({"id": id, "result": result}),
                Err(error) => json!({"id": id, "error": error.to_string()}),
            });
        });
    }
    Ok(())
}

impl Driver {
    async fn on(&self, command: Command) -> Result<Value, Failure> {
        match command.call.as_str() {
            "send" => {
                let result = self.producer.send(command.message.made()?).await?;
                sent(result.ok_or("no result")?)
            }
            "send_async" => self.send_async(command.message.made()?).await,
            "send_oneway" => {
                self.producer.send_oneway(command.message.made()?).await?;
                Ok(Value::Null)
            }
            "send_orderly" => {
                let key = command.message.sharding_key.clone().ok_or("no sharding key")?;
                let select = |queues: &[MessageQueue], message: &Message, key: &String| {
                    SelectMessageQueueByHash.select(queues, message, key)
                };
                let result = self.producer.send_with_selector(command.message.made()?, select, key).await?;
                sent(result.ok_or("no result")?)
            }
            "send_batch" => {
                let messages = command.messages.into_iter().map(Outgoing::made).collect::<Result<Vec<_>, _>>()?;
                sent(self.producer.send_batch(messages).await?)
            }
            "recall" => {
                let message_id = self.producer.recall_message(command.message.topic, command.recall_handle).await?;
                Ok(json!(message_id))
            }
            "release" => {
                hold::release(command.message.body);
                Ok(Value::Null)
            }
            "send_in_transaction" => self.send_in_transaction(command).await,
            "consume" => self.consume(command).await,
            "poll" => self.poll(command).await,
            "close" => self.close(command).await,
            call => Err(format!("no call {call:?}").into()),
        }
    }

    async fn send_async(&self, message: Message) -> Result<Value, Failure> {
        let (done, outcome) = oneshot::channel();
        let done = std::sync::Mutex::new(Some(done));
        self.producer
            .send_with_callback(message, move |result, error| {
                let outcome = result.cloned().ok_or_else(|| error.map_or("nothing".into(), ToString::to_string));
                if let Some(done) = done.lock().ok().and_then(|mut done| done.take()) {
                    let _ = done.send(outcome);
                }
            })
            .await?;
        sent(outcome.await??)
    }
}

impl Options {
    /// What all clients have in common but their names.
    pub fn config(&self, instance: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_namesrv_addr(self.name_server.as_str().into());
        config.set_instance_name(instance.into());
        config.set_heartbeat_broker_interval(10_000); // the shortest, after which a broker that is back knows the client
        if let Some(namespace) = &self.namespace {
            config.set_namespace(namespace.as_str().into());
        }
        config
    }

    /// What signs requests.
    pub fn hook(&self) -> Option<Arc<AclClientRPCHook>> {
        let key = self.access_key.as_deref()?;
        Some(Arc::new(AclClientRPCHook::new(match &self.token {
            Some(token) => SessionCredentials::with_token(key, self.secret.as_str(), token.as_str()),
            None => SessionCredentials::with_keys(key, self.secret.as_str()),
        })))
    }
}

/// An answer, or what a consumer received.
pub fn tell(what: &Value) {
    let mut answers = std::io::stdout().lock();
    writeln!(answers, "{what}").and_then(|()| answers.flush()).expect("stdout is open");
}
