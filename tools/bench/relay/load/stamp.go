package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// stampKey sorts before every other annotation of a pod, so that it is found soon.
const stampKey = "bench/stamp"

var (
	stampMark   = []byte(`"` + stampKey + `":"`)
	versionMark = []byte(`"resourceVersion":"`)
)

// stamp is what the updater writes into a pod: the number of the update among
// all and among those of this pod, both from 1, and when it was sent.
type stamp struct {
	number, pod, ofPod int
	sentAt             int64 // Unix nanoseconds
}

func (s stamp) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", s.number, s.pod, s.ofPod, s.sentAt)
}

var errNoStamp = errors.New("no stamp")

// readStamp finds the stamp in a pod's JSON.
func readStamp(line []byte) (stamp, error) {
	text, err := quoted(line, stampMark)
	if err != nil {
		return stamp{}, err
	}
	var parts [4]int64
	for i := range parts {
		field := text
		if end := bytes.IndexByte(text, '.'); end >= 0 {
			field, text = text[:end], text[end+1:]
		} else if i < len(parts)-1 {
			return stamp{}, errNoStamp
		}
		if parts[i], err = number(field); err != nil {
			return stamp{}, err
		}
	}
	return stamp{int(parts[0]), int(parts[1]), int(parts[2]), parts[3]}, nil
}

// readVersion finds the first resourceVersion in JSON: metadata's, in what
// Kubernetes writes.
func readVersion(content []byte) (int64, error) {
	text, err := quoted(content, versionMark)
	if err != nil {
		return 0, err
	}
	return number(text)
}

// quoted is what stands between mark and the next quotation mark.
func quoted(content, mark []byte) ([]byte, error) {
	start := bytes.Index(content, mark)
	if start < 0 {
		return nil, errNoStamp
	}
	rest := content[start+len(mark):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, errNoStamp
	}
	return rest[:end], nil
}

// number converts without making a string of it.
func number(text []byte) (int64, error) {
	var value int64
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return 0, strconv.ErrSyntax
		}
		value = value*10 + int64(digit-'0')
	}
	return value, nil
}
