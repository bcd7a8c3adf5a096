//! What an application does with the client for Rust, against host:port: prints each step that worked.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};

const LONGEST: Duration = Duration::from_secs(60);

fn client() -> ClientOption {
    client_with("secret")
}

fn client_with(secret: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(std::env::args().nth(1).unwrap());
    option.set_enable_tls(false);
    option.set_timeout(Duration::from_secs(30));
    option.set_access_key("shop");
    option.set_secret_key(secret);
    option
}

fn ok(step: &str) {
    println!("ok {step}");
}

async fn producer(topics: Vec<&str>) -> Producer {
    let mut option = ProducerOption::default();
    option.set_topics(topics);
    let mut made = Producer::new(option, client()).unwrap();
    made.start().await.unwrap();
    made
}

async fn consumer(group: &str, topic: &str) -> SimpleConsumer {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(group);
    let mut made = SimpleConsumer::new(option, client()).unwrap();
    made.start().await.unwrap();
    made
}

async fn receive(simple: &SimpleConsumer, topic: &str, expression: &str) -> Vec<MessageView> {
    let kind = if expression.contains(' ') { FilterType::Sql } else { FilterType::Tag };
    let filter = FilterExpression::new(kind, expression);
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        if let Ok(messages) = simple.receive(topic.to_string(), &filter).await {
            if !messages.is_empty() {
                return messages;
            }
        }
    }
    panic!("nothing came");
}

async fn take(simple: &SimpleConsumer, topic: &str, expression: &str, count: usize) -> Vec<String> {
    let mut bodies = Vec::new();
    while bodies.len() < count {
        for one in receive(simple, topic, expression).await {
            simple.ack(&one).await.unwrap();
            bodies.push(String::from_utf8(one.body().to_vec()).unwrap());
        }
    }
    bodies.sort();
    bodies
}

fn body(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn seconds_from_now(seconds: u64) -> i64 {
    (SystemTime::now() + Duration::from_secs(seconds)).duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

#[tokio::main]
async fn main() {
    let mut sender = producer(vec!["plain", "filtered", "fifo", "retried"]).await;
    let hello = MessageBuilder::builder()
        .set_topic("plain")
        .set_tag("A")
        .set_keys(vec!["k"])
        .set_properties(HashMap::from([("colour", "red")]))
        .set_body(body("hello"))
        .build()
        .unwrap();
    let receipt = sender.send(hello).await.unwrap();
    let simple = consumer("g-plain", "plain").await;
    let got = receive(&simple, "plain", "*").await;
    assert_eq!((got[0].body(), got[0].message_id()), (&b"hello"[..], receipt.message_id()));
    assert_eq!((got[0].tag(), got[0].delivery_attempt()), (Some("A"), 1));
    assert_eq!(got[0].properties()["colour"], "red");
    simple.ack(&got[0]).await.unwrap();
    println!("id {}", receipt.message_id());
    ok("normal");

    let by_json = consumer("g-json", "json").await;
    let got = receive(&by_json, "json", "*").await;
    assert_eq!((got[0].body(), got[0].tag(), got[0].keys()), (&b"by JSON"[..], Some("A"), &["k".to_string()][..]));
    by_json.ack(&got[0]).await.unwrap();
    ok("json");

    let one = |text: &str| MessageBuilder::fifo_message_builder("batch", body(text), "one").build().unwrap();
    assert_eq!(sender.batch_send(vec![one("0"), one("1"), one("2")]).await.unwrap().len(), 3);
    let several = consumer("g-batch", "batch").await;
    let got = receive(&several, "batch", "*").await;
    assert_eq!(got.iter().map(|each| each.body()).collect::<Vec<_>>(), [b"0", b"1", b"2"]);
    for each in &got {
        several.ack(each).await.unwrap();
    }
    ok("batch");

    let large = "x".repeat(4_000_000);
    sender.send(MessageBuilder::builder().set_topic("large").set_body(body(&large)).build().unwrap()).await.unwrap();
    let big = consumer("g-large", "large").await;
    assert!(take(&big, "large", "*", 1).await == [large]);
    ok("large");

    let due = seconds_from_now(2);
    sender.send(MessageBuilder::delay_message_builder("plain", body("delayed"), due).build().unwrap()).await.unwrap();
    assert_eq!(take(&simple, "plain", "*", 1).await, ["delayed"]);
    assert!(seconds_from_now(0) >= due);
    ok("delay");

    let tagged = consumer("g-tag", "filtered").await;
    for tag in ["A", "B", "C"] {
        let one = MessageBuilder::builder().set_topic("filtered").set_tag(tag).set_body(body(tag)).build().unwrap();
        sender.send(one).await.unwrap();
    }
    assert_eq!(take(&tagged, "filtered", "B", 1).await, ["B"]);
    ok("filter");

    for price in ["9", "11"] {
        let properties = HashMap::from([("price", price)]);
        let one = MessageBuilder::builder().set_topic("priced").set_properties(properties).set_body(body(price));
        sender.send(one.build().unwrap()).await.unwrap();
    }
    let dear = consumer("g-sql", "priced").await;
    assert_eq!(take(&dear, "priced", "price > 10", 1).await, ["11"]);
    ok("sql");

    for text in ["0", "1", "2", "3", "4"] {
        sender.send(MessageBuilder::fifo_message_builder("fifo", body(text), "one").build().unwrap()).await.unwrap();
    }
    let fifo = consumer("g-fifo", "fifo").await;
    assert_eq!(take(&fifo, "fifo", "*", 5).await, ["0", "1", "2", "3", "4"]);
    ok("fifo");

    let mut option = ProducerOption::default();
    option.set_topics(vec!["paid"]);
    let checker = Box::new(|_, half: MessageView| match half.body() {
        b"forgotten" => TransactionResolution::COMMIT,
        _ => TransactionResolution::UNKNOWN, // on a slow machine the others are asked about, too
    });
    let mut transactional = Producer::new_transaction_producer(option, client(), checker).unwrap();
    transactional.start().await.unwrap();
    let paid = consumer("g-paid", "paid").await;
    for text in ["committed", "rolled back", "forgotten"] {
        let half = MessageBuilder::transaction_message_builder("paid", body(text)).build().unwrap();
        let transaction = transactional.send_transaction_message(half).await.unwrap();
        match text {
            "committed" => transaction.commit().await.unwrap(),
            "rolled back" => transaction.rollback().await.unwrap(),
            _ => drop(transaction),
        }
    }
    assert_eq!(take(&paid, "paid", "*", 2).await, ["committed", "forgotten"]);
    ok("transaction");

    let mut option = ProducerOption::default();
    option.set_topics(vec!["plain"]);
    assert!(Producer::new(option, client_with("wrong")).unwrap().start().await.is_err());
    ok("keys");

    for each in [simple, by_json, several, big, tagged, dear, fifo, paid] {
        each.shutdown().await.unwrap();
    }
    sender.shutdown().await.unwrap();
    transactional.shutdown().await.unwrap();
    ok("shutdown");
}
