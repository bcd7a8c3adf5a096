// Drives rocketmq-clients for Go: a JSON command per line of stdin; answers and messages as lines of stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const invisible = 30 * time.Second

// After an error; a client that receives without pause is disconnected.
const pause = 200 * time.Millisecond

type object = map[string]any

type command struct {
	ID           int    `json:"id"`
	Call         string `json:"call"`
	Topic        string `json:"topic"`
	Body         string `json:"body"`
	MessageGroup string `json:"message_group"`
	Group        string `json:"group"`
	Holding      string `json:"holding"`
}

var (
	background  = context.Background()
	config      = rocketmq.Config{Credentials: &credentials.SessionCredentials{}}
	answers     = json.NewEncoder(os.Stdout)
	telling     sync.Mutex
	producer    rocketmq.Producer
	beginning   sync.Mutex
	paying      rocketmq.Producer
	transaction rocketmq.Transaction
	released    = make(chan struct{})
)

func tell(what object) {
	telling.Lock()
	defer telling.Unlock()
	must(answers.Encode(what))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func message(c command) *rocketmq.Message {
	made := &rocketmq.Message{Topic: c.Topic, Body: []byte(c.Body)}
	if c.MessageGroup != "" {
		made.SetMessageGroup(c.MessageGroup)
	}
	return made
}

// Send a message in a transaction, which remains open.
func begin(c command) error {
	beginning.Lock()
	defer beginning.Unlock()
	if paying == nil {
		made, err := rocketmq.NewProducer(&config, rocketmq.WithTopics(c.Topic),
			rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{
				Check: func(*rocketmq.MessageView) rocketmq.TransactionResolution { return rocketmq.COMMIT },
			}))
		if err == nil {
			err = made.Start()
		}
		if err != nil {
			return err
		}
		paying = made
	}
	transaction = paying.BeginTransaction()
	_, err := paying.SendWithTransaction(background, message(c), transaction)
	return err
}

func consume(c command) error {
	own := config
	own.ConsumerGroup = c.Group
	consumer, err := rocketmq.NewSimpleConsumer(&own, rocketmq.WithSimpleAwaitDuration(5*time.Second),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{c.Topic: rocketmq.SUB_ALL}))
	if err == nil {
		err = consumer.Start()
	}
	if err != nil {
		return err
	}
	go func() {
		for {
			messages, err := consumer.Receive(background, 16, invisible)
			if err != nil {
				tell(object{"problem": err.Error()})
				time.Sleep(pause)
			}
			for _, one := range messages {
				body := string(one.GetBody())
				received := object{"member": c.Group, "message": object{"body": body}}
				if body == c.Holding {
					tell(received)
					<-released
				}
				if err := consumer.Ack(background, one); err != nil {
					tell(object{"problem": err.Error()})
				} else if body != c.Holding {
					tell(received) // after the acknowledgement, as the test may move the clock then
				}
			}
		}
	}()
	return nil
}

func on(c command) error {
	switch c.Call {
	case "send":
		_, err := producer.Send(background, message(c))
		return err
	case "begin":
		return begin(c)
	case "commit":
		return transaction.Commit()
	case "send_in_transaction":
		if err := begin(c); err != nil {
			return err
		}
		return transaction.Commit()
	case "release":
		close(released)
		return nil
	case "consume":
		return consume(c)
	}
	return fmt.Errorf("no call %q", c.Call)
}

func main() {
	os.Stdout = os.Stderr // whatever the library prints is no answer
	var options struct {
		Address string `json:"address"`
	}
	must(json.Unmarshal([]byte(os.Args[1]), &options))
	config.Endpoint = options.Address
	made, err := rocketmq.NewProducer(&config, rocketmq.WithTopics("orders"))
	must(err)
	must(made.Start())
	producer = made
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		must(json.Unmarshal(lines.Bytes(), &c))
		go func() {
			if err := on(c); err != nil {
				tell(object{"id": c.ID, "error": err.Error()})
			} else {
				tell(object{"id": c.ID, "result": object{"status": "OK"}})
			}
		}()
	}
}
