// Drives Apache's Go client: a JSON command per line of stdin; answers, and what consumers receive, as lines
// of stdout. Its argument are the options, as JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type outgoing struct {
	Topic       string            `json:"topic"`
	Body        string            `json:"body"`
	Tag         string            `json:"tag"`
	Keys        []string          `json:"keys"`
	DelayLevel  int               `json:"delay_level"`
	ShardingKey string            `json:"sharding_key"`
	Properties  map[string]string `json:"properties"`
}

type command struct {
	outgoing
	ID           int        `json:"id"`
	Call         string     `json:"call"`
	Messages     []outgoing `json:"messages"`
	Group        string     `json:"group"`
	Tags         string     `json:"tags"`
	SQL          string     `json:"sql"`
	Failures     int32      `json:"failures"`
	Orderly      bool       `json:"orderly"`
	Broadcasting bool       `json:"broadcasting"`
	Member       string     `json:"member"`
	Threads      int        `json:"threads"` // one keeps the order of messages
	Holding      string     `json:"holding"` // the body of a message to work on until it is released
	Retries      *int       `json:"retries"` // of sends, instead of the default
}

type options struct {
	NameServer string `json:"name_server"`
	Discovery  string `json:"discovery"` // a URL that tells it instead
	Namespace  string `json:"namespace"`
	AccessKey  string `json:"access_key"`
	Secret     string `json:"secret"`
	Token      string `json:"token"`
}

type object = map[string]any

type driver struct {
	options    options
	resolver   primitive.NsResolver
	producer   rocketmq.Producer
	sharding   rocketmq.Producer // chooses queues by the sharding key
	retrying   sync.Map          // producers by their number of retries
	held       sync.Map          // channels by bodies, closed when a body is released
	consumers  sync.Map
	deciding   map[string]rocketmq.TransactionProducer // by group
	telling    sync.Mutex
	answers    *json.Encoder
	background context.Context
}

func main() {
	d := &driver{
		answers: json.NewEncoder(os.Stdout), background: context.Background(),
		deciding: map[string]rocketmq.TransactionProducer{},
	}
	must(json.Unmarshal([]byte(os.Args[1]), &d.options))
	if d.options.Discovery == "" {
		d.resolver = primitive.NewPassthroughResolver([]string{d.options.NameServer})
	} else {
		d.resolver = primitive.NewHttpResolver("DEFAULT", d.options.Discovery)
	}
	os.Stdout = os.Stderr // whatever the library prints is no answer
	d.producer = d.started("GID_go")
	d.sharding = d.started("GID_go_sharding", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c command
		must(json.Unmarshal(lines.Bytes(), &c))
		go func() {
			result, err := d.on(c)
			if err != nil {
				d.tell(object{"id": c.ID, "error": err.Error()})
			} else {
				d.tell(object{"id": c.ID, "result": result})
			}
		}()
	}
}

func (d *driver) started(group string, options ...producer.Option) rocketmq.Producer {
	// A reply goes to whoever told last of this name and address, so no other process may have it.
	instance := fmt.Sprintf("%s#%d", group, os.Getpid())
	made, err := rocketmq.NewProducer(append(options,
		producer.WithNsResolver(d.resolver), producer.WithGroupName(group), producer.WithInstanceName(instance),
		producer.WithNamespace(d.options.Namespace), producer.WithCredentials(d.credentials()))...)
	must(err)
	must(made.Start())
	return made
}

func (d *driver) producerOf(c command) rocketmq.Producer {
	if c.Retries == nil {
		return d.producer
	}
	made, known := d.retrying.Load(*c.Retries)
	if !known {
		made = d.started(fmt.Sprintf("GID_go_%d", *c.Retries), producer.WithRetry(*c.Retries))
		d.retrying.Store(*c.Retries, made)
	}
	return made.(rocketmq.Producer)
}

// Wait for this channel while the application works on a message with this body.
func (d *driver) until(body string) chan struct{} {
	found, _ := d.held.LoadOrStore(body, make(chan struct{}))
	return found.(chan struct{})
}

func (d *driver) credentials() primitive.Credentials {
	return primitive.Credentials{
		AccessKey: d.options.AccessKey, SecretKey: d.options.Secret, SecurityToken: d.options.Token,
	}
}

