package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are those a process may have of its own, by the names they have in
// /proc/PID/ns. The last one entered is mnt: it hides the files of the others.
var namespaces = []struct {
	name string
	flag uintptr
}{
	{"net", unix.CLONE_NEWNET},
	{"uts", unix.CLONE_NEWUTS},
	{"pid", unix.CLONE_NEWPID},
	{"mnt", unix.CLONE_NEWNS},
}

// isolation is the flags for a process that gets namespaces of its own.
func isolation(names []string) (uintptr, error) {
	var flags uintptr
	for _, name := range names {
		known := false
		for _, namespace := range namespaces {
			if namespace.name == name {
				flags |= namespace.flag
				known = true
			}
		}
		if !known {
			return 0, fmt.Errorf("there is no kind of namespaces %q", name)
		}
	}
	return flags, nil
}

// forkInside starts a process in the namespaces of another one, its holder.
//
// A thread that has entered them cannot go back, so one is used up for each
// process. The process gets no signal when that thread ends, which is at once; where
// it is in the process namespace of its holder, it ends with that one.
func forkInside(holder int, argv []string, attr *syscall.ProcAttr) (int, error) {
	type outcome struct {
		pid int
		err error
	}
	done := make(chan outcome)
	go func() {
		// Never unlocked: the runtime ends the thread with this function.
		runtime.LockOSThread()
		if err := enter(holder); err != nil {
			done <- outcome{err: err}
			return
		}
		pid, err := syscall.ForkExec(argv[0], argv, attr)
		done <- outcome{pid, err}
	}()
	result := <-done
	return result.pid, result.err
}

// enter moves this thread, and the processes that it starts, into the namespaces of
// a process.
func enter(holder int) error {
	var files []*os.File
	for _, namespace := range namespaces {
		file, err := os.Open("/proc/" + strconv.Itoa(holder) + "/ns/" + namespace.name)
		if err != nil {
			return err
		}
		defer file.Close()
		files = append(files, file)
	}
	// A thread that shares its root and its folder with others may not leave their mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare(CLONE_FS): %w", err)
	}
	for i, namespace := range namespaces {
		if err := unix.Setns(int(files[i].Fd()), int(namespace.flag)); err != nil {
			return fmt.Errorf("cannot enter the %s namespace of process %d: %w", namespace.name, holder, err)
		}
	}
	return nil
}
