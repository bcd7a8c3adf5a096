package mocketmqtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The scenarios of all kits; docs/kits.md describes the steps.
const scenariosFile = "../../../tests/kits/scenarios.json"

type step struct {
	Do           string                     `json:"do"`
	Topic        string                     `json:"topic"`
	Body         any                        `json:"body"`
	Options      map[string]any             `json:"options"`
	ByMS         int64                      `json:"by_ms"`
	Stage        string                     `json:"stage"`
	Group        string                     `json:"group"`
	Count        *int                       `json:"count"`
	Like         map[string]any             `json:"like"`
	WithinMS     int64                      `json:"within_ms"`
	AdvanceMS    int64                      `json:"advance_ms"`
	First        map[string]any             `json:"first"`
	SinceResetMS int64                      `json:"since_reset_ms"`
	Has          []string                   `json:"has"`
	Rule         map[string]any             `json:"rule"`
	Name         string                     `json:"name"`
	Test         string                     `json:"test"`
	Failure      string                     `json:"failure"`
	Method       string                     `json:"method"`
	Path         string                     `json:"path"`
	Save         map[string][]any           `json:"save"`
	Answer       map[string]any             `json:"answer"`
	Side         Side                       `json:"side"`
	ReadOnly     bool                       `json:"read_only"`
	Loses        string                     `json:"loses"`
	Lost         *int                       `json:"lost"`
	Fails        *struct{ By, With string } `json:"fails"`
}

func TestScenarios(t *testing.T) {
	content, err := os.ReadFile(scenariosFile)
	if err != nil {
		t.Skip("the scenarios are in mocketmq's own repository")
	}
	var suite struct {
		Scenarios []struct {
			Name        string
			Brokers     int
			NameServers int `json:"name_servers"`
			Steps       []step
		}
	}
	if err := json.Unmarshal(content, &suite); err != nil {
		t.Fatal(err)
	}
	for _, scenario := range suite.Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			play := player{saved: map[string]string{}}
			options := Options{Brokers: scenario.Brokers}
			if scenario.NameServers > 0 {
				options.Arguments = []string{"--name-servers", strconv.Itoa(scenario.NameServers)}
			}
			broker := Start(t, options)
			play.began = broker.Now()
			for number, each := range scenario.Steps {
				t.Logf("step %d: %s", number+1, each.Do)
				failure := caught(t, func(t testing.TB) { play.step(t, &Broker{broker.server, t}, each) })
				if each.Fails == nil {
					if failure != "" {
						t.Fatal(failure)
					}
					continue
				}
				byBroker := strings.Contains(failure, "the broker refused the request")
				if !strings.Contains(failure, each.Fails.With) || byBroker != (each.Fails.By == "broker") {
					t.Fatalf("failed with %q, not by the %s with %q", failure, each.Fails.By, each.Fails.With)
				}
			}
		})
	}
}

// probe is a test that may fail without failing the test around it.
type probe struct {
	testing.TB
	failure string
}

func (p *probe) Fatal(why ...any) {
	p.failure = fmt.Sprint(why...)
	panic(p)
}

func (p *probe) Fatalf(format string, values ...any) {
	p.Fatal(fmt.Sprintf(format, values...))
}

// caught returns why a test failed, or nothing.
func caught(t testing.TB, test func(testing.TB)) (failure string) {
	tried := &probe{TB: t}
	defer func() {
		if stopped := recover(); stopped != nil && stopped != any(tried) {
			panic(stopped)
		}
		failure = tried.failure
	}()
	test(tried)
	return
}

type player struct {
	began time.Time
	saved map[string]string
}

