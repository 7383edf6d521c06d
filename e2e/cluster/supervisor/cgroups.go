package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are the mounted trees of control groups: one, or one for each
// controller and one more.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		// The others are links, such as cpu,cpuacct.
		if entry.IsDir() {
			found = append(found, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return found, nil
}

// renewCgroup makes a control group below which a node's pods have theirs; those of
// its last boot are gone, as they are with a machine. Its name begins with whalezen-
// and the supervisor's number, who removes it: processes end with their namespaces,
// control groups do not.
func renewCgroup(name string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		group := filepath.Join(tree, name)
		if err := errors.Join(removeTree(group), os.MkdirAll(group, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes a supervisor's control groups, and those of supervisors that
// were killed before they could.
func removeCgroups(own int) error {
	trees, err := hierarchies()
	if err != nil {
		// A machine without control groups has none of ours.
		return nil
	}
	var failed []error
	for _, tree := range trees {
		groups, _ := filepath.Glob(filepath.Join(tree, "whalezen-*"))
		for _, group := range groups {
			var pid int
			if _, err := fmt.Sscanf(filepath.Base(group), "whalezen-%d", &pid); err != nil {
				continue
			}
			if pid == own {
				failed = append(failed, removeTree(group))
			} else if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, os.ErrNotExist) {
				// Whoever else sees it may come first.
				_ = removeTree(group)
			}
		}
	}
	return errors.Join(failed...)
}

// removeTree removes a control group with those below it. The kernel may take some
// milliseconds to let go of one whose last process has ended.
func removeTree(root string) error {
	var groups []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	slices.Reverse(groups)
	var failed []error
	for _, group := range groups {
		failed = append(failed, removeWhenFree(group))
	}
	return errors.Join(failed...)
}

func removeWhenFree(group string) error {
	const patience = 2 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := syscall.Rmdir(group)
		if err == nil || err == syscall.ENOENT {
			return nil
		}
		if err != syscall.EBUSY || time.Now().After(deadline) {
			return fmt.Errorf("cannot remove the control group %s: %w", group, err)
		}
	}
}
