// Sends a delayed message, moves the clock, waits, and consumes, by a generated client.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	mocketmq "example.test/generated/mocketmq"
)

func main() {
	settings := mocketmq.NewConfiguration()
	settings.Servers = mocketmq.ServerConfigurations{{URL: os.Args[1]}}
	client, background := mocketmq.NewAPIClient(settings), context.Background()

	message := mocketmq.NewMessageIn()
	message.SetBody(`{"order": {"id": 7}}`)
	message.SetDelay("30m")
	sent, _, err := client.SendingAPI.Send(background, "orders").MessageIn(*message).Execute()
	check(err)
	equal(sent.GetDueMs()-sent.StoreMs, 30*60_000)

	moved, _, err := client.ClockAPI.Advance(background).AdvanceIn(*mocketmq.NewAdvanceIn("30m")).Execute()
	check(err)
	equal(moved.Fired, 1)

	wanted := mocketmq.NewWaitIn()
	wanted.SetDelivered(1)
	wanted.SetWait("5s")
	wanted.SetJsonPath(map[string]any{"$.order.id": 7})
	waited, _, err := client.SeenAPI.Wait(background, "orders").WaitIn(*wanted).Execute()
	check(err)
	equal(waited.Reached, true)
	equal(waited.Messages[0].MessageId, sent.MessageId)

	receive := mocketmq.NewReceiveIn("orders")
	received, _, err := client.ConsumingAPI.Receive(background, "billing").ReceiveIn(*receive).Execute()
	check(err)
	receipts := []string{received.Messages[0].Receipt}
	_, _, err = client.ConsumingAPI.Acknowledge(background, "billing").AckIn(*mocketmq.NewAckIn(receipts)).Execute()
	check(err)
	leaks, _, err := client.SeenAPI.Leaks(background).Group("billing").Execute()
	check(err)
	equal(leaks.Count, 0)

	soon := mocketmq.NewAdvanceIn("soon")
	_, refused, err := client.ClockAPI.Advance(background).AdvanceIn(*soon).Execute()
	equal(refused.StatusCode, http.StatusBadRequest)
	problem := err.(*mocketmq.GenericOpenAPIError).Model().(mocketmq.Problem)
	equal(problem.GetField(), "by")
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal[T comparable](found, wanted T) {
	if found != wanted {
		panic(fmt.Sprintf("%v instead of %v", found, wanted))
	}
}
