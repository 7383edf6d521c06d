package main

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// reapForever collects every child that ends, adopted orphans included, and
// reports those that were started by request.
func (s *supervisor) reapForever() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		s.Lock()
		for s.reapOne() {
		}
		s.Unlock()
		<-children
	}
}

// reapOne collects one ended child and says whether there was one.
func (s *supervisor) reapOne() bool {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if s.started[pid] {
		delete(s.started, pid)
		end := exit{
			Pid:        pid,
			CPUMicros:  (usage.Utime.Nano() + usage.Stime.Nano()) / 1000,
			PeakRSSKiB: usage.Maxrss,
		}
		if status.Signaled() {
			end.Signal = int(status.Signal())
		} else {
			end.Code = status.ExitStatus()
		}
		_ = s.out.Encode(answer{Exit: &end})
	}
	return true
}

// stop kills every descendant, removes the state folder and the control groups and
// ends this process. A descendant may fork while it is looked for, so it looks until
// none is left.
func (s *supervisor) stop() {
	s.Lock()
	s.stopping = true
	for {
		for s.reapOne() {
		}
		left := descendants(os.Getpid())
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	err := errors.Join(removeCgroups(os.Getpid()), os.RemoveAll(s.stateDir))
	if err != nil {
		_ = s.out.Encode(answer{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// descendants finds every process below root in the process tree.
func descendants(root int) []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// The command, in parentheses, may hold anything: the state and the parent follow its last one.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(string(fields[1]))
		}
	}
	var found []int
	for pid := range parents {
		for up := parents[pid]; up > 0; up = parents[up] {
			if up == root {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}
