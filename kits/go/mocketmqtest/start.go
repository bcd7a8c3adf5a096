// Package mocketmqtest gives tests a RocketMQ broker: mocketmq, in a process of its own.
//
//	func TestAnUnpaidOrderIsCancelled(t *testing.T) {
//		mq := mocketmqtest.Start(t)
//		shop := NewShop(mq.NameServer())
//		shop.Order("7")
//		mq.Advance(30 * time.Minute)
//		mq.Await("orders", mocketmqtest.Acknowledged("billing"), 1)
//	}
//
// The first Start of a test process starts the broker, and each further Start resets it. The broker ends with
// the process. docs/kits.md of mocketmq says how the broker is found.
//
// Methods fail their test as t.Fatal does, so they belong to the goroutine of the test.
package mocketmqtest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Options choose a broker. Tests with equal options share one.
type Options struct {
	// Clock is manual (the default), real, or xN for N times as fast.
	Clock string
	// Profile is exact (the default) or rocketmq4.
	Profile string
	// Levels are the delay levels, such as "1s 5s 10s".
	Levels string
	// Brokers is the number of brokers in the cluster; 1 by default.
	Brokers int
	// Arguments are further options of `mocketmq serve`, split as by a shell. A broker at MOCKETMQ_URL ignores
	// them.
	Arguments []string
	// Forget makes each reset remove topics and groups as well.
	Forget bool
	// Snapshot names a snapshot that Start restores instead of a reset. It was saved before, or is in the directory
	// of `--snapshots`.
	Snapshot string
}

func (o Options) clock() string {
	if o.Clock == "" {
		return "manual"
	}
	return o.Clock
}

func (o Options) brokers() string {
	if o.Brokers == 0 {
		return ""
	}
	return strconv.Itoa(o.Brokers)
}

func (o Options) arguments() []string {
	// Closing push consumers of RocketMQ 5 wait for their long polls, which would slow tests down.
	given := []string{"--data", ":memory:", "--max-long-poll", "1s", "--clock", o.clock()}
	if o.Profile != "" {
		given = append(given, "--profile", o.Profile)
	}
	if o.Levels != "" {
		given = append(given, "--levels", o.Levels)
	}
	if o.Brokers != 0 {
		given = append(given, "--brokers", o.brokers())
	}
	return append(given, o.Arguments...)
}

// shared is a broker of this process, with the tests that use it: a test and its running subtest.
type shared struct {
	*server
	key   string
	users []string
}

var (
	mutex   sync.Mutex
	brokers []*shared
)

// Start returns an empty broker for the test: the broker of this process, started if there is none yet. A
// parallel test (t.Parallel) gets a broker that no other test uses meanwhile; a subtest gets the broker of
// its test. The log of a failed test has the broker's story.
func Start(t testing.TB, options ...Options) *Broker {
	t.Helper()
	var wanted Options
	if len(options) > 0 {
		wanted = options[0]
	}
	found, err := lease(t.Name(), wanted)
	if err != nil {
		t.Fatalf("mocketmq: %s", err)
	}
	broker := &Broker{server: found.server, t: t}
	t.Cleanup(func() {
		defer release(found)
		if t.Failed() {
			t.Logf("mocketmq: what the broker saw\n%s", broker.Story())
		}
	})
	if wanted.Snapshot == "" {
		broker.Reset()
	} else {
		broker.RestoreSnapshot(wanted.Snapshot)
	}
	return broker
}

// Stop stops all brokers that the kit started. They also stop at the end of the process.
func Stop() {
	mutex.Lock()
	defer mutex.Unlock()
	for _, each := range brokers {
		each.stop()
	}
	brokers = nil
}

func lease(test string, options Options) (*shared, error) {
	mutex.Lock()
	defer mutex.Unlock()
	options.Snapshot = "" // tests with other snapshots share the broker
	key := fmt.Sprintf("%#v", options)
	var other string
	kept := brokers[:0]
	var found *shared
	for _, each := range brokers {
		if each.process != nil && !each.process.isRunning() {
			continue
		}
		kept = append(kept, each)
		switch {
		case each.isFor(test) && each.key == key:
			found = each
		case each.isFor("") && each.key == key && found == nil:
			found = each
		case len(each.users) > 0 && each.process == nil:
			other = each.users[len(each.users)-1]
		}
	}
	brokers = kept
	if found == nil {
		if other != "" {
			return nil, fmt.Errorf("%s names one broker, which %s uses: run tests one after the other, or without %s",
				urlVariable, other, urlVariable)
		}
		opened, err := open(options)
		if err != nil {
			return nil, err
		}
		found = &shared{server: opened, key: key}
		brokers = append(brokers, found)
	}
	found.users = append(found.users, test)
	return found, nil
}

// isFor reports whether this test, or a test that it is part of, uses the broker; for "", whether it is free.
func (s *shared) isFor(test string) bool {
	if len(s.users) == 0 || test == "" {
		return len(s.users) == 0 && test == ""
	}
	user := s.users[len(s.users)-1]
	return test == user || strings.HasPrefix(test, user+"/")
}

func release(used *shared) {
	mutex.Lock()
	defer mutex.Unlock()
	used.users = used.users[:len(used.users)-1]
}
