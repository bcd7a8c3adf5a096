package main

import (
	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var states = map[string]primitive.LocalTransactionState{
	"commit":   primitive.CommitMessageState,
	"rollback": primitive.RollbackMessageState,
	"unknown":  primitive.UnknowState,
}

// A transaction producer, which says what the properties "decision" and, when it is asked, "later" say.
type deciding struct {
	driver *driver
	group  string
}

func (d deciding) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	if held := message.GetProperty("held"); held != "" {
		d.driver.tell(object{"member": d.group, "message": object{"body": held}})
		<-d.driver.until(held)
	}
	return states[message.GetProperty("decision")]
}

func (d deciding) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.driver.tell(object{"member": d.group, "message": shown(message)})
	return states[message.GetProperty("later")]
}

func (d *driver) sendInTransaction(group string, message *primitive.Message) (any, error) {
	made, known := d.deciding[group]
	if !known {
		var err error
		made, err = rocketmq.NewTransactionProducer(deciding{d, group},
			producer.WithNsResolver(d.resolver), producer.WithGroupName(group), producer.WithInstanceName(group))
		if err == nil {
			err = made.Start()
		}
		if err != nil {
			return nil, err
		}
		d.deciding[group] = made
	}
	result, err := made.SendMessageInTransaction(d.background, message)
	if err != nil {
		return nil, err
	}
	return sent(result.SendResult, nil)
}
