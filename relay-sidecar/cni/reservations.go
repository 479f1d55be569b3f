package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// reservation is one file: the addresses of one interface of one pod.
type reservation struct {
	UID       string   `json:"uid,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	IfName    string   `json:"ifName"`
	Addresses []string `json:"addresses"`
	// ContainerID is the sandbox in whose name the delegate holds the addresses.
	ContainerID string `json:"containerID"`
	// Former sandboxes may hold them as well: an ADD was cut short.
	Former []string `json:"former,omitempty"`
	// Attached: that sandbox was not deleted yet.
	Attached bool `json:"attached"`
	// Absent: the pod is known to be gone, for AbsentSeconds of running time; DetachedSeconds that
	// it has had no sandbox. `gc` counts both.
	Absent          bool    `json:"absent,omitempty"`
	AbsentSeconds   float64 `json:"absentSeconds,omitempty"`
	DetachedSeconds float64 `json:"detachedSeconds,omitempty"`
	// Config as the delegate saw it, so that the addresses can be given back without a runtime.
	Config json.RawMessage `json:"config"`
	key    string
}

// store holds the reservations of one network, under a lock of its own.
type store struct {
	folder string
	lock   *os.File
}

// openStore waits for the lock; what it holds is another sandbox of this network.
func openStore(stateDir, network string) (*store, error) {
	folder := filepath.Join(stateDir, network)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("reservations cannot be kept: %w; name a writable ipam.sticky.stateDir", err)
	}
	lock, err := os.OpenFile(filepath.Join(folder, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reservations cannot be kept: %w; name a writable ipam.sticky.stateDir", err)
	}
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		// A delegate that outlives this process keeps the lock until it has ended.
		_, err = unix.FcntlInt(lock.Fd(), unix.F_SETFD, 0)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return &store{folder, lock}, nil
}

// readStore opens the store, and reads all of it.
func readStore(stateDir, network string) (*store, []*reservation, error) {
	opened, err := openStore(stateDir, network)
	if err != nil {
		return nil, nil, err
	}
	known, err := opened.all()
	if err != nil {
		opened.close()
		return nil, nil, err
	}
	return opened, known, nil
}

func (s *store) close() { s.lock.Close() }

func fileName(key, ifName string) string { return key + "@" + ifName + ".json" }

// all reads every reservation. One that is damaged is set aside, and said on stderr.
func (s *store) all() ([]*reservation, error) {
	names, err := filepath.Glob(filepath.Join(s.folder, "*@*.json"))
	if err != nil {
		return nil, err
	}
	var found []*reservation
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := &reservation{}
		if err := json.Unmarshal(content, r); err != nil || len(r.Addresses) == 0 {
			fmt.Fprintf(os.Stderr, "sticky-ipam: %s is damaged, set aside as .damaged\n", name)
			if err := os.Rename(name, name+".damaged"); err != nil {
				return nil, err
			}
			continue
		}
		r.key, _, _ = strings.Cut(filepath.Base(name), "@")
		found = append(found, r)
	}
	return found, nil
}

// put makes the reservation outlast a power cut, whole or not at all.
func (s *store) put(r *reservation) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	target := filepath.Join(s.folder, fileName(r.key, r.IfName))
	file, err := os.CreateTemp(s.folder, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err == nil {
		err = s.sync()
	}
	return err
}

func (s *store) remove(r *reservation) error {
	err := os.Remove(filepath.Join(s.folder, fileName(r.key, r.IfName)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.sync()
}

func (s *store) sync() error {
	folder, err := os.Open(s.folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// usable are the addresses that the network, as it is configured now, can still give.
func (r *reservation) usable(conf *netConf) []string {
	for _, address := range r.Addresses {
		if ip := net.ParseIP(address); ip == nil || !conf.contains(ip) {
			return nil
		}
	}
	return r.Addresses
}
