//! Messages as commands describe them, and as answers show them.

use std::collections::HashMap;

use rocketmq_client_rust::{SendResult, SendStatus};
use rocketmq_model::common::message::MessageTrait;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Failure;

#[derive(Deserialize)]
pub struct Outgoing {
    #[serde(default)]
    pub topic: String,
    #[serde(default)]
    pub body: String,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    delay_level: i32,
    #[serde(default)]
    pub sharding_key: Option<String>,
    #[serde(default)]
    properties: HashMap<String, String>,
}

impl Outgoing {
    pub fn made(self) -> Result<Message, Failure> {
        let mut message = Message::builder().topic(self.topic).body(self.body.into_bytes());
        if let Some(tag) = self.tag {
            message = message.tags(tag);
        }
        if !self.keys.is_empty() {
            message = message.keys(self.keys);
        }
        if self.delay_level != 0 {
            message = message.delay_level(self.delay_level);
        }
        if let Some(key) = self.sharding_key {
            message = message.sharding_key(key);
        }
        let mut message = message.build()?;
        for (name, text) in self.properties {
            message.put_property(name.into(), text.into());
        }
        Ok(message)
    }
}

pub fn sent(result: SendResult) -> Result<Value, Failure> {
    let queue = result.message_queue.ok_or("no queue")?;
    Ok(json!({
        "is_ok": result.send_status == SendStatus::SendOk,
        "message_id": result.msg_id.map(|id| id.to_string()),
        "offset_message_id": result.offset_msg_id,
        "recall_handle": result.recall_handle,
        "queue_id": queue.queue_id(),
        "queue_offset": result.queue_offset,
    }))
}

pub fn shown(message: &MessageExt) -> Value {
    let properties: HashMap<_, _> =
        message.properties().iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    json!({
        "topic": message.topic().to_string(),
        "body": String::from_utf8_lossy(&message.body().unwrap_or_default()),
        "tag": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "message_id": properties.get("UNIQ_KEY"), // `msg_id()` is the id by offset
        "queue_id": message.queue_id(),
        "queue_offset": message.queue_offset(),
        "times": message.reconsume_times(),
        "properties": properties,
    })
}
