// What an application does with the client for Go, against host:port: prints each step that worked.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	longest  = 60 * time.Second
	patience = 30 * time.Second // for an answer; its own three seconds are short for a busy machine
)

var config = rocketmq.Config{
	Endpoint:    os.Args[1],
	Credentials: &credentials.SessionCredentials{AccessKey: "shop", AccessSecret: "secret"},
}

type client interface {
	Start() error
	GracefulStop() error
}

var started []client

func patient[T any](made T) T {
	any(made).(interface{ SetRequestTimeout(time.Duration) }).SetRequestTimeout(patience)
	return made
}

func start[T client](made T, err error) T {
	must(err)
	patient(made)
	must(made.Start())
	started = append(started, made)
	return made
}

func produce(topic string, options ...rocketmq.ProducerOption) rocketmq.Producer {
	return start(rocketmq.NewProducer(&config, append(options, rocketmq.WithTopics(topic))...))
}

func consume(group, topic string, expression *rocketmq.FilterExpression) rocketmq.SimpleConsumer {
	own := config
	own.ConsumerGroup = group
	return start(rocketmq.NewSimpleConsumer(&own,
		rocketmq.WithSimpleAwaitDuration(2*time.Second),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: expression})))
}

type attempt struct {
	body   string
	number int32
}

type listener struct {
	mutex sync.Mutex
	seen  []attempt
}

func listen(group, topic string, fails func(attempt) bool) *listener {
	own, made := config, &listener{}
	own.ConsumerGroup = group
	consumer, err := rocketmq.NewPushConsumer(&own,
		rocketmq.WithPushAwaitDuration(5*time.Second),
		rocketmq.WithPushSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: rocketmq.SUB_ALL}),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{
			Consume: func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
				got := attempt{string(message.GetBody()), message.GetDeliveryAttempt()}
				made.mutex.Lock()
				defer made.mutex.Unlock()
				made.seen = append(made.seen, got)
				if fails(got) {
					return rocketmq.FAILURE
				}
				return rocketmq.SUCCESS
			},
		}))
	must(err)
	must(patient(consumer).Start()) // not to be stopped: it would wait for a minute
	return made
}

func (made *listener) wait(count int) []attempt {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		made.mutex.Lock()
		seen := append([]attempt{}, made.seen...)
		made.mutex.Unlock()
		if len(seen) >= count {
			return seen
		}
	}
	panic(fmt.Sprint("of ", count, " came ", made.seen))
}

func message(topic, body string) *rocketmq.Message {
	return &rocketmq.Message{Topic: topic, Body: []byte(body)}
}

func send(producer rocketmq.Producer, message *rocketmq.Message) *rocketmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), message)
	must(err)
	return receipts[0]
}

// What came by one call; the client says that nothing came by an error.
func receive(simple rocketmq.SimpleConsumer) []*rocketmq.MessageView {
	for end := time.Now().Add(longest); time.Now().Before(end); {
		if some, err := simple.Receive(context.Background(), 32, 15*time.Second); err == nil && len(some) > 0 {
			return some
		}
	}
	panic("nothing came")
}

func take(simple rocketmq.SimpleConsumer, count int) []*rocketmq.MessageView {
	var taken []*rocketmq.MessageView
	for len(taken) < count {
		for _, one := range receive(simple) {
			must(simple.Ack(context.Background(), one))
			taken = append(taken, one)
		}
	}
	return taken
}

func bodies(messages []*rocketmq.MessageView) []string {
	var found []string
	for _, one := range messages {
		found = append(found, string(one.GetBody()))
	}
	sort.Strings(found)
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%v, not %v", found, wanted))
	}
}

func ok(step string) {
	fmt.Println("ok " + step)
}

