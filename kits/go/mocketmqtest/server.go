package mocketmqtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// server is a broker that the kit found or started, with a client of its JSON API.
type server struct {
	url, nameServer, endpoints, token string
	forget                            bool
	process                           *process // nil: it is not ours
	http                              http.Client
}

// RefusedError is the broker's answer to a request that it refuses.
type RefusedError struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the broker refused the request: %s (HTTP status %d)", e.Title, e.Status)
	}
	return "the broker refused the request: " + e.Detail
}

type info struct {
	Clock   string `json:"clock"`
	Profile string `json:"profile"`
	Levels  string `json:"levels"`
	Doors   struct {
		Namesrv     *openPort      `json:"namesrv"`
		NameServers []openPort     `json:"name_servers"`
		GRPC        *openPort      `json:"grpc"`
		Brokers     map[string]any `json:"brokers"`
	} `json:"doors"`
}

type openPort struct {
	Port int `json:"port"`
}

// open finds or starts a broker.
func open(options Options) (*server, error) {
	if address := os.Getenv(urlVariable); address != "" {
		return connect(address, options)
	}
	program, err := findProgram()
	if err != nil {
		return nil, err
	}
	started, err := startProcess(program, options.arguments())
	if err != nil {
		return nil, err
	}
	found := &server{url: started.url, process: started, forget: options.Forget}
	if _, err := found.readInfo(); err != nil {
		started.stop()
		return nil, err
	}
	return found, nil
}

// connect returns the broker at an address, after checking that its options fit the test.
func connect(address string, options Options) (*server, error) {
	found := &server{
		url: strings.TrimRight(address, "/"), token: os.Getenv(tokenVariable), forget: options.Forget,
	}
	about, err := found.readInfo()
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", urlVariable, address, err)
	}
	for _, each := range [][3]string{
		{"clock", options.clock(), about.Clock},
		{"profile", options.Profile, about.Profile},
		{"levels", options.Levels, about.Levels},
		{"brokers", options.brokers(), strconv.Itoa(max(len(about.Doors.Brokers), 1))},
	} {
		if name, wanted, has := each[0], each[1], each[2]; wanted != "" && wanted != has {
			return nil, fmt.Errorf("the test needs a broker with %s %s; the one at %s has %s", name, wanted, address, has)
		}
	}
	return found, nil
}

func (s *server) readInfo() (about info, err error) {
	address, err := url.Parse(s.url)
	if err != nil || address.Hostname() == "" {
		return about, fmt.Errorf("%q is no address such as http://127.0.0.1:9877", s.url)
	}
	if err = s.call("GET", "/v1/info", nil, &about); err != nil {
		return about, err
	}
	at := func(ports ...openPort) string {
		addresses := make([]string, len(ports))
		for i, each := range ports {
			addresses[i] = net.JoinHostPort(address.Hostname(), strconv.Itoa(each.Port))
		}
		return strings.Join(addresses, ";")
	}
	if len(about.Doors.NameServers) > 0 {
		s.nameServer = at(about.Doors.NameServers...)
	} else if about.Doors.Namesrv != nil {
		s.nameServer = at(*about.Doors.Namesrv)
	}
	if about.Doors.GRPC != nil {
		s.endpoints = at(*about.Doors.GRPC)
	}
	return about, nil
}

// call makes a request of the JSON API. A nil body sends none; the answer is decoded into a pointer, left unread if
// the pointer is nil, or returned as it is in a *[]byte.
func (s *server) call(method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, s.url+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.http.Do(request)
	if err != nil {
		return s.unreachable(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return s.unreachable(err)
	}
	if response.StatusCode >= 400 {
		refused := &RefusedError{Status: response.StatusCode, Title: http.StatusText(response.StatusCode)}
		_ = json.Unmarshal(content, refused) // the answer of another server has only a status
		return refused
	}
	if answer == nil {
		return nil
	}
	if raw, ok := answer.(*[]byte); ok {
		*raw = content
		return nil
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("%s does not look like a mocketmq broker: %s %s: %w", s.url, method, path, err)
	}
	return nil
}

func (s *server) unreachable(err error) error {
	if s.process != nil && !s.process.isRunning() {
		return fmt.Errorf("the broker died: %s; its last lines:\n%s", s.process.command.ProcessState, s.process.output())
	}
	return fmt.Errorf("no broker answers at %s: %w", s.url, err)
}

func (s *server) reset() error {
	return s.call("POST", "/v1/reset", map[string]any{"clock": "start", "forget": s.forget}, nil)
}

func (s *server) stop() {
	s.http.CloseIdleConnections()
	if s.process != nil {
		s.process.stop()
	}
}
