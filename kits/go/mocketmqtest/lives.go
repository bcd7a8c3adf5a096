package mocketmqtest

// BrokerState is the state of one broker of the cluster.
type BrokerState struct {
	// Name is broker-a, broker-b, and so on.
	Name string `json:"name"`
	// State is running, crashed or shut-down.
	State string `json:"state"`
	// CutOffFrom has clients, name-servers, both or none.
	CutOffFrom []string `json:"cut_off_from"`
	ReadOnly   bool     `json:"read_only"`
	// InRoutes says whether the name server lists the broker.
	InRoutes bool `json:"in_routes"`
	// InRoutesUntilMS is when routes forget a broker that is silent, by the broker's clock; else 0.
	InRoutesUntilMS int64 `json:"in_routes_until_ms"`
	// Held counts delayed messages that are due and wait for the broker to start again.
	Held int `json:"held"`
	// Port is that of the master, or 0 without remoting.
	Port int `json:"port"`
	// SlavePort is 0 and SlaveState empty without a slave. The state is running or down.
	SlavePort  int    `json:"slave_port"`
	SlaveState string `json:"slave_state"`
	// Promoted says whether a promotion has made the slave the master.
	Promoted bool `json:"promoted"`
}

// Side is what CutOffBroker cuts a broker off from.
type Side string

const (
	Clients     Side = "clients"
	NameServers Side = "name-servers"
)

// Brokers returns the brokers of the cluster, broker-a first.
func (b *Broker) Brokers() []BrokerState {
	b.t.Helper()
	var found struct {
		Brokers []BrokerState `json:"brokers"`
	}
	b.check(b.call("GET", "/v1/brokers", nil, &found))
	return found.Brokers
}

// CrashBroker ends a broker's connections and closes its ports. Routes name it for another 120 s of its clock.
// It returns how many messages the broker has lost: what it stored in the last "200ms" of its clock, "nothing",
// or what is "unreplicated". Without one of these, the broker's setting crash_loses says it.
func (b *Broker) CrashBroker(name string, loses ...string) int {
	b.t.Helper()
	if len(loses) > 1 {
		b.t.Fatalf("CrashBroker takes one text that says what is lost, not %q", loses)
	}
	wanted := map[string]string{}
	if len(loses) == 1 {
		wanted["loses"] = loses[0]
	}
	var crash struct {
		Lost int `json:"lost"`
	}
	b.check(b.call("POST", path("brokers", name, "crash"), wanted, &crash))
	return crash.Lost
}

// ShutDownBroker shuts a broker down, which takes it out of all routes at once.
func (b *Broker) ShutDownBroker(name string) {
	b.t.Helper()
	b.change(name, "shutdown")
}

// PromoteSlave makes the slave of a broker its master. The old master becomes the slave, at once if it
// runs, otherwise when it starts.
func (b *Broker) PromoteSlave(name string) {
	b.t.Helper()
	b.change(name, "promote")
}

// StartBroker starts a broker again, which delivers what became due while it was down.
func (b *Broker) StartBroker(name string) {
	b.t.Helper()
	b.change(name, "start")
}

// WipeBroker deletes all messages and offsets of a broker that is down, as if its disk were lost.
func (b *Broker) WipeBroker(name string) {
	b.t.Helper()
	b.change(name, "wipe")
}

// CutOffBroker cuts a broker off from its clients, which then get no answers, or from the name servers.
func (b *Broker) CutOffBroker(name string, from Side) {
	b.t.Helper()
	b.change(name, "cut-off-from-"+string(from))
}

// ReconnectBroker reconnects a broker that is cut off.
func (b *Broker) ReconnectBroker(name string) {
	b.t.Helper()
	b.change(name, "reconnect")
}

// SetBrokerReadOnly makes a broker read-only, or writable again. Routes say so at once.
func (b *Broker) SetBrokerReadOnly(name string, readOnly bool) {
	b.t.Helper()
	if readOnly {
		b.change(name, "read-only")
	} else {
		b.change(name, "writable")
	}
}

func (b *Broker) change(name, action string) {
	b.t.Helper()
	b.check(b.call("POST", path("brokers", name, action), nil, nil))
}
