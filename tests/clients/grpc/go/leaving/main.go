// Closes the client for Go while it receives; receives nothing until stdin ends; closes it while it sends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	sends   = 40
	longest = 60 * time.Second
)

var sent, empty = os.Args[2], os.Args[3]

func config(group string) *rocketmq.Config {
	return &rocketmq.Config{
		Endpoint: os.Args[1], ConsumerGroup: group, Credentials: &credentials.SessionCredentials{},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func closeWhileSending() {
	producer, err := rocketmq.NewProducer(config(""), rocketmq.WithTopics(sent))
	must(err)
	must(producer.Start())
	ended := make(chan error, sends)
	for range sends {
		message := &rocketmq.Message{Topic: sent, Body: []byte("closing")}
		producer.SendAsync(context.Background(), message,
			func(_ context.Context, _ []*rocketmq.SendReceipt, err error) { ended <- err })
	}
	must(producer.GracefulStop())
	ok, failed, end := 0, 0, time.After(longest)
	for late := false; !late && ok+failed < sends; {
		select {
		case err := <-ended:
			if err == nil {
				ok++
			} else {
				failed++
			}
		case <-end:
			late = true
		}
	}
	fmt.Println("sends", ok, failed, sends-ok-failed)
}

func consumer(group string) rocketmq.SimpleConsumer {
	simple, err := rocketmq.NewSimpleConsumer(config(group),
		rocketmq.WithSimpleAwaitDuration(5*time.Second),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{empty: rocketmq.SUB_ALL}))
	must(err)
	must(simple.Start())
	return simple
}

func closeWhileReceiving() {
	simple := consumer("g-closing")
	ended := make(chan string, 1)
	go func() {
		messages, err := simple.Receive(context.Background(), 1, 30*time.Second)
		if status, is := rocketmq.AsErrRpcStatus(err); is {
			ended <- fmt.Sprint("code ", status.Code) // the client says by an error that nothing came
		} else {
			ended <- fmt.Sprint(len(messages), " messages, ", err)
		}
	}()
	time.Sleep(time.Second) // until it waits
	must(simple.GracefulStop())
	select {
	case outcome := <-ended:
		fmt.Println("receive", outcome)
	case <-time.After(longest):
		fmt.Println("receive open")
	}
}

func main() {
	closeWhileReceiving()
	simple := consumer("g-idle")
	go func() {
		for {
			_, _ = simple.Receive(context.Background(), 1, 30*time.Second)
		}
	}()
	fmt.Println("idle")
	_, _ = io.ReadAll(os.Stdin)
	closeWhileSending()
	os.Exit(0)
}
