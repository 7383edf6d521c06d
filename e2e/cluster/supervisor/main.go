// Command supervisor owns every process of one cluster, so that none outlives it.
//
// Its owner (a test, the demo, a benchmark) holds the write end of the pipe that
// is the supervisor's standard input. Requests come over that pipe and answers
// leave by standard output, one JSON object a line. When the pipe closes, however
// the owner ended, every process is killed and the state folder is removed. A
// detached supervisor outlives its owner and ends on SIGTERM instead.
//
// It is a program of its own because a test binary cannot run cleanup code when
// it is killed, and it is in Go, beside the binaries it runs, so that it is built
// and found with them whichever Rust binary starts a cluster.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// request is one line from the owner.
type request struct {
	ID int `json:"id"`
	// Op is open, start, signal, detach or stop.
	Op     string         `json:"op"`
	Argv   []string       `json:"argv"`
	Env    []string       `json:"env"`
	Dir    string         `json:"dir"`
	Log    string         `json:"log"`
	Pid    int            `json:"pid"`
	Signal syscall.Signal `json:"signal"`
	// Group sends the signal to the whole process group.
	Group bool `json:"group"`
	// Isolate names the namespaces that the process gets of its own.
	Isolate []string `json:"isolate"`
	// Inside is a process in whose namespaces the new one starts.
	Inside int `json:"inside"`
}

// answer replies to the request with the same ID; exit is sent unasked, without one.
type answer struct {
	ID    int    `json:"id,omitempty"`
	Pid   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Exit  *exit  `json:"exit,omitempty"`
}

// exit says how a process ended and what it had used.
type exit struct {
	Pid        int   `json:"pid"`
	Code       int   `json:"code"`
	Signal     int   `json:"signal"`
	CPUMicros  int64 `json:"cpuMicros"`
	PeakRSSKiB int64 `json:"peakRssKib"`
}

// supervisor serialises starts, signals and reaping: a signal can therefore never
// reach a process that was already reaped and whose number was given away.
type supervisor struct {
	sync.Mutex
	out      *json.Encoder
	started  map[int]bool
	detached bool
	stopping bool
	stateDir string
}

func main() {
	switch {
	case len(os.Args) == 5 && os.Args[1] == "node":
		if err := node(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintf(os.Stderr, "the node %s cannot start: %v\n", os.Args[3], err)
			os.Exit(1)
		}
	case len(os.Args) == 2:
		supervise(os.Args[1])
	default:
		fmt.Fprintln(os.Stderr, "usage: supervisor STATE_DIR, or supervisor node FOLDER NAME CGROUP")
		os.Exit(2)
	}
}

func supervise(stateDir string) {
	s := &supervisor{out: json.NewEncoder(os.Stdout), started: map[int]bool{}, stateDir: stateDir}
	signal.Ignore(syscall.SIGPIPE, syscall.SIGINT, syscall.SIGHUP)
	// Children ask for a signal when the thread that started them ends (their last
	// resort if this process is killed itself), so all are started by this thread.
	runtime.LockOSThread()
	go s.reapForever()
	go s.stopOnSignal()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "supervisor: bad request:", err)
			continue
		}
		s.handle(r)
	}
	s.Lock()
	detached := s.detached
	s.Unlock()
	if detached {
		select {}
	}
	s.stop()
}

// open leaves the owner's session, so that a Ctrl-C in its terminal does not come
// here, becomes the parent of every orphan among its descendants, and makes the
// state folder. The owner does not make it: were it killed right then, nobody
// would remove it.
func (s *supervisor) open() error {
	if _, err := syscall.Setsid(); err != nil {
		return fmt.Errorf("setsid: %w", err)
	}
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", errno)
	}
	logs := filepath.Join(s.stateDir, "logs")
	if err := os.MkdirAll(s.stateDir, 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	// Of the owner's files only the pipes stay open: whoever reads its output may see the end of it.
	log, err := os.Create(filepath.Join(logs, "supervisor.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if err := syscall.Dup3(int(log.Fd()), int(os.Stderr.Fd()), 0); err != nil {
		return err
	}
	pid := []byte(strconv.Itoa(os.Getpid()))
	return os.WriteFile(filepath.Join(s.stateDir, "supervisor.pid"), pid, 0o600)
}

func (s *supervisor) handle(r request) {
	if r.Op == "stop" {
		s.stop()
	}
	s.Lock()
	defer s.Unlock()
	reply := answer{ID: r.ID}
	var err error
	switch r.Op {
	case "open":
		err = s.open()
	case "start":
		reply.Pid, err = s.start(r)
	case "signal":
		err = s.signal(r)
	case "detach":
		s.detached = true
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = s.out.Encode(reply)
}

func (s *supervisor) start(r request) (int, error) {
	if s.stopping || len(r.Argv) == 0 {
		return 0, fmt.Errorf("nothing to start, or stopping")
	}
	log, err := os.OpenFile(r.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Dir:   r.Dir,
		Env:   r.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	var pid int
	switch {
	case r.Inside == 0:
		if attr.Sys.Cloneflags, err = isolation(r.Isolate); err != nil {
			return 0, err
		}
		attr.Sys.Pdeathsig = syscall.SIGKILL
		pid, err = syscall.ForkExec(r.Argv[0], r.Argv, attr)
	case !s.started[r.Inside]:
		return 0, fmt.Errorf("process %d has ended: nothing starts in its namespaces", r.Inside)
	default:
		pid, err = forkInside(r.Inside, r.Argv, attr)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.Argv[0], err)
	}
	s.started[pid] = true
	return pid, nil
}

func (s *supervisor) signal(r request) error {
	if !s.started[r.Pid] {
		return syscall.ESRCH
	}
	if r.Group {
		return syscall.Kill(-r.Pid, r.Signal)
	}
	return syscall.Kill(r.Pid, r.Signal)
}

func (s *supervisor) stopOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	s.stop()
}
