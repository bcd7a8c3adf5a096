package mocketmqtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	startWithin = 60 * time.Second
	stopWithin  = 10 * time.Second
	lastLines   = 20
)

var startLine = regexp.MustCompile(`^mocketmq \S+ is ready.*?(https?://\S+:\d+)`)

// process is a running `mocketmq serve`. The broker stops when its standard input ends: a pipe that closes
// with this process, even if it is killed.
type process struct {
	url     string
	command *exec.Cmd
	input   io.Closer
	ended   chan struct{} // closed when the process has ended
	once    sync.Once

	mutex sync.Mutex
	lines []string // the last lines of its output
}

func startProcess(program string, arguments []string) (*process, error) {
	command := exec.Command(program, append([]string{"serve", "--until-eof", "--port", "0"}, arguments...)...)
	command.Env = environment()
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Pipes of this process: the broker must not hold the output of `go test` open.
	output, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	writer.Close()
	if err != nil {
		output.Close()
		return nil, fmt.Errorf("%s cannot be run: %w", program, err)
	}
	started := &process{command: command, input: input, ended: make(chan struct{})}
	ready := make(chan string, 1)
	go started.read(output, ready)
	select {
	case started.url = <-ready:
		return started, nil
	case <-started.ended:
		return nil, fmt.Errorf("the broker did not start: %s\n%s\n%s", command.ProcessState, command, started.output())
	case <-time.After(startWithin):
		started.stop()
		return nil, fmt.Errorf("the broker was not ready in %s\n%s\n%s", startWithin, command, started.output())
	}
}

func (p *process) read(output io.ReadCloser, ready chan<- string) {
	defer output.Close()
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := startLine.FindStringSubmatch(lines.Text()); found != nil {
			select {
			case ready <- found[1]:
			default:
			}
		}
		p.mutex.Lock()
		p.lines = append(p.lines, lines.Text())
		p.lines = p.lines[max(0, len(p.lines)-lastLines):]
		p.mutex.Unlock()
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long
	_ = p.command.Wait()
	close(p.ended)
}

// output returns the last lines that the broker wrote.
func (p *process) output() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.lines) == 0 {
		return "(it wrote nothing)"
	}
	return strings.Join(p.lines, "\n")
}

func (p *process) isRunning() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) stop() {
	p.once.Do(func() { p.input.Close() })
	select {
	case <-p.ended:
	case <-time.After(stopWithin):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// environment returns the environment of this process, without settings of a broker.
func environment() []string {
	var found []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MOCKETMQ_") {
			found = append(found, variable)
		}
	}
	return found
}