func (p *player) step(t testing.TB, mq *Broker, each step) {
	switch each.Do {
	case "reset":
		mq.Reset()
	case "saveSnapshot":
		mq.SaveSnapshot(each.Name)
	case "restoreSnapshot":
		mq.RestoreSnapshot(each.Name)
	case "pack":
		place := t.TempDir()
		file := filepath.Join(place, "failed.mocketmq")
		mq.Pack(file, each.Test, each.Failure)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, string(content[:2]), "PK")
		left, _ := os.ReadDir(place)
		equal(t, len(left), 1)
	case "advance":
		mq.Advance(time.Duration(each.ByMS) * time.Millisecond)
	case "now":
		equal(t, mq.Now().Sub(p.began).Milliseconds(), each.SinceResetMS)
	case "send":
		if id := mq.Send(each.Topic, each.Body.(string), with(each.Options)); id == "" {
			t.Fatal("the message has no id")
		}
	case "sent":
		found := mq.Sent(each.Topic)
		equal(t, len(found), *each.Count)
		for name, wanted := range each.First {
			equal(t, field(found[0], name), wanted)
		}
	case "await":
		mq.Await(each.Topic, stage(each), count(each, 1), like(each))
	case "expect":
		mq.Expect(each.Topic, stage(each), count(each, AtLeastOne), like(each))
	case "expectNothingElse":
		mq.ExpectNothingElse()
	case "faults.add":
		mq.Faults().Add(converted[Rule](each.Rule))
	case "faults.remove":
		mq.Faults().Remove(each.Name)
	case "faults.clear":
		mq.Faults().Clear()
	case "faults.list":
		equal(t, len(mq.Faults().List()), *each.Count)
	case "brokers":
		found := mq.Brokers()
		equal(t, len(found), *each.Count)
		first := converted[map[string]any](found[0])
		for name, wanted := range each.First {
			equal(t, first[name], wanted)
		}
	case "crashBroker":
		var loses []string
		if each.Loses != "" {
			loses = append(loses, each.Loses)
		}
		lost := mq.CrashBroker(each.Name, loses...)
		if each.Lost != nil {
			equal(t, lost, *each.Lost)
		}
	case "promoteSlave":
		mq.PromoteSlave(each.Name)
	case "shutDownBroker":
		mq.ShutDownBroker(each.Name)
	case "startBroker":
		mq.StartBroker(each.Name)
	case "wipeBroker":
		mq.WipeBroker(each.Name)
	case "cutOffBroker":
		mq.CutOffBroker(each.Name, each.Side)
	case "reconnectBroker":
		mq.ReconnectBroker(each.Name)
	case "setBrokerReadOnly":
		mq.SetBrokerReadOnly(each.Name, each.ReadOnly)
	case "story":
		rest := mq.Story()
		for _, text := range each.Has {
			_, after, has := strings.Cut(rest, text)
			if !has {
				t.Fatalf("the story lacks %q:\n%s", text, mq.Story())
			}
			rest = after
		}
	case "call":
		p.call(t, mq, each)
	case "addresses":
		nameServers := strings.Split(mq.NameServer(), ";")
		equal(t, len(nameServers), *each.Count)
		for _, address := range append(nameServers, mq.Endpoints(), strings.TrimPrefix(mq.URL(), "http://")) {
			connection, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			connection.Close()
		}
	default:
		t.Fatalf("no kit has the word %q", each.Do)
	}
}

func (p *player) call(t testing.TB, mq *Broker, each step) {
	var answer any
	if err := mq.Call(each.Method, each.Path, p.filled(each.Body), &answer); err != nil {
		t.Fatal(err)
	}
	for name, wanted := range each.Answer {
		equal(t, answer.(map[string]any)[name], wanted)
	}
	for name, path := range each.Save {
		value := answer
		for _, part := range path {
			if key, is := part.(string); is {
				value = value.(map[string]any)[key]
			} else {
				value = value.([]any)[int(part.(float64))]
			}
		}
		p.saved["$"+name] = value.(string)
	}
}

// filled replaces texts such as $receipt by saved values.
func (p *player) filled(value any) any {
	switch value := value.(type) {
	case string:
		if saved, has := p.saved[value]; has {
			return saved
		}
	case []any:
		for i := range value {
			value[i] = p.filled(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = p.filled(value[name])
		}
	}
	return value
}

func stage(each step) Stage {
	return Stage{each.Stage, each.Group}
}

func count(each step, usual int) int {
	if each.Count == nil {
		return usual
	}
	return *each.Count
}

func with(options map[string]any) With {
	given := converted[struct {
		Tag        string
		Keys       []string
		Properties map[string]string
		DelayLevel int   `json:"delay_level"`
		DelayMS    int64 `json:"delay_ms"`
	}](options)
	delay := time.Duration(given.DelayMS) * time.Millisecond
	return With{Tag: given.Tag, Keys: given.Keys, Properties: given.Properties, DelayLevel: given.DelayLevel, Delay: delay}
}

func like(each step) Like {
	given := converted[struct {
		Tag, Key   string
		Properties map[string]string
		Body       any
		JSONPath   map[string]any `json:"json_path"`
		Delayed    bool
	}](each.Like)
	return Like{
		Tag: given.Tag, Key: given.Key, Properties: given.Properties, Body: given.Body, JSONPath: given.JSONPath,
		Delayed: given.Delayed, Within: time.Duration(each.WithinMS) * time.Millisecond,
		Advance: time.Duration(each.AdvanceMS) * time.Millisecond,
	}
}

// field returns a field of a message by its name in the JSON API.
func field(message Message, name string) any {
	keys := make([]any, len(message.Keys))
	for i, key := range message.Keys {
		keys[i] = key
	}
	return map[string]any{
		"topic": message.Topic, "body": message.Body, "tag": message.Tag, "keys": keys, "state": message.State,
		"delay_level": float64(message.DelayLevel),
	}[name]
}

// converted reads JSON values strictly: a scenario must not have fields that the kit lacks.
func converted[T any](value any) (made T) {
	content, err := json.Marshal(value)
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(string(content)))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&made)
	}
	if err != nil {
		panic(err)
	}
	return made
}

func equal(t testing.TB, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("%#v, not %#v", found, wanted)
	}
}
