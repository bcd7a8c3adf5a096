//! Transactions, decided as the properties of a message say: `decision` at once, `later` when asked.

use std::any::Any;

use rocketmq_client_rust::{LocalTransactionState, TransactionListener, TransactionMQProducer};
use rocketmq_model::common::message::MessageTrait;
use rocketmq_model::common::message::message_ext::MessageExt;
use serde_json::{Value, json};

use crate::messages::{sent, shown};
use crate::{Command, Driver, Failure, hold, tell};

struct Decisions {
    group: String,
}

impl TransactionListener for Decisions {
    fn execute_local_transaction(
        &self,
        message: &dyn MessageTrait,
        _: Option<&(dyn Any + Send + Sync)>,
    ) -> LocalTransactionState {
        if let Some(body) = message.property(&"held".into()) {
            tell(&json!({"member": self.group, "message": {"body": body.to_string()}}));
            hold::wait(&body);
        }
        decided(message.property(&"decision".into()).map(|text| text.to_string()))
    }

    fn check_local_transaction(&self, message: &MessageExt) -> LocalTransactionState {
        tell(&json!({"member": self.group, "message": shown(message)}));
        decided(message.properties().get("later").map(|text| text.to_string()))
    }
}

impl Driver {
    pub async fn send_in_transaction(&self, command: Command) -> Result<Value, Failure> {
        let mut deciding = self.deciding.lock().await;
        if !deciding.contains_key(&command.group) {
            let mut producer = TransactionMQProducer::builder(self.runtime.clone())
                .client_config(self.options.config(&command.group))
                .producer_group(command.group.as_str())
                .send_msg_timeout(self.options.send_timeout_ms)
                .transaction_listener(Decisions { group: command.group.clone() })
                .build();
            producer.start().await?;
            deciding.insert(command.group.clone(), producer);
        }
        let producer = deciding.get_mut(&command.group).ok_or("no producer")?;
        let result = producer.send_message_in_transaction::<(), _>(command.message.made()?, None).await?;
        sent(result.send_result.ok_or("no result")?)
    }
}

fn decided(decision: Option<String>) -> LocalTransactionState {
    match decision.as_deref() {
        Some("commit") => LocalTransactionState::CommitMessage,
        Some("rollback") => LocalTransactionState::RollbackMessage,
        _ => LocalTransactionState::Unknown,
    }
}