func (d *driver) on(c command) (any, error) {
	switch c.Call {
	case "send":
		return sent(d.producerOf(c).SendSync(d.background, made(c.outgoing)))
	case "send_async":
		return d.sendAsync(made(c.outgoing))
	case "send_oneway":
		return nil, d.producer.SendOneWay(d.background, made(c.outgoing))
	case "send_orderly":
		return sent(d.sharding.SendSync(d.background, made(c.outgoing)))
	case "send_batch":
		messages := make([]*primitive.Message, len(c.Messages))
		for i, given := range c.Messages {
			messages[i] = made(given)
		}
		return sent(d.producer.SendSync(d.background, messages...))
	case "send_in_transaction":
		return d.sendInTransaction(c.Group, made(c.outgoing))
	case "consume":
		return nil, d.consume(c)
	case "release":
		close(d.until(c.Body))
		return nil, nil
	case "request":
		return d.request(made(c.outgoing))
	case "request_async":
		return d.requestAsync(made(c.outgoing))
	case "reply":
		return nil, d.reply(c)
	case "trace":
		return d.trace(c)
	case "close":
		closed, _ := d.consumers.LoadAndDelete(c.Member)
		return nil, closed.(rocketmq.PushConsumer).Shutdown()
	}
	return nil, fmt.Errorf("no call %q", c.Call)
}

func (d *driver) sendAsync(message *primitive.Message) (any, error) {
	type outcome struct {
		result *primitive.SendResult
		err    error
	}
	done := make(chan outcome, 1)
	called := func(_ context.Context, result *primitive.SendResult, err error) { done <- outcome{result, err} }
	if err := d.producer.SendAsync(d.background, called, message); err != nil {
		return nil, err
	}
	got := <-done
	return sent(got.result, got.err)
}

func (d *driver) consume(c command) error {
	name := c.Group
	if c.Member != "" {
		name = c.Member
	}
	options := []consumer.Option{
		consumer.WithNsResolver(d.resolver), consumer.WithGroupName(c.Group), consumer.WithInstance(name),
		consumer.WithConsumerOrder(c.Orderly), consumer.WithNamespace(d.options.Namespace),
		consumer.WithCredentials(d.credentials()),
	}
	if c.Broadcasting {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting),
			consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	}
	if c.Threads != 0 {
		options = append(options, consumer.WithConsumeGoroutineNums(c.Threads))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{}
	if c.Tags != "" {
		selector = consumer.MessageSelector{Type: consumer.TAG, Expression: c.Tags}
	}
	if c.SQL != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: c.SQL}
	}
	err = made.Subscribe(c.Topic, selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			message := messages[0] // the default is one at a time
			d.tell(object{"member": name, "message": shown(message)})
			if c.Holding != "" && string(message.Body) == c.Holding {
				<-d.until(c.Holding)
			}
			switch {
			case message.ReconsumeTimes >= c.Failures:
				return consumer.ConsumeSuccess, nil
			case c.Orderly:
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			return consumer.ConsumeRetryLater, nil
		})
	if err != nil {
		return err
	}
	d.consumers.Store(name, made)
	return made.Start()
}

func (d *driver) tell(what object) {
	d.telling.Lock()
	defer d.telling.Unlock()
	must(d.answers.Encode(what))
}

func made(given outgoing) *primitive.Message {
	message := primitive.NewMessage(given.Topic, []byte(given.Body))
	if given.Tag != "" {
		message.WithTag(given.Tag)
	}
	if len(given.Keys) != 0 {
		message.WithKeys(given.Keys)
	}
	if given.DelayLevel != 0 {
		message.WithDelayTimeLevel(given.DelayLevel)
	}
	if given.ShardingKey != "" {
		message.WithShardingKey(given.ShardingKey)
	}
	for name, text := range given.Properties {
		message.WithProperty(name, text)
	}
	return message
}

func sent(result *primitive.SendResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return object{
		"is_ok":             result.Status == primitive.SendOK,
		"status":            fmt.Sprint(result.Status),
		"message_id":        result.MsgID,
		"offset_message_id": result.OffsetMsgID,
		"queue_id":          result.MessageQueue.QueueId,
		"queue_offset":      result.QueueOffset,
	}, nil
}

func shown(message *primitive.MessageExt) object {
	return object{
		"topic":        message.Topic,
		"body":         string(message.Body),
		"tag":          message.GetTags(),
		"keys":         message.GetKeys(),
		"message_id":   message.MsgId,
		"queue_id":     message.Queue.QueueId,
		"queue_offset": message.QueueOffset,
		"times":        message.ReconsumeTimes,
		"properties":   message.GetProperties(),
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
