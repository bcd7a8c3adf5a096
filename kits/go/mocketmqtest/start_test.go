package mocketmqtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheNextTestHasTheSameBrokerEmptied(t *testing.T) {
	var first string
	t.Run("first", func(t *testing.T) {
		mq := Start(t)
		first = mq.URL()
		mq.Send("orders", "order 7")
		mq.Advance(time.Hour)
	})
	t.Run("next", func(t *testing.T) {
		mq := Start(t)
		equal(t, mq.URL(), first)
		equal(t, len(mq.Sent("orders")), 0)
		mq.ExpectNothingElse()
	})
}

func TestATestBeginsWithItsSnapshot(t *testing.T) {
	var first string
	t.Run("saving", func(t *testing.T) {
		mq := Start(t)
		first = mq.URL()
		mq.Send("orders", "order 7")
		mq.SaveSnapshot("one-order")
	})
	t.Run("next", func(t *testing.T) {
		mq := Start(t, Options{Snapshot: "one-order"})
		equal(t, mq.URL(), first)
		equal(t, len(mq.Sent("orders")), 1)
	})
}

func TestASubtestHasTheBrokerOfItsTest(t *testing.T) {
	outer := Start(t)
	t.Run("sub", func(t *testing.T) {
		equal(t, Start(t).URL(), outer.URL())
	})
	equal(t, Start(t).URL(), outer.URL())
}

func TestTestsAtTheSameTimeHaveABrokerEach(t *testing.T) {
	used := make(chan string, 2)
	t.Run("both", func(t *testing.T) {
		for _, name := range []string{"one", "another"} {
			name := name
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mq := Start(t)
				mq.Send("orders", name)
				used <- mq.URL()
				for len(used) < 2 { // until the other has its own
					mq.Expect("orders", Sent, 1, Like{Body: name})
				}
			})
		}
	})
	if one, another := <-used, <-used; one == another {
		t.Fatal("both tests have", one)
	}
}

func TestOptionsChooseAnotherBroker(t *testing.T) {
	usual := Start(t)
	other := Start(t, Options{Clock: "x100", Levels: "1s 2s", Arguments: []string{"--topic-queues", "7"}})
	if usual.URL() == other.URL() {
		t.Fatal("they share a broker")
	}
	var about info
	if err := other.Call("GET", "/v1/info", nil, &about); err != nil {
		t.Fatal(err)
	}
	equal(t, about.Clock+", "+about.Levels, "x100, 1s 2s")
}

func TestABrokerThatDiedIsReplaced(t *testing.T) {
	t.Run("dies", func(t *testing.T) {
		mq := Start(t)
		if err := mq.process.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-mq.process.ended
		if failure := caught(t, func(t testing.TB) { (&Broker{mq.server, t}).Reset() }); !strings.Contains(failure, "the broker died: signal: killed") {
			t.Fatal(failure)
		}
	})
	t.Run("next", func(t *testing.T) {
		Start(t).Send("orders", "order 7")
	})
}

func TestStopEndsTheBroker(t *testing.T) {
	mq := Start(t)
	Stop()
	if mq.process.isRunning() {
		t.Fatal("it runs on")
	}
	equal(t, mq.process.command.ProcessState.ExitCode(), 0)
}

func TestABrokerAtAnAddressIsUsedByOneTestAtATime(t *testing.T) {
	Stop()
	there, err := open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer there.stop()
	defer Stop()
	t.Setenv(urlVariable, there.url)
	mq := Start(t)
	equal(t, mq.URL(), there.url)
	_, err = lease("TestOther", Options{})
	contains(t, err, "MOCKETMQ_URL names one broker, which TestABrokerAtAnAddressIsUsedByOneTestAtATime uses")
	_, err = open(Options{Clock: "real"})
	contains(t, err, "the test needs a broker with clock real; the one at "+there.url+" has manual")
	t.Setenv(urlVariable, "127.0.0.1:9")
	_, err = open(Options{})
	contains(t, err, `MOCKETMQ_URL is "127.0.0.1:9": `)
}

func TestAWrongSettingIsExplained(t *testing.T) {
	_, err := open(Options{Profile: "fast"})
	contains(t, err, "the broker did not start: exit status 2")
	contains(t, err, "--profile")
}

func TestARefusalIsAnError(t *testing.T) {
	err := Start(t).Call("POST", "/v1/clock/advance", map[string]any{"by": "soon"}, nil)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Field != "by" || refused.Status != 400 {
		t.Fatal(err)
	}
}

func TestABodyMayBeBytesAndAMessageDelayedToAnInstant(t *testing.T) {
	mq := Start(t)
	mq.Send("orders", "\xff\x00", With{DeliverAt: time.Now().Add(time.Hour)})
	message := mq.Expect("orders", Sent, 1, Like{Body: []byte("\xff\x00"), Delayed: true})[0]
	equal(t, message.Body, "\xff\x00")
	if message.Due.Sub(mq.Now()) < 59*time.Minute || !message.Delivered.IsZero() {
		t.Fatal(message)
	}
	mq.Expect("orders", Sent, 0, Like{NotDelayed: true})
}

func TestWithoutAProgramTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := findProgram()
	equal(t, err, errNoProgram)
}

func TestABundleIsAFolderOrAnArchive(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	bundle := filepath.Join(home, "mocketmq-0.1.0-linux-x86_64")
	program := filepath.Join(bundle, "mocketmq")
	must(t, os.MkdirAll(bundle, 0o755))
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	t.Setenv(bundleVariable, bundle)
	found, err := findProgram()
	must(t, err)
	equal(t, found, program)

	archive := filepath.Join(home, "bundle.tar.gz")
	must(t, exec.Command("tar", "-czf", archive, "-C", home, filepath.Base(bundle)).Run())
	t.Setenv(bundleVariable, archive)
	found, err = findProgram()
	must(t, err)
	if !strings.HasPrefix(found, home) || !strings.Contains(found, "bundle-") {
		t.Fatal(found)
	}
	again, err := findProgram()
	must(t, err)
	equal(t, again, found)

	must(t, os.WriteFile(archive+".sha256", []byte("abc  bundle.tar.gz\n"), 0o644))
	_, err = findProgram()
	contains(t, err, "not that of "+archive+".sha256")
	t.Setenv(bundleVariable, t.TempDir())
	_, err = findProgram()
	contains(t, err, "which has no program mocketmq")
	t.Setenv(bundleVariable, filepath.Join(home, "none"))
	_, err = findProgram()
	contains(t, err, "which cannot be read")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contains(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("%v, without %q", err, text)
	}
}
