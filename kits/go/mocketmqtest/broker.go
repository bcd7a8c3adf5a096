package mocketmqtest

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	waitWithin = 5 * time.Second
	storyLines = 40
	manyFound  = 1000
	// Largest numbers of characters that a pack takes.
	longestTest, longestFailure = 1000, 200_000
)

// Broker is a broker for one test. Made by Start.
type Broker struct {
	*server
	t testing.TB
}

// NameServer is the host:port for RocketMQ's remoting clients; of several name servers, with semicolons between.
func (b *Broker) NameServer() string { return b.nameServer }

// Endpoints is the host:port for RocketMQ 5's gRPC clients.
func (b *Broker) Endpoints() string { return b.endpoints }

// URL is where the JSON API and Aliyun's HTTP protocol are.
func (b *Broker) URL() string { return b.url }

// Reset removes messages, offsets, faults and expectations, and sets the clock back to its start. Start resets, too.
func (b *Broker) Reset() {
	b.t.Helper()
	b.check(b.reset())
}

// SaveSnapshot saves the broker's whole state under a name. A snapshot that has the name is replaced.
func (b *Broker) SaveSnapshot(name string) {
	b.t.Helper()
	b.check(b.call("POST", "/v1/snapshots", map[string]any{"name": name, "replace": true}, nil))
}

// RestoreSnapshot goes back to a snapshot. Clients stay connected.
func (b *Broker) RestoreSnapshot(name string) {
	b.t.Helper()
	b.check(b.call("POST", "/v1/snapshots/"+url.PathEscape(name)+"/restore", nil, nil))
}

// Pack writes the broker's state and recent events into a file, which `mocketmq open` shows on any machine. The
// test's name and the text of its failure may be empty. An existing file is replaced.
func (b *Broker) Pack(file, test, failure string) {
	b.t.Helper()
	name, text := []rune(test), []rune(failure)
	told := map[string]any{
		"test":    string(name[:min(len(name), longestTest)]),
		"failure": string(text[max(len(text)-longestFailure, 0):]),
	}
	var content []byte
	b.check(b.call("POST", "/v1/pack", told, &content))
	temporary := fmt.Sprintf("%s.%d.tmp", file, os.Getpid()) // a file is whole or absent, even after a kill
	b.check(os.WriteFile(temporary, content, 0o644))
	b.check(os.Rename(temporary, file))
}

// Advance moves the clock forward. On return, everything that became due is delivered.
func (b *Broker) Advance(by time.Duration) {
	b.t.Helper()
	const day = 24 * time.Hour
	text := fmt.Sprintf("%dd%dus", by/day, (by % day).Microseconds())
	b.check(b.call("POST", "/v1/clock/advance", map[string]any{"by": text}, nil))
}

// Now is the broker's time, in UTC.
func (b *Broker) Now() time.Time {
	b.t.Helper()
	var clock struct {
		NowMS int64 `json:"now_ms"`
	}
	b.check(b.call("GET", "/v1/clock", nil, &clock))
	return time.UnixMilli(clock.NowMS).UTC()
}

// Send sends a message by the JSON API, and returns its id. The body may hold any bytes.
func (b *Broker) Send(topic, body string, options ...With) string {
	b.t.Helper()
	message := map[string]any{"body_base64": base64.StdEncoding.EncodeToString([]byte(body))}
	if len(options) > 0 {
		options[0].into(message)
	}
	var sent struct {
		MessageID string `json:"message_id"`
	}
	b.check(b.call("POST", path("topics", topic, "messages"), message, &sent))
	return sent.MessageID
}

// Sent returns the newest 100 messages that producers sent to a topic, oldest first, delayed ones too.
func (b *Broker) Sent(topic string, like ...Like) []Message {
	b.t.Helper()
	var found struct {
		Messages []Message `json:"messages"`
	}
	b.check(b.call("POST", path("topics", topic, "sent"), conditions(like), &found))
	return found.Messages
}

// Await waits until at least count messages have reached a stage, and returns them.
func (b *Broker) Await(topic string, stage Stage, count int, like ...Like) []Message {
	b.t.Helper()
	return b.wait(topic, stage, count, like, map[string]any{})
}

// Expect asserts that exactly count messages, or AtLeastOne, reach a stage, and returns them. A count of 0
// does not wait.
func (b *Broker) Expect(topic string, stage Stage, count int, like ...Like) []Message {
	b.t.Helper()
	how := map[string]any{"expected": true, "exactly": count != AtLeastOne}
	if count == AtLeastOne {
		count = 1
	}
	return b.wait(topic, stage, count, like, how)
}

// ExpectNothingElse asserts that Expect has found every message that was sent.
func (b *Broker) ExpectNothingElse() {
	b.t.Helper()
	var left struct {
		Count       int    `json:"count"`
		Explanation string `json:"explanation"`
	}
	b.check(b.call("GET", "/v1/unexpected", nil, &left))
	if left.Count > 0 {
		b.t.Fatal(left.Explanation)
	}
}

func (b *Broker) wait(topic string, stage Stage, count int, like []Like, how map[string]any) []Message {
	b.t.Helper()
	within := waitWithin
	if len(like) > 0 && like[0].Within > 0 {
		within = like[0].Within
	}
	wanted := conditions(like)
	for name, value := range how {
		wanted[name] = value
	}
	wanted[stage.name], wanted["timeout_ms"], wanted["max"] = count, within.Milliseconds(), manyFound
	if stage.group != "" {
		wanted["group"] = stage.group
	}
	if len(like) > 0 && like[0].Advance > 0 {
		wanted["advance"] = fmt.Sprintf("%dms", like[0].Advance.Milliseconds())
	}
	var found struct {
		Reached     bool      `json:"reached"`
		Messages    []Message `json:"messages"`
		Explanation string    `json:"explanation"`
	}
	b.check(b.call("POST", path("topics", topic, "wait"), wanted, &found))
	if !found.Reached {
		b.t.Fatal(found.Explanation)
	}
	return found.Messages
}

// Story lists the broker's events since the reset, one per line, oldest first.
func (b *Broker) Story() string {
	var seen struct {
		Events []struct {
			AtMS int64  `json:"at_ms"`
			Text string `json:"text"`
		} `json:"events"`
	}
	if err := b.call("GET", fmt.Sprintf("/v1/events?max=%d", storyLines), nil, &seen); err != nil {
		return err.Error()
	}
	if len(seen.Events) == 0 {
		return "the broker recorded no events"
	}
	lines := make([]string, len(seen.Events))
	for i, event := range seen.Events {
		lines[i] = time.UnixMilli(event.AtMS).UTC().Format("2006-01-02 15:04:05.000 ") + event.Text
	}
	return strings.Join(lines, "\n")
}

// Call makes a request of the JSON API that has no method here. The body may be nil; the answer is decoded
// into a pointer, which may be nil. A refusal by the broker is a *RefusedError.
func (b *Broker) Call(method, path string, body, answer any) error {
	return b.call(method, path, body, answer)
}

func (b *Broker) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("mocketmq: %s", err)
	}
}

func path(segments ...string) string {
	escaped := "/v1"
	for _, segment := range segments {
		escaped += "/" + url.PathEscape(segment)
	}
	return escaped
}
