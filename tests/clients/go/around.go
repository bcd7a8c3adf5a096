package main

import (
	"context"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const replyWithin = 200 * time.Second

func (d *driver) request(message *primitive.Message) (any, error) {
	reply, err := d.producer.Request(d.background, replyWithin, message)
	if err != nil {
		return nil, err
	}
	return object{"topic": reply.Topic, "body": string(reply.Body), "properties": reply.GetProperties()}, nil
}

func (d *driver) requestAsync(message *primitive.Message) (any, error) {
	type outcome struct {
		reply *primitive.Message
		err   error
	}
	done := make(chan outcome, 1)
	called := func(_ context.Context, reply *primitive.Message, err error) { done <- outcome{reply, err} }
	if err := d.producer.RequestAsync(d.background, replyWithin, called, message); err != nil {
		return nil, err
	}
	got := <-done
	if got.err != nil {
		return nil, got.err
	}
	return string(got.reply.Body), nil
}

// Consume a topic, and reply to everything with what was asked.
func (d *driver) reply(c command) error {
	return d.listen(c, func(message *primitive.MessageExt) error {
		reply, err := consumer.CreateReplyMessage(message, message.Body)
		if err != nil {
			return err
		}
		reply.Body = message.Body // of which this version of the library makes nothing
		_, err = d.producer.SendSync(d.background, reply)
		return err
	})
}

func (d *driver) listen(c command, on func(*primitive.MessageExt) error, more ...consumer.Option) error {
	made, err := rocketmq.NewPushConsumer(append(more, consumer.WithNsResolver(d.resolver),
		consumer.WithGroupName(c.Group), consumer.WithInstance(c.Group))...)
	if err != nil {
		return err
	}
	err = made.Subscribe(c.Topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if on(messages[0]) != nil {
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	d.consumers.Store(c.Group, made)
	return made.Start()
}

// Send a message, and consume it, by a producer and a consumer that trace what they do.
func (d *driver) trace(c command) (any, error) {
	traced := &primitive.TraceConfig{Access: primitive.Local, Resolver: d.resolver}
	err := d.listen(c, func(*primitive.MessageExt) error { return nil }, consumer.WithTrace(traced))
	if err != nil {
		return nil, err
	}
	return sent(d.started(c.Group, producer.WithTrace(traced)).SendSync(d.background, made(c.outgoing)))
}