func main() {
	producer := produce("plain")
	hello := message("plain", "hello")
	hello.SetTag("A")
	hello.SetKeys("k")
	hello.AddProperty("colour", "red")
	receipt := send(producer, hello)
	simple := consume("g-plain", "plain", rocketmq.SUB_ALL)
	got := take(simple, 1)[0]
	equal([]any{string(got.GetBody()), got.GetMessageId(), *got.GetTag()}, []any{"hello", receipt.MessageID, "A"})
	equal([]any{got.GetDeliveryAttempt(), got.GetProperties()["colour"]}, []any{int32(1), "red"})
	fmt.Println("id " + receipt.MessageID)
	ok("normal")

	got = take(consume("g-json", "json", rocketmq.SUB_ALL), 1)[0]
	equal([]any{string(got.GetBody()), *got.GetTag(), got.GetKeys()}, []any{"by JSON", "A", []string{"k"}})
	ok("json")

	sent := make(chan error)
	producer.SendAsync(context.Background(), message("plain", "later"),
		func(_ context.Context, _ []*rocketmq.SendReceipt, err error) { sent <- err })
	must(<-sent)
	equal(bodies(take(simple, 1)), []string{"later"})
	ok("async")

	for number := range 3 {
		one := message("batch", fmt.Sprint(number))
		one.SetMessageGroup("one")
		send(producer, one)
	}
	several := consume("g-batch", "batch", rocketmq.SUB_ALL)
	batch := receive(several)
	equal(bodies(batch), []string{"0", "1", "2"})
	for _, one := range batch {
		must(several.Ack(context.Background(), one))
	}
	ok("batch")

	large := strings.Repeat("x", 2<<20-1_000) // requests of 2 MiB are the most that it sends
	send(producer, message("large", large))
	equal(bodies(take(consume("g-large", "large", rocketmq.SUB_ALL), 1)), []string{large})
	ok("large")

	due := time.Now().Add(2 * time.Second)
	delayed := message("plain", "delayed")
	delayed.SetDelayTimestamp(due)
	send(producer, delayed)
	equal(bodies(take(simple, 1)), []string{"delayed"})
	equal(time.Now().Before(due.Truncate(time.Millisecond)), false)
	ok("delay")

	recalled := message("plain", "recalled")
	recalled.SetDelayTimestamp(time.Now().Add(30 * time.Second))
	_, err := producer.Recall(context.Background(), "plain", send(producer, recalled).RecallHandle)
	must(err)
	ok("recall")

	send(producer, message("plain", "longer"))
	must(simple.ChangeInvisibleDuration(receive(simple)[0], time.Second))
	again := take(simple, 1)[0]
	equal([]any{string(again.GetBody()), again.GetDeliveryAttempt()}, []any{"longer", int32(2)})
	ok("change")

	tagged := consume("g-tag", "filtered", rocketmq.NewFilterExpression("B"))
	for _, tag := range []string{"A", "B", "C"} {
		one := message("filtered", tag)
		one.SetTag(tag)
		send(producer, one)
	}
	equal(bodies(take(tagged, 1)), []string{"B"})
	ok("filter")

	dear := consume("g-sql", "priced", rocketmq.NewFilterExpressionWithType("price > 10", rocketmq.SQL92))
	for _, price := range []string{"9", "11"} {
		one := message("priced", price)
		one.AddProperty("price", price)
		send(producer, one)
	}
	equal(bodies(take(dear, 1)), []string{"11"})
	ok("sql")

	for number := range 5 {
		one := message("fifo", fmt.Sprint(number))
		one.SetMessageGroup("one")
		send(producer, one)
	}
	// A failure would not hold up the rest of its batch: the client goes on while it waits for the retry.
	inOrder := listen("g-fifo", "fifo", func(attempt) bool { return false })
	equal(inOrder.wait(5), []attempt{{"0", 1}, {"1", 1}, {"2", 1}, {"3", 1}, {"4", 1}})
	ok("fifo")

	for _, priority := range []int32{1, 9, 5} {
		one := message("alarms", fmt.Sprint(priority))
		must(one.SetPriority(priority))
		send(producer, one)
	}
	var alarms []string
	for _, one := range take(consume("g-alarms", "alarms", rocketmq.SUB_ALL), 3) {
		alarms = append(alarms, string(one.GetBody()))
	}
	equal(alarms, []string{"9", "5", "1"})
	ok("priority")

	retrying := listen("g-retry", "retried", func(got attempt) bool { return got.body == "bad" })
	send(producer, message("retried", "bad"))
	equal(retrying.wait(2), []attempt{{"bad", 1}, {"bad", 2}})
	equal(bodies(take(consume("g-dead", "%DLQ%g-retry", rocketmq.SUB_ALL), 1)), []string{"bad"})
	ok("dead letter")

	transactional := produce("paid", rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{
		Check: func(half *rocketmq.MessageView) rocketmq.TransactionResolution {
			if string(half.GetBody()) == "forgotten" {
				return rocketmq.COMMIT
			}
			return rocketmq.UNKNOWN // on a slow machine the others are asked about, too
		},
	}))
	paid := consume("g-paid", "paid", rocketmq.SUB_ALL)
	for _, text := range []string{"committed", "rolled back", "forgotten"} {
		transaction := transactional.BeginTransaction()
		_, err := transactional.SendWithTransaction(context.Background(), message("paid", text), transaction)
		must(err)
		switch text {
		case "committed":
			must(transaction.Commit())
		case "rolled back":
			must(transaction.RollBack())
		}
	}
	equal(bodies(take(paid, 2)), []string{"committed", "forgotten"})
	ok("transaction")

	config.NameSpace = "tenant"
	send(produce("spaced"), message("spaced", "inside"))
	equal(bodies(take(consume("g-spaced", "spaced", rocketmq.SUB_ALL), 1)), []string{"inside"})
	config.NameSpace = ""
	ok("namespace")

	config.Credentials = &credentials.SessionCredentials{AccessKey: "shop", AccessSecret: "wrong"}
	stranger, err := rocketmq.NewProducer(&config, rocketmq.WithTopics("plain"))
	must(err)
	if stranger.Start() != nil {
		ok("keys")
	}

	for _, each := range started {
		must(each.GracefulStop())
	}
	ok("shutdown")
}
