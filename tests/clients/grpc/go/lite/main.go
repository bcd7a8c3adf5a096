// Sends to lite topics and consumes them with the client for Go, as the lines of stdin say.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func say(producer rocketmq.Producer, consumer rocketmq.LitePushConsumer, topic string, words []string) string {
	var err error
	switch words[0] {
	case "subscribe":
		err = consumer.SubscribeLite(words[1])
	case "unsubscribe":
		err = consumer.UnSubscribeLite(words[1])
	default:
		message := &rocketmq.Message{Topic: topic, Body: []byte(words[2])}
		message.SetLiteTopic(words[1])
		_, err = producer.Send(context.Background(), message)
	}
	var refused *rocketmq.ErrRpcStatus
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused) && refused.Code == int32(v2.Code_LITE_SUBSCRIPTION_QUOTA_EXCEEDED):
		return "over quota"
	}
	return "refused " + err.Error()
}

func main() {
	config := rocketmq.Config{Endpoint: os.Args[1], Credentials: &credentials.SessionCredentials{}}
	topic := os.Args[2]
	producer, err := rocketmq.NewProducer(&config, rocketmq.WithTopics(topic))
	must(err)
	must(producer.Start())
	var failed sync.Map
	own := config
	own.ConsumerGroup = os.Args[3]
	consumer, err := rocketmq.NewLitePushConsumer(&own, rocketmq.NewLitePushConsumerConfig(topic, 15*time.Second),
		rocketmq.WithPushAwaitDuration(5*time.Second),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{
			Consume: func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
				body := string(message.GetBody())
				fmt.Println("got", message.GetLiteTopic(), body, message.GetDeliveryAttempt())
				if _, again := failed.LoadOrStore(message.GetMessageId(), true); body == "fails" && !again {
					return rocketmq.FAILURE
				}
				return rocketmq.SUCCESS
			},
		}))
	must(err)
	must(consumer.Start()) // not to be stopped: it would wait for its long poll
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(say(producer, consumer, topic, strings.Fields(lines.Text())))
	}
	must(producer.GracefulStop())
}
