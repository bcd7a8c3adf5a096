package shop

import (
	"testing"
	"time"

	"github.com/mocketmq/mocketmq/kits/go/mocketmqtest"
)

func TestAnUnpaidOrderIsCancelledAfterHalfAnHour(t *testing.T) {
	mq := mocketmqtest.Start(t)
	mq.Send("orders", "order 7", mocketmqtest.With{DelayLevel: 16})
	mq.Advance(29 * time.Minute)
	mq.Expect("orders", mocketmqtest.Delivered, 0)
	mq.Advance(time.Minute)
	mq.Expect("orders", mocketmqtest.Delivered, 1)
}
