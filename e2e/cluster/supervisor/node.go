package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// node is the first process of a node: a machine of its own in namespaces of its
// own, on the files of this one.
//
// What a node writes where a kubelet, a container runtime and an agent write goes to
// the node's folder: below /etc, /var/lib and /var/log the machine's files are seen
// and what is changed is the node's. /run is empty at each boot, as is the memory of
// a machine. When this process ends, the kernel ends all others of the node and takes
// its mounts and its network away.
func node(folder, name, cgroup string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	// Without this what is mounted here would be seen outside, and the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot have mounts of its own: %w", err)
	}
	steps := []func() error{
		func() error { return unix.Mount("proc", "/proc", "proc", 0, "") },
		func() error { return overlay("/etc") },
		func() error { return overlay("/var/lib") },
		func() error { return overlay("/var/log") },
		func() error { return unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755") },
		// The folder itself may lie below one of those.
		func() error { return unix.Mount(".", folder, "", unix.MS_BIND, "") },
		// Images are overlays themselves, and those do not lie on one another.
		func() error { return own("containerd", "/var/lib/containerd") },
		func() error { return own("kubelet", "/var/lib/kubelet") },
		// A pod's mounts are to be seen where it says so, within the node.
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
		func() error { return identify(name) },
		func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) },
		func() error { return renewCgroup(cgroup) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	// Whoever started this waits for this file; it lies in the new /run.
	if err := os.WriteFile("/run/node-is-up", nil, 0o644); err != nil {
		return err
	}
	return reapOrphans()
}

// overlay lets what is written below a folder go to the node's own.
func overlay(dir string) error {
	own := filepath.Join("overlay", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
	for _, part := range []string{"upper", "work"} {
		if err := os.MkdirAll(filepath.Join(own, part), 0o755); err != nil {
			return err
		}
	}
	// Relative paths: whatever is in the folder's name, none of it is an option's end.
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", dir, own, own)
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("cannot mount an overlay on %s: %w", dir, err)
	}
	return nil
}

// own puts one of the node's folders in the place that programs know.
func own(folder, place string) error {
	for _, dir := range []string{folder, place} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(folder, place, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s: %w", place, err)
	}
	return nil
}

// identify gives the node a name, an identity that stays and one that is new at
// each boot.
func identify(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	if err := os.WriteFile("boot-id", boot, 0o644); err != nil {
		return err
	}
	if err := unix.Mount("boot-id", "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if _, err := os.Stat("machine-id"); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	machine := []byte(strings.ReplaceAll(string(boot), "-", ""))
	if err := os.WriteFile("machine-id", machine, 0o444); err != nil {
		return err
	}
	// Not written through what may be a link: the machine's own file stays as it is.
	if err := os.Remove("/etc/machine-id"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile("/etc/machine-id", machine, 0o444)
}

// reapOrphans collects what others of the node leave behind, as the first process of
// a machine does.
func reapOrphans() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != syscall.EINTR && (err != nil || pid <= 0) {
				break
			}
		}
	}
	return nil
}
