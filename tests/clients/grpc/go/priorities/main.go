// Sends priorities with the client for Go and receives them twice; prints their order.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	highest   = 9
	invisible = 10 * time.Second
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func send(producer rocketmq.Producer, topic string, priority int) error {
	message := &rocketmq.Message{Topic: topic, Body: []byte(strconv.Itoa(priority))}
	must(message.SetPriority(int32(priority)))
	_, err := producer.Send(context.Background(), message)
	return err
}

func receive(consumer rocketmq.SimpleConsumer, limit int32) []*rocketmq.MessageView {
	found, err := consumer.Receive(context.Background(), limit, invisible)
	var refused *rocketmq.ErrRpcStatus
	if !errors.As(err, &refused) || refused.Code != int32(v2.Code_MESSAGE_NOT_FOUND) {
		must(err)
	}
	for _, one := range found {
		fmt.Println(string(one.GetBody()), one.GetDeliveryAttempt())
	}
	return found
}

func main() {
	config := rocketmq.Config{Endpoint: os.Args[1], Credentials: &credentials.SessionCredentials{}}
	topic, other := os.Args[2], os.Args[3]
	lowest, err := strconv.Atoi(os.Args[5])
	must(err)
	producer, err := rocketmq.NewProducer(&config, rocketmq.WithTopics(topic, other))
	must(err)
	must(producer.Start())
	for priority := lowest; priority <= highest; priority++ {
		must(send(producer, topic, priority))
	}
	if err := send(producer, other, 1); err != nil {
		fmt.Println("refused", strings.Contains(err.Error(), "message type not match"))
	} else {
		fmt.Println("accepted")
	}
	own := config
	own.ConsumerGroup = os.Args[4]
	consumer, err := rocketmq.NewSimpleConsumer(&own,
		rocketmq.WithSimpleAwaitDuration(5*time.Second),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: rocketmq.SUB_ALL}))
	must(err)
	must(consumer.Start()) // not to be stopped: it would wait for its long poll
	for _, one := range receive(consumer, 4)[:2] {
		must(consumer.Ack(context.Background(), one))
	}
	fmt.Println("end")
	bufio.NewScanner(os.Stdin).Scan()
	for left := highest + 1 - lowest - 2; left > 0; {
		for _, one := range receive(consumer, 32) {
			must(consumer.Ack(context.Background(), one))
			left--
		}
	}
	fmt.Println("end")
}
