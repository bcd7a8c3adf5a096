package mocketmqtest

// Rule is a fault to inject (Do), where and when; docs/faults.md of mocketmq describes the fields.
type Rule struct {
	Do          string  `json:"do"`
	Name        string  `json:"name,omitempty"`
	Door        string  `json:"door,omitempty"`
	Broker      string  `json:"broker,omitempty"`
	Operation   string  `json:"operation,omitempty"`
	Topic       string  `json:"topic,omitempty"`
	Group       string  `json:"group,omitempty"`
	Client      string  `json:"client,omitempty"`
	Next        int     `json:"next,omitempty"`
	Every       int     `json:"every,omitempty"`
	FromMS      int64   `json:"from_ms,omitempty"`
	ToMS        int64   `json:"to_ms,omitempty"`
	Lasts       string  `json:"lasts,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Seed        int64   `json:"seed,omitempty"`
	Error       string  `json:"error,omitempty"`
	// By is a string, or a []string to draw from.
	By        any    `json:"by,omitempty"`
	BackAfter string `json:"back_after,omitempty"`
	Stage     string `json:"stage,omitempty"`
	Level     int    `json:"level,omitempty"`
	Times     int    `json:"times,omitempty"`
	PerSecond int    `json:"per_second,omitempty"`
}

// Fault is a rule with its counts.
type Fault struct {
	Rule
	// State is waiting, active, spent or over.
	State string `json:"state"`
	// Matched counts matching requests or deliveries, Fired those that failed, Held the deliveries that the
	// rule holds.
	Matched int `json:"matched"`
	Fired   int `json:"fired"`
	Held    int `json:"held"`
}

// Faults adds and removes rules. A reset removes all.
type Faults struct{ broker *Broker }

// Faults returns the injected faults.
func (b *Broker) Faults() Faults { return Faults{b} }

// Add injects a fault from now on.
func (f Faults) Add(rule Rule) (added Fault) {
	f.broker.t.Helper()
	f.broker.check(f.broker.call("POST", "/v1/faults", rule, &added))
	return added
}

// Remove ends the rule with this name. Messages that it held are delivered.
func (f Faults) Remove(name string) {
	f.broker.t.Helper()
	f.broker.check(f.broker.call("DELETE", path("faults", name), nil, nil))
}

// Clear ends all rules.
func (f Faults) Clear() {
	f.broker.t.Helper()
	f.broker.check(f.broker.call("DELETE", "/v1/faults", nil, nil))
}

// List returns all rules with their counts, oldest first.
func (f Faults) List() []Fault {
	f.broker.t.Helper()
	var found struct {
		Faults []Fault `json:"faults"`
	}
	f.broker.check(f.broker.call("GET", "/v1/faults", nil, &found))
	return found.Faults
}
