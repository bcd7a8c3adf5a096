// A push consumer that prints what it receives, and closes at the first byte of its input.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func main() {
	config := rocketmq.Config{
		Endpoint:      os.Args[1],
		Credentials:   &credentials.SessionCredentials{},
		ConsumerGroup: "g-closing",
	}
	consumer, err := rocketmq.NewPushConsumer(&config,
		rocketmq.WithPushAwaitDuration(20*time.Second),
		rocketmq.WithPushSubscriptionExpressions(map[string]*rocketmq.FilterExpression{"orders": rocketmq.SUB_ALL}),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{
			Consume: func(*rocketmq.MessageView) rocketmq.ConsumerResult {
				fmt.Println("received")
				return rocketmq.SUCCESS
			},
		}))
	must(err)
	must(consumer.Start())
	_, err = os.Stdin.Read(make([]byte, 1))
	must(err)
	began := time.Now()
	must(consumer.GracefulStop())
	fmt.Println(time.Since(began).Milliseconds())
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
