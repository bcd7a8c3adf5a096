//! Drives the client for Rust: a JSON command per line of stdin; answers and messages as lines of stdout.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{oneshot, Mutex, Notify};

const INVISIBLE: Duration = Duration::from_secs(30);
/// After an error; a client that receives without pause is disconnected.
const PAUSE: Duration = Duration::from_millis(200);

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), String>;

struct Driver {
    address: String,
    producer: Producer,
    paying: Mutex<Option<Producer>>,
    /// Asks the transaction that `begin` left open to commit.
    open: Mutex<Option<oneshot::Sender<oneshot::Sender<Outcome>>>>,
    released: Notify,
}

fn option(address: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(address);
    option.set_enable_tls(false);
    option
}

fn producing(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

fn tell(what: &Value) {
    let mut answers = std::io::stdout().lock();
    writeln!(answers, "{what}").and_then(|()| answers.flush()).expect("stdout is open");
}

fn text<'a>(command: &'a Value, name: &str) -> &'a str {
    command[name].as_str().unwrap_or_default()
}

impl Driver {
    async fn on(self: &Arc<Self>, command: &Value) -> Result<(), Failure> {
        match text(command, "call") {
            "send" => self.send(command).await,
            "begin" => self.begin(command).await,
            "commit" => self.commit().await,
            "send_in_transaction" => {
                self.begin(command).await?;
                self.commit().await
            }
            "release" => {
                self.released.notify_one();
                Ok(())
            }
            "consume" => self.consume(command).await,
            call => Err(format!("no call {call:?}").into()),
        }
    }

    async fn send(&self, command: &Value) -> Result<(), Failure> {
        let (topic, body) = (text(command, "topic"), text(command, "body").as_bytes().to_vec());
        let message = match command["message_group"].as_str() {
            Some(group) => MessageBuilder::fifo_message_builder(topic, body, group),
            None => MessageBuilder::builder().set_topic(topic).set_body(body),
        };
        self.producer.send(message.build()?).await?;
        Ok(())
    }

    /// Send a message in a transaction, which remains open.
    async fn begin(&self, command: &Value) -> Result<(), Failure> {
        let topic = text(command, "topic");
        let mut paying = self.paying.lock().await;
        if paying.is_none() {
            let checker = Box::new(|_, _| TransactionResolution::COMMIT);
            let mut made = Producer::new_transaction_producer(producing(topic), option(&self.address), checker)?;
            made.start().await?;
            *paying = Some(made);
        }
        let producer = paying.as_ref().ok_or("no producer")?;
        let body = text(command, "body").as_bytes().to_vec();
        let half = MessageBuilder::transaction_message_builder(topic, body).build()?;
        let transaction = producer.send_transaction_message(half).await?;
        let (ask, asked) = oneshot::channel::<oneshot::Sender<Outcome>>();
        *self.open.lock().await = Some(ask);
        tokio::spawn(async move {
            if let Ok(answer) = asked.await {
                let _ = answer.send(transaction.commit().await.map_err(|error| error.to_string()));
            }
        });
        Ok(())
    }

    async fn commit(&self) -> Result<(), Failure> {
        let ask = self.open.lock().await.take().ok_or("no open transaction")?;
        let (answer, answered) = oneshot::channel();
        ask.send(answer).map_err(|_| "the transaction is gone")?;
        Ok(answered.await??)
    }

    async fn consume(self: &Arc<Self>, command: &Value) -> Result<(), Failure> {
        let (topic, group) = (text(command, "topic").to_string(), text(command, "group").to_string());
        let holding = command["holding"].as_str().map(str::to_string);
        let mut wanted = SimpleConsumerOption::default();
        wanted.set_topics(vec![topic.as_str()]);
        wanted.set_consumer_group(group.as_str());
        let mut consumer = SimpleConsumer::new(wanted, option(&self.address))?;
        consumer.start().await?;
        let driver = self.clone();
        tokio::spawn(async move { driver.receive(&consumer, &topic, &group, holding).await });
        Ok(())
    }

    async fn receive(&self, consumer: &SimpleConsumer, topic: &str, group: &str, holding: Option<String>) {
        let all = FilterExpression::new(FilterType::Tag, "*");
        loop {
            let messages = match consumer.receive_with(topic, &all, 16, INVISIBLE).await {
                Ok(messages) => messages,
                Err(error) => {
                    tell(&json!({"problem": error.to_string()}));
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            for message in messages {
                let body = String::from_utf8_lossy(message.body()).into_owned();
                let received = json!({"member": group, "message": {"body": body}});
                let is_held = holding.as_ref() == Some(&body);
                if is_held {
                    tell(&received);
                    self.released.notified().await;
                    self.released.notify_one(); // another consumer may hold a message, too
                }
                if let Err(error) = consumer.ack(&message).await {
                    tell(&json!({"problem": error.to_string()}));
                } else if !is_held {
                    tell(&received); // after the acknowledgement, as the test may move the clock then
                }
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options: Value = serde_json::from_str(&std::env::args().nth(1).ok_or("no options")?)?;
    let address = text(&options, "address").to_string();
    let mut producer = Producer::new(producing("orders"), option(&address))?;
    producer.start().await?;
    let driver = Arc::new(Driver {
        address,
        producer,
        paying: Mutex::default(),
        open: Mutex::default(),
        released: Notify::new(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let command: Value = serde_json::from_str(&line)?;
        let driver = driver.clone();
        tokio::spawn(async move {
            let id = &command["id"];
            tell(&match driver.on(&command).await {
                Ok(()) => json!({"id": id, "result": {"status": "OK"}}),
                Err(error) => json!({"id": id, "error": error.to_string()}),
            });
        });
    }
    Ok(())
}
