package mocketmqtest

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// AtLeastOne is a count for Expect.
const AtLeastOne = -1

// Stage is how far a message has come: Sent, Delivered, Acknowledged or Dead.
type Stage struct{ name, group string }

var (
	// Sent: a producer has sent the message, delayed or not.
	Sent = Stage{name: "sent"}
	// Delivered: the message is visible to consumers, after its due time if it is delayed.
	Delivered = Stage{name: "delivered"}
)

// Acknowledged: the group has acknowledged (consumed) the message.
func Acknowledged(group string) Stage { return Stage{"acknowledged", group} }

// Dead: the message is a dead letter of the group, or of any group if that is empty.
func Dead(group string) Stage { return Stage{"dead", group} }

// With has the options of a message to send. At most one of DelayLevel, Delay and DeliverAt is set.
type With struct {
	Tag        string
	Keys       []string
	Properties map[string]string
	DelayLevel int
	// Delay is in whole milliseconds, on the broker's clock.
	Delay time.Duration
	// DeliverAt is by the wall clock, even if the broker's clock was moved.
	DeliverAt time.Time
}

func (w With) into(message map[string]any) {
	if w.Tag != "" {
		message["tag"] = w.Tag
	}
	if w.Keys != nil {
		message["keys"] = w.Keys
	}
	if w.Properties != nil {
		message["properties"] = w.Properties
	}
	if w.DelayLevel != 0 {
		message["delay_level"] = w.DelayLevel
	}
	if w.Delay != 0 {
		message["delay_ms"] = w.Delay.Milliseconds()
	}
	if !w.DeliverAt.IsZero() {
		message["start_deliver_ms"] = w.DeliverAt.UnixMilli()
	}
}

// Like has conditions for messages; all conditions that are set must hold.
type Like struct {
	Tag string
	// Key is one of the message's keys.
	Key       string
	MessageID string
	// Properties are some of the message's.
	Properties map[string]string
	// Body is a string, a []byte, or a value that the parsed JSON body equals.
	Body any
	// JSONPath maps paths such as $.order.lines[0].sku to the values there.
	JSONPath map[string]any
	// Delayed and NotDelayed say whether the message was delayed.
	Delayed, NotDelayed bool
	DelayLevel          int
	// Within is the real time that Await and Expect wait, instead of five seconds.
	Within time.Duration
	// Advance moves the clock while waiting, by this much at most, in whole milliseconds: to each instant that
	// the messages wait for, such as their due times and retries.
	Advance time.Duration
}

func conditions(given []Like) map[string]any {
	like := map[string]any{}
	if len(given) == 0 {
		return like
	}
	for name, text := range map[string]string{
		"tag": given[0].Tag, "key": given[0].Key, "message_id": given[0].MessageID,
	} {
		if text != "" {
			like[name] = text
		}
	}
	if given[0].Properties != nil {
		like["properties"] = given[0].Properties
	}
	if given[0].JSONPath != nil {
		like["json_path"] = given[0].JSONPath
	}
	if bytes, is := given[0].Body.([]byte); is {
		like["body_base64"] = base64.StdEncoding.EncodeToString(bytes)
	} else if given[0].Body != nil {
		like["body"] = given[0].Body
	}
	if given[0].Delayed || given[0].NotDelayed {
		like["delayed"] = given[0].Delayed
	}
	if given[0].DelayLevel != 0 {
		like["delay_level"] = given[0].DelayLevel
	}
	return like
}

// Message is a sent message with its outcome.
type Message struct {
	MessageID  string
	Topic      string
	QueueID    int
	Tag        string
	Keys       []string
	Properties map[string]string
	Body       string
	Sent       time.Time
	DelayLevel int
	// Due is zero if the message was not delayed.
	Due time.Time
	// State is pending, delivered or cancelled.
	State string
	// Delivered is when the message became visible to consumers, or zero.
	Delivered time.Time
	Groups    []AtGroup
	// Text is a summary in one line.
	Text string
}

// AtGroup is a message's state in a consumer group.
type AtGroup struct {
	Group string `json:"group"`
	State string `json:"state"`
	// Times is how often a consumer of the group received the message.
	Times int `json:"times"`
}

// UnmarshalJSON reads a message of the JSON API.
func (m *Message) UnmarshalJSON(content []byte) error {
	var found struct {
		MessageID   string            `json:"message_id"`
		Topic       string            `json:"topic"`
		QueueID     int               `json:"queue_id"`
		Tag         string            `json:"tag"`
		Keys        []string          `json:"keys"`
		Properties  map[string]string `json:"properties"`
		Body        *string           `json:"body"`
		BodyBase64  []byte            `json:"body_base64"`
		SentMS      int64             `json:"sent_ms"`
		DelayLevel  int               `json:"delay_level"`
		DueMS       *int64            `json:"due_ms"`
		State       string            `json:"state"`
		DeliveredMS *int64            `json:"delivered_ms"`
		Groups      []AtGroup         `json:"groups"`
		Text        string            `json:"text"`
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return err
	}
	body := string(found.BodyBase64)
	if found.Body != nil {
		body = *found.Body
	}
	*m = Message{
		found.MessageID, found.Topic, found.QueueID, found.Tag, found.Keys, found.Properties, body,
		instant(&found.SentMS), found.DelayLevel, instant(found.DueMS), found.State,
		instant(found.DeliveredMS), found.Groups, found.Text,
	}
	return nil
}

func instant(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}
