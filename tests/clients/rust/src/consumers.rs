//! Consumers: pushing ones with a listener, and lite pull consumers that are polled.

use rocketmq_client_rust::{
    ClientResult, ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, ConsumeOrderlyContext, ConsumeOrderlyStatus,
    DefaultLitePullConsumer, DefaultMQPushConsumer, MQPushConsumer, MessageSelector,
};
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_protocol::protocol::heartbeat::message_model::MessageModel;
use serde_json::{Value, json};

use crate::messages::shown;
use crate::{Command, Driver, Failure, hold, tell};

pub enum Consumer {
    Push(DefaultMQPushConsumer),
    LitePull(DefaultLitePullConsumer),
}

impl Driver {
    /// Start a push consumer; it fails a message as often as it is told.
    pub async fn consume(&self, command: Command) -> Result<Value, Failure> {
        let name = command.member.unwrap_or_else(|| command.group.clone());
        let mut consumer = DefaultMQPushConsumer::builder(self.runtime.clone())
            .client_config(self.options.config(&name))
            .consumer_group(command.group)
            .client_rebalance(!command.pop)
            .rpc_hook(self.options.hook().map(|hook| hook as _));
        if command.broadcasting {
            consumer = consumer
                .message_model(MessageModel::Broadcasting)
                .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset);
        }
        let mut consumer = consumer.build();
        match command.sql {
            Some(sql) => {
                let topic = command.message.topic.as_str();
                consumer.subscribe_with_selector(topic, Some(MessageSelector::by_sql(sql))).await?;
            }
            None => {
                let tags = command.tags.unwrap_or("*".into());
                consumer.subscribe(command.message.topic.as_str(), tags).await?;
            }
        }
        let failures = command.failures;
        let holding = command.holding;
        let member = name.clone();
        let received = move |messages: &[&MessageExt]| {
            for message in messages {
                let shown = shown(message);
                tell(&json!({"member": member, "message": shown}));
                if let Some(body) = holding.as_deref().filter(|body| shown["body"] == **body) {
                    hold::wait(body);
                }
            }
            messages.iter().all(|message| message.reconsume_times() >= failures)
        };
        if command.orderly {
            consumer.register_message_listener_orderly(
                move |messages: &[&MessageExt], _: &mut ConsumeOrderlyContext| -> ClientResult<ConsumeOrderlyStatus> {
                    Ok(match received(messages) {
                        true => ConsumeOrderlyStatus::Success,
                        false => ConsumeOrderlyStatus::SuspendCurrentQueueAMoment,
                    })
                },
            );
        } else {
            consumer.register_message_listener_concurrently(
                move |messages: &[&MessageExt],
                      _: &ConsumeConcurrentlyContext|
                      -> ClientResult<ConsumeConcurrentlyStatus> {
                    Ok(match received(messages) {
                        true => ConsumeConcurrentlyStatus::ConsumeSuccess,
                        false => ConsumeConcurrentlyStatus::ReconsumeLater,
                    })
                },
            );
        }
        consumer.start().await?;
        self.consumers.lock().await.insert(name, Consumer::Push(consumer));
        Ok(Value::Null)
    }

    /// Poll with a lite pull consumer until there were so many messages.
    pub async fn poll(&self, command: Command) -> Result<Value, Failure> {
        let consumer = DefaultLitePullConsumer::builder(self.runtime.clone())
            .name_server_addr(self.options.name_server.as_str())
            .instance_name(command.group.as_str())
            .consumer_group(command.group.as_str())
            .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
            .build()?;
        consumer.subscribe(command.message.topic.as_str()).await?;
        consumer.start().await?;
        let mut missing = command.count;
        while missing > 0 {
            for message in consumer.poll().await {
                tell(&json!({"member": command.group, "message": shown(&message)}));
                missing = missing.saturating_sub(1);
            }
        }
        consumer.commit_all().await?;
        self.consumers.lock().await.insert(command.group, Consumer::LitePull(consumer));
        Ok(Value::Null)
    }

    pub async fn close(&self, command: Command) -> Result<Value, Failure> {
        let member = command.member.ok_or("no member")?;
        match self.consumers.lock().await.remove(&member).ok_or("no such member")? {
            Consumer::Push(mut consumer) => consumer.shutdown().await,
            Consumer::LitePull(consumer) => consumer.shutdown().await,
        }
        Ok(Value::Null)
    }
}
